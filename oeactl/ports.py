"""What flows may ask of the world. Edges implement these; tests implement them as real classes.

Owns: the Protocols and the values that only they carry. Refuses: any implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from oeactl.core.host import (
    Holder,
    Journal,
    Launch,
    MachineFacts,
    Process,
    ProofFile,
    Reply,
    ServerState,
    Survey,
    SurveyRequest,
    Transaction,
    Value,
    Written,
)
from oeactl.core.provenance import DriverRecord
from oeactl.core.routing import RoutedRequest
from oeactl.core.telemetry import Sample

if TYPE_CHECKING:  # of the protocols alone: most commands do without what stands behind these
    from oeactl.core.adoption import FoundServer
    from oeactl.core.burst import PointMeasured, PointRequest
    from oeactl.core.caches import CacheState
    from oeactl.core.change import Change
    from oeactl.core.container_adoption import FoundContainer
    from oeactl.core.quality import Answer
    from oeactl.core.recording import Comparison, Recording
    from oeactl.core.run import Analysis, Listing, Plan, PointRecord, RawFile, Run, Trial


class Completed(Value, frozen=True, kw_only=True):
    """A finished remote command. returncode None: the connection ended first, the outcome is unknown."""

    returncode: int | None
    stdout: bytes
    stderr: bytes


class Dialogue(Protocol):
    """A command on a machine that is talked to in turns. Raises ConnectionLost where the way breaks."""

    def lives(self) -> bool:
        """Whether it can still be talked to, as far as is known here without asking."""
        ...

    def say(self, data: bytes) -> None: ...

    def hear(self, timeout_s: float) -> bytes:
        """What came next on its stdout, at least a byte; nothing when it has ended."""
        ...

    def end(self, *, at_once: bool = False) -> Completed:
        """Close its stdin, wait a moment (or not), and stop it if it goes on. stdout: what nobody heard."""
        ...


class Remote(Protocol):
    """A way to a machine: five verbs. argv is quoted once, inside.

    Raises Unreachable before anything ran, ConnectionLost after.
    """

    name: str

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed: ...

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AbstractContextManager[Iterator[bytes]]:
        """Yield stdout line by line; leaving the block ends the remote process."""
        ...

    def converse(self, argv: Sequence[str]) -> Dialogue: ...

    def forward(self, port: int) -> AbstractContextManager[int]:
        """Make the host's loopback ``port`` reachable here; yields the local port."""
        ...

    def get(self, path: str) -> bytes: ...

    def close(self) -> None: ...


class Agent(Protocol):
    """The program on the host: one message in, one answer out (or a stream of events, then the answer).

    Raises the error class that the agent named (Refused, Locked, UsageError, ...), never a bare one.
    """

    name: str

    def ask(self, op: str, /, *, timeout_s: float = 120.0, **fields: Any) -> Any: ...

    def watch(self, op: str, /, **fields: Any) -> AbstractContextManager[Iterator[Mapping[str, Any]]]:
        """Yield event mappings ``{"event": ...}``; leaving the block ends the remote program."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """The engine's files on one host."""

    def survey(self, request: SurveyRequest) -> Survey: ...

    def write(self, transaction: Transaction) -> Written: ...

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        """Undo a patch, or finish a revert, that was cut short (``journal.pending``); ``recovered`` tells.

        force: also over a file that somebody changed since (a copy is kept); else Refused names it.
        """
        ...

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        """Take or renew the lease for ``operation``, from now on. Raises Locked when somebody else has it."""
        ...

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        """End the lease of ``operation``; harmless when it is already gone."""
        ...


class Caches(Protocol):
    """The compilation caches that a server uses. env: hosts.yaml's, with the arm's own."""

    def look(self, env: Mapping[str, str]) -> tuple[CacheState, ...]:
        """Those that are there."""
        ...

    def wipe(self, env: Mapping[str, str]) -> tuple[CacheState, ...]:
        """Empty them. Raises Refused for a folder that does not look like a cache, or cannot be emptied."""
        ...


