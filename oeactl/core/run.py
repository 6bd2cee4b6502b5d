"""Results, schema version 2: a run is a plan of trials, and what came out of them.

Owns: the typed records of ``plan.json``, ``trials/NNN-X.json`` and ``analysis.json``; names have units, times
are aware. Refuses: to read or write (results.py does), and an unknown key.

A ``bench`` is a run of one attached trial; an ``ab``, ``aa`` or ``scan`` is one of many fresh ones.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from oeactl.core.caches import CachesSeen
from oeactl.core.change import Change
from oeactl.core.evidence import Activation, Gate, Target
from oeactl.core.experiment import Design, Failure, Verdict
from oeactl.core.host import Value
from oeactl.core.load import ClientLoad, Measurement, Point, Sweep
from oeactl.core.provenance import (
    DriverRecord,
    EngineRecord,
    HostRecord,
    ModelRecord,
    Moment,
    ProofRecord,
    ServerRecord,
)
from oeactl.core.redact import is_secret_name, redact_text
from oeactl.core.routing import ExpertsSeen
from oeactl.core.saturation import Goodput, Saturation
from oeactl.core.telemetry import Watched
from oeactl.core.version import SCHEMA_VERSION as SCHEMA_VERSION

Kind = Literal["plan", "trial", "analysis", "attachment", "change"]
Outcome = Literal["completed", "interrupted", "server_lost", "failed", "unfinished"]


class AppliedRecipe(Value, frozen=True, kw_only=True):
    """One applied recipe. digest: the plan's, as the proofs carry it. args, env: added to the launch."""

    recipe: str
    revision: int
    parameters: dict[str, Any]
    digest: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def described(self) -> str:
        """'oea (k0=4, min_tokens=2)'."""
        values = ", ".join(f"{name}={value}" for name, value in sorted(self.parameters.items()))
        return f"{self.recipe} ({values})" if values else self.recipe


