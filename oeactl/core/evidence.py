"""What is known of a level once it ended, and the form of what is said of it.

Owns: the evidence that the gates judge, their outcome. Refuses: to judge (gates.py, machine_gates.py).
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import Process, ServerState, Survey, Value
from oeactl.core.load import ClientLoad, DatasetKind, Measurement, PerRequest, Point
from oeactl.core.telemetry import Watched

Outcome = Literal["pass", "fail", "not_measured"]


class Gate(Value, frozen=True, kw_only=True):
    """One check. reason: why it failed or is not measured, or what a pass rests on. warning: say it."""

    name: str
    outcome: Outcome
    reason: str = ""
    warning: bool = False


class Target(Value, frozen=True, kw_only=True):
    """A file that recipes change. expected_sha256: the journal's, None where no recipe is on it.

    before: when the trial began; after: when the point, or the trial, ended.
    """

    module: str
    path: str
    expected_sha256: str | None
    before_sha256: str
    after_sha256: str


class Activation(Value, frozen=True, kw_only=True):
    """Whether one recipe on disk was seen to run in every worker of this start. kinds: eager, capture, ..."""

    recipe: str
    digest: str
    outcome: Outcome
    reason: str
    kinds: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Its workers count experts, and wait for the device after each layer to do so."""
        return "experts" in self.kinds


class Earlier(Value, frozen=True, kw_only=True):
    """A valid level of the same load in an earlier trial of this run.

    same_arm: of the very build that is judged now. texts: sampled answers, of the first arm's alone.
    """

    same_arm: bool
    watched: Watched | None = None
    texts: tuple[str, ...] = ()


class Evidence(Value, frozen=True, kw_only=True):
    """All that is known about one level once it ended.

    failure: why the driver has no measurement. flushed: None where the engine has no such request.
    token_after: a token was generated after the level; None when that was not tried. gpus: cards on the host.
    activations: None where nobody could look. warm_up_rates: of its bursts; warmed_up: they had settled.
    client: how the client fared, None where it does not tell. eos_ignored: answers could not end early.
    input_exact: prompts have the length asked in tokens. watched: the host
    meanwhile, None where nobody looked. earlier: of a comparison, None for a lone trial. is_first_arm: the
    others are compared with it.
    """

    point: Point
    before: ServerState
    after: ServerState
    measurement: Measurement | None = None
    requests: PerRequest | None = None
    failure: str | None = None
    flushed: bool | None = None
    token_after: bool | None = None
    token_problem: str = ""
    targets: tuple[Target, ...] = ()
    activations: tuple[Activation, ...] | None = ()
    gpus: int = 0
    warm_up_rates: tuple[float, ...] = ()
    warmed_up: bool = True
    client: ClientLoad | None = None
    dataset: DatasetKind = "random-ids"
    eos_ignored: bool = True
    input_exact: bool = True
    watched: Watched | None = None
    earlier: tuple[Earlier, ...] | None = None
    is_first_arm: bool = False


def passed(name: str, reason: str = "", *, warning: bool = False) -> Gate:
    return Gate(name=name, outcome="pass", reason=reason, warning=warning)


def failed(name: str, reason: str) -> Gate:
    return Gate(name=name, outcome="fail", reason=reason)


def not_seen(name: str, reason: str, *, warning: bool = False) -> Gate:
    return Gate(name=name, outcome="not_measured", reason=reason, warning=warning)


def nothing(name: str) -> Gate:
    return not_seen(name, "there is no measurement")


def leader(state: ServerState) -> Process | None:
    """The process that stands for the server: the one we started, else whoever holds the port."""
    return state.recorded or state.listener


def identity(process: Process) -> tuple[int, int, str]:
    """What no other process shares: pid, start time, boot."""
    return (process.pid, process.start_ticks, process.boot_id)


def targets(before: Survey, after: Survey) -> tuple[Target, ...]:
    """The files that recipes change, as they were and as they are, beside what the journal said before."""
    expected = {file.path: file.expected_sha256 for file in before.journal.files}
    now = {file.path: file.sha256 for file in after.files if not file.missing}
    return tuple(
        Target(
            module=file.module,
            path=file.path,
            expected_sha256=expected.get(file.path),
            before_sha256=file.sha256,
            after_sha256=now.get(file.path, ""),
        )
        for file in before.files
        if not file.missing
    )