class Machine(Protocol):
    """The host's machine, looked at for a diagnosis."""

    def look(
        self,
        *,
        folders: Sequence[str] = (),
        programs: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> MachineFacts:
        """folders: whose room to tell; programs: names or paths to find, in ``env``'s PATH."""
        ...

    def running(self, *, port: int | None = None, pid: int | None = None) -> FoundServer:
        """How the server was begun that listens on ``port``, or is ``pid``. Raises UsageError, Refused."""
        ...

    def container(
        self, *, name: str | None = None, file: str | None = None, service: str | None = None
    ) -> FoundContainer:
        """How the container was made that is called ``name``, or is of ``service`` in a compose ``file``.

        service None: the only one, or the only one with an engine. Raises UsageError, Refused.
        """
        ...

    def read_text(self, path: str) -> str:
        """A text file of at most a megabyte. Raises UsageError."""
        ...


class Progress(Protocol):
    """What a person watches during a long step."""

    def step(self, text: str) -> None:
        """A new step begins: 'stopping the server'."""
        ...

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        """Within the step: what is being waited for ('loading weights 40 %')."""
        ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


class Ready(Value, frozen=True, kw_only=True):
    """The process we started answers: health, then a real completion."""

    process: Process
    seconds: float


class Failed(Value, frozen=True, kw_only=True):
    """It does not. why: one line. first_error: the first error in the log. tail: its last lines.

    hint: the remedy where the kind of error has one. kind: "port" for a port of the engine's own choice that
    was taken, "loop" when something starts the server again after each failure; None for all else.
    """

    why: str
    first_error: str | None = None
    hint: str | None = None
    tail: tuple[str, ...] = ()
    kind: Literal["port", "loop"] | None = None


class Server(Protocol):
    """One server on one host, by whatever manages it."""

    def state(self, *, health: bool = True) -> ServerState:
        """What runs now. health: also ask it whether it is well, which makes the engine generate a token."""
        ...

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        """Look whether ``launch`` can begin at all, while another still runs. Raises UsageError.

        alone: none of ours does; Refused then names whoever holds memory of the GPUs.
        """
        ...

    def start(self, launch: Launch) -> Process:
        """Begin it detached. Raises Refused when the port is taken, naming by whom."""
        ...

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed: ...

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        """End it with all its processes; returns only when none is left and the port is free.

        foreign: also a server that oeactl did not start (the person was asked); else Refused names it.
        """
        ...

    def log_lines(self, count: int) -> tuple[str, ...]: ...

    def follow_log(self, count: int) -> AbstractContextManager[Iterator[str]]: ...

    def proofs(self) -> tuple[ProofFile, ...]: ...


class Follower(Server, Protocol):
    """One node's part of a server that answers elsewhere."""

    def watch(self, process: Process, progress: Progress) -> Failed:
        """Returns only when it ended, or its deadline is over; ``progress`` may raise to end the wait."""
        ...

    def joined(self, process: Process) -> Ready | Failed:
        """The whole answers: does this part live? Its workers are missed from now on when they end."""
        ...


class Engine(Protocol):
    """What the engine answers, asked on the host over its loopback."""

    def info(self) -> dict[str, Any]:
        """Server arguments and versions, secrets already redacted."""
        ...

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]: ...

    def flush_cache(self) -> bool | None:
        """Empty the prefix cache: confirmed or not; None where there is no such request."""
        ...

    def routed_experts(
        self, *, prompts: Sequence[Sequence[int]], output_len: int
    ) -> tuple[RoutedRequest, ...] | str:
        """Generate for all prompts in one batch and return the experts used; text: why they are not told."""
        ...

    def answers(
        self, *, prompts: Sequence[str], output_len: int, top_logprobs: int, concurrency: int
    ) -> tuple[Answer, ...]:
        """Complete each text greedily, with log-probabilities. Raises UsageError where they are not returned,
        VoidMeasurement where an answer failed.
        """
        ...


class Samples(Protocol):
    """What is seen of a host while something runs there."""

    def between(self, begin: float, end: float) -> tuple[Sample, ...]:
        """Those that were heard from ``begin`` to ``end``, unix seconds by our clock; the newest are kept."""
        ...

    def why(self) -> dict[str, str]:
        """What is not there at all -> why."""
        ...


class Telemetry(Protocol):
    """The host's machine, cards and engine, sampled every second. Nothing that fails here fails the work."""

    def watching(self, own: Sequence[int]) -> AbstractContextManager[Samples]:
        """Sample for the length of the block. own: pids of the server, by which its cards are known."""
        ...


class Driver(Protocol):
    """Whatever sends the load. A load that fails is a value; only a driver that cannot be used raises."""

    def describe(self) -> DriverRecord:
        """Say what it is. Raises UsageError where it is not there or lacks an option that is needed."""
        ...

    def run(self, request: PointRequest, progress: Progress) -> PointMeasured:
        """Send one burst, a closed loop. KeyboardInterrupt ends it on the host too."""
        ...


class Store(Protocol):
    """Where runs are kept. What is written once is never rewritten."""

    def begin(self, plan: Plan, changes: Sequence[Change] = ()) -> str:
        """Keep the plan and its arms' changes before anything is measured; the run's place, for people."""
        ...

    def begin_trial(self, trial: Trial) -> None: ...

    def save_raw(self, run_id: str, data: bytes) -> RawFile: ...

    def load_raw(self, run: Run, digest: str) -> bytes:
        """What save_raw kept. Raises UsageError where it is not here."""
        ...

    def save_point(self, trial: Trial, point: PointRecord) -> None: ...

    def save_trial(self, trial: Trial) -> str: ...

    def save_analysis(self, analysis: Analysis) -> None: ...

    def list(self) -> Listing: ...

    def load(self, name: str) -> Run: ...


class Recordings(Protocol):
    """Where answers and comparisons are kept. What is written once is never rewritten."""

    def save_recording(self, recording: Recording, answers: bytes) -> str:
        """Keep a recording and its answers; its place, for people."""
        ...

    def load_recording(self, name: str) -> Recording: ...

    def load_answers(self, recording: Recording) -> bytes: ...

    def save_comparison(self, comparison: Comparison) -> str: ...


class Clock(Protocol):
    def now(self) -> float:
        """Unix seconds."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Prompt(Protocol):
    """A question to the person. Raises UsageError (with '--yes' as the remedy) when nobody is there."""

    def confirm(self, question: str) -> bool: ...
