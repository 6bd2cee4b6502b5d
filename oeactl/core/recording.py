"""What ``oeactl quality`` keeps: recordings of a build's answers, and comparisons of two builds.

Owns: the typed records of ``results/quality/``, under the rules of results.py. Refuses: to compare
(quality.py does); but two recordings that may not be compared are named here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from oeactl.core.evidence import Activation
from oeactl.core.host import Value
from oeactl.core.load import Positive
from oeactl.core.provenance import EngineRecord, ModelRecord, Moment
from oeactl.core.quality import Agreement, Condition, ConditionCompared, Verdict
from oeactl.core.run import AppliedRecipe, RawFile
from oeactl.core.version import SCHEMA_VERSION
from oeactl.errors import UsageError


class Settings(Value, frozen=True, kw_only=True):
    """What is asked, and how. prompts_sha256: of the texts, in order. concurrency: of passes under load.

    passes: of each condition. top_logprobs: how many a position.
    """

    prompts: Positive
    prompts_sha256: str
    output_len: Positive
    top_logprobs: Positive
    passes: Positive
    concurrency: Positive


class Floor(Value, frozen=True, kw_only=True):
    """How far the build agrees with itself in one condition."""

    condition: Condition
    agreement: Agreement


class Recording(Value, frozen=True, kw_only=True):
    """Answers of one build on one server start. answers: raw file of the passes; not kept in git.

    host: its name, or the URL that was asked. api: which of the server's. engine, pid, start_ticks: None
    where only a URL is known, and then no recipe is known either.
    """

    kind: Literal["recording"] = "recording"
    schema_version: int = SCHEMA_VERSION
    recording_id: str
    label: str
    created_at: Moment
    ended_at: Moment
    oeactl_version: str
    host: str
    api: str
    settings: Settings
    model: ModelRecord
    floors: tuple[Floor, ...]
    answers: RawFile
    engine: EngineRecord | None = None
    pid: int | None = None
    start_ticks: int | None = None
    recipes: tuple[AppliedRecipe, ...] = ()
    activations: tuple[Activation, ...] = ()

    @property
    def start(self) -> tuple[int, int] | None:
        """Which start of the server answered; None where it is not known."""
        return None if self.pid is None or self.start_ticks is None else (self.pid, self.start_ticks)

    @property
    def build(self) -> str:
        """'oea (k0=2) on sglang 0.5.20', as far as known."""
        recipes = ", ".join(_named(one) for one in self.recipes) or (
            "pristine" if self.engine else self.label
        )
        return f"{recipes} on {self.engine.package} {self.engine.version}" if self.engine else recipes


class Comparison(Value, frozen=True, kw_only=True):
    """One build's answers against another's. baseline: the recordings whose passes made the floor.

    starts: of the server, that the baseline is of; restarted: the candidate is of one of its own; None where
    only a URL is known. least_changed: fewer answers than this cannot be told from chance. notes: what else
    differs.
    """

    kind: Literal["comparison"] = "comparison"
    schema_version: int = SCHEMA_VERSION
    made_at: Moment
    baseline: tuple[str, ...]
    baseline_build: str
    candidate: str
    candidate_build: str
    recipes: tuple[AppliedRecipe, ...]
    verdict: Verdict
    starts: int | None
    restarted: bool | None
    least_changed: int
    conditions: tuple[ConditionCompared, ...]
    notes: tuple[str, ...] = ()


def _named(recipe: AppliedRecipe) -> str:
    values = ", ".join(f"{name}={value}" for name, value in sorted(recipe.parameters.items()))
    return f"{recipe.recipe} ({values})" if values else recipe.recipe


def check_comparable(baseline: tuple[Recording, ...], candidate: Recording) -> tuple[str, ...]:
    """Raise UsageError where a comparison would mean nothing; return what else differs, to be said."""
    for one in baseline:
        if one.recording_id == candidate.recording_id:
            raise UsageError("a recording cannot be set against itself", where=one.recording_id)
        asked = msgspec.structs.replace(one.settings, passes=candidate.settings.passes)
        if asked != candidate.settings or one.api != candidate.api:
            raise UsageError(
                "the two were not asked alike: prompts, length, concurrency, log-probabilities or API differ",
                where=f"{one.recording_id}, {candidate.recording_id}",
                hint=f"oeactl quality --against {one.recording_id} asks as that one did",
            )
        if one.model.config_sha256 != candidate.model.config_sha256 or _model(one) != _model(candidate):
            raise UsageError(
                f"they are of two models: {_model(one)} and {_model(candidate)}",
                where=f"{one.recording_id}, {candidate.recording_id}",
            )
    first, *more = baseline
    if any(_digests(one) != _digests(first) for one in more):
        raise UsageError("the recordings of --against are of two builds", where=", ".join(_ids(baseline)))
    notes = [
        f"{name} differs: {before} and {after}"
        for name, before, after in (
            ("the engine", _engine(first), _engine(candidate)),
            ("the host", first.host, candidate.host),
        )
        if before != after
    ]
    if candidate.engine is not None and _digests(first) == _digests(candidate):
        notes.append("both are the same build: this is a check of the method")
    return tuple(notes)


def _ids(recordings: tuple[Recording, ...]) -> list[str]:
    return [one.recording_id for one in recordings]


def _digests(recording: Recording) -> tuple[str, ...]:
    return tuple(recipe.digest for recipe in recording.recipes)


def _model(recording: Recording) -> str:
    return recording.model.served_name or recording.model.path or "unknown"


def _engine(recording: Recording) -> str:
    engine = recording.engine
    return f"{engine.package} {engine.version} {engine.git_commit or ''}".strip() if engine else "unknown"