class Arm(Value, frozen=True, kw_only=True):
    """A build that trials measure: the recipes stacked on the pristine engine, bottom first.

    args, env: what it changes in the server's launch besides.
    """

    name: str
    recipes: tuple[AppliedRecipe, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether it is the engine as it came, begun as hosts.yaml says."""
        return not (self.recipes or self.args or self.env)

    @property
    def described(self) -> str:
        """'pristine', or 'oea (k0=4), --max-running-requests 64, X=1'; no secret."""
        told = [recipe.described for recipe in self.recipes] or ["pristine"]
        told += [redact_text(" ".join(self.args))] if self.args else []
        told += [f"{key}={'***' if is_secret_name(key) else text}" for key, text in sorted(self.env.items())]
        return ", ".join(told)


class PlannedTrial(Value, frozen=True, kw_only=True):
    """name: ``001-A``. start: on a fresh restart, or attached to what was running.

    pair: None for a start that only warms up, whose figures count for nothing.
    """

    name: str
    arm: str
    order: int
    start: Literal["fresh", "attached"]
    pair: int | None = None
    block: int | None = None


class Sending(Value, frozen=True, kw_only=True):
    """How a bench asked for its load, as far as going on with it needs: options of the command line.

    url: of a server known by it alone. api_key_env: a variable's name. origin: where the load comes from;
    origin_url: the server as seen there.
    """

    api: str | None = None
    processes: int | None = None
    origin: str | None = None
    origin_url: str | None = None
    experts: bool = False
    url: str | None = None
    model: str | None = None
    api_key_env: str | None = None


class ImportedFile(Value, frozen=True, kw_only=True):
    """A result file of another tool, which is not kept: it may hold a key. name: its own; sha256: of it."""

    name: str
    sha256: str
    bytes: int


class Plan(Value, frozen=True, kw_only=True):
    """Everything that is fixed before the first trial.

    design: of a comparison; sending: of a bench; imported: of another tool's results.
    """

    kind: Literal["plan"] = "plan"
    schema_version: int = SCHEMA_VERSION
    run_id: str
    what: Literal["bench", "ab", "aa", "scan", "import"]
    label: str
    created_at: Moment
    oeactl_version: str
    host: str
    driver: str
    sweep: Sweep
    arms: tuple[Arm, ...]
    trials: tuple[PlannedTrial, ...]
    design: Design | None = None
    sending: Sending | None = None
    imported: tuple[ImportedFile, ...] = ()


class WarmUp(Value, frozen=True, kw_only=True):
    """Requests sent before the measured ones and thrown away, then the flush of the prefix cache.

    flushed: None where the server has no such request. rates: output tok/s of each burst; requests and
    completed count all of them, the other figures are the last one's. steady: whether it had settled.
    """

    requests: int
    completed: int
    duration_s: float
    output_tokens_per_s: float
    flushed: bool | None
    flush_attempts: int
    rates: tuple[float, ...] = ()
    steady: bool | None = None


class RawFile(Value, frozen=True, kw_only=True):
    """Per-request rows beside the run, git-ignored: ``raw/<sha256>.json.gz``. sha256: of the JSON inside."""

    sha256: str
    bytes: int


class SteadyRate(Value, frozen=True, kw_only=True):
    """Of the time in which all streams were busy: without the first prefill and the ramp-down.

    from_order: the client does not tell when it sent each request; its closed loop and their times do.
    """

    duration_s: float
    output_tokens_per_s: float
    from_order: bool = False


class PointRecord(Value, frozen=True, kw_only=True):
    """One level as it went. argv: the driver's, without interpreter; tail: its last lines where it failed.

    client, steady: where the driver tells them. goodput: where there are targets.
    workload_sha256: of what defines the prompts (dataset, lengths, count, seed, tokenizer, client version);
    None of an imported level.
    output_tokens_per_s_per_gpu: None where the number of GPUs is not known. experts: what a small batch of
    its own, sent after the measured one, used; None when that was not asked for. watched: host, cards and
    engine meanwhile; watched_raw: its samples.
    """

    index: int
    point: Point
    started_at: Moment
    ended_at: Moment
    argv: tuple[str, ...]
    workload_sha256: str | None
    valid: bool
    reasons: tuple[str, ...]
    gates: tuple[Gate, ...]
    measurement: Measurement | None = None
    output_tokens_per_s_per_gpu: float | None = None
    warm_up: WarmUp | None = None
    raw: RawFile | None = None
    client: ClientLoad | None = None
    steady: SteadyRate | None = None
    goodput: Goodput | None = None
    tail: tuple[str, ...] = ()
    experts: ExpertsSeen | None = None
    watched: Watched | None = None
    watched_raw: RawFile | None = None

    @property
    def accept_length(self) -> float | None:
        """Tokens a verification of drafts: by the client's account of its requests, else the engine's."""
        told = self.measurement.accept_length if self.measurement else None
        engine = self.watched.engine if self.watched else None
        return told if told is not None or engine is None else engine.accept_length


class Trial(Value, frozen=True, kw_only=True):
    """One build on one server start, swept once. outcome 'unfinished': its end was never written.

    clock_offset_s: the host's clock minus ours, as near as it was seen. proofs: as read when it ended.
    ready_s: of a fresh start, from its stop to its proof. failure: why nothing could be measured. caches:
    None where the compilation caches are not seen, as in a container.
    """

    kind: Literal["trial"] = "trial"
    schema_version: int = SCHEMA_VERSION
    run_id: str
    name: str
    arm: str
    order: int
    start: Literal["fresh", "attached"]
    pair: int | None = None
    block: int | None = None
    started_at: Moment
    ended_at: Moment | None = None
    outcome: Outcome = "unfinished"
    outcome_reason: str = ""
    clock_offset_s: float
    host: HostRecord
    engine: EngineRecord
    model: ModelRecord
    server: ServerRecord
    driver: DriverRecord
    recipes: tuple[AppliedRecipe, ...]
    targets: tuple[Target, ...]
    activations: tuple[Activation, ...] = ()
    proofs: tuple[ProofRecord, ...] = ()
    points: tuple[PointRecord, ...] = ()
    saturation: Saturation | None = None
    ready_s: float | None = None
    failure: Failure | None = None
    caches: CachesSeen | None = None


class ArmAtLevel(Value, frozen=True, kw_only=True):
    """Valid trials of one arm at one level, averaged; None where none was valid."""

    arm: str
    trials: int
    valid: int
    output_tokens_per_s: float | None
    output_tokens_per_s_per_gpu: float | None


class LevelSummary(Value, frozen=True, kw_only=True):
    """One level over all trials."""

    concurrency: int
    input_len: int
    output_len: int
    arms: tuple[ArmAtLevel, ...]


class Analysis(Value, frozen=True, kw_only=True):
    """Derived from plan and trials; can be made again. verdicts: one an arm after the first.

    A lone trial allows no verdict, so a bench has none.
    """

    kind: Literal["analysis"] = "analysis"
    schema_version: int = SCHEMA_VERSION
    run_id: str
    made_at: Moment
    levels: tuple[LevelSummary, ...]
    verdicts: tuple[Verdict, ...] = ()


class Skipped(Value, frozen=True, kw_only=True):
    """A file in the results folder that was not taken, and why."""

    path: str
    why: str


class Metric(Value, frozen=True, kw_only=True):
    """One figure of an evaluation. stderr, samples: None where the tool does not say."""

    task: str
    metric: str
    value: float
    stderr: float | None = None
    samples: int | None = None


class Attachment(Value, frozen=True, kw_only=True):
    """What another tool measured of the same build, by its own file. file: its name; original: its bytes.

    said: the tool's verdict in one line, where it has one.
    """

    kind: Literal["attachment"] = "attachment"
    schema_version: int = SCHEMA_VERSION
    run_id: str
    attached_at: Moment
    tool: Literal["lm-eval", "sglang gsm8k", "oeactl quality"]
    file: str
    original: RawFile
    metrics: tuple[Metric, ...]
    said: str = ""


class Run(Value, frozen=True, kw_only=True):
    """A run as read back. path: its folder. skipped: files in it that could not be taken.

    changes: what the arms change on the host, of those that change anything.
    """

    path: str
    plan: Plan
    trials: tuple[Trial, ...]
    analysis: Analysis | None = None
    attachments: tuple[Attachment, ...] = ()
    changes: tuple[Change, ...] = ()
    skipped: tuple[Skipped, ...] = ()


class Listing(Value, frozen=True, kw_only=True):
    """A results folder: what could be read, oldest first, and what not."""

    path: str
    runs: tuple[Run, ...]
    skipped: tuple[Skipped, ...] = ()
