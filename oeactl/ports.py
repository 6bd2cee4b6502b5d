"""What flows may ask of the world. Edges implement these; tests implement them as real classes.

Owns: the Protocols and the values that only they carry. Refuses: any implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from oeactl.core.host import (
    Launch,
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


class Completed(Value, frozen=True, kw_only=True):
    """A finished remote command. returncode None: the connection ended first, the outcome is unknown."""

    returncode: int | None
    stdout: bytes
    stderr: bytes


class Remote(Protocol):
    """A way to a machine: four verbs. argv is quoted once, inside.

    Raises Unreachable before anything ran, ConnectionLost after.
    """

    name: str

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed: ...

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AbstractContextManager[Iterator[bytes]]:
        """Yield stdout line by line; leaving the block ends the remote process."""
        ...

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

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        """End the lease of ``operation``; harmless when it is already gone."""
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
    """It does not. why: one line. first_error: the first error in the log. tail: its last lines."""

    why: str
    first_error: str | None = None
    tail: tuple[str, ...] = ()


class Server(Protocol):
    """One server on one host, by whatever manages it."""

    def state(self) -> ServerState: ...

    def start(self, launch: Launch) -> Process:
        """Begin it detached. Raises Refused when the port is taken, naming by whom."""
        ...

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed: ...

    def stop(self, progress: Progress) -> None:
        """End it with all its processes; returns only when none is left and the port is free."""
        ...

    def log_lines(self, count: int) -> tuple[str, ...]: ...

    def follow_log(self, count: int) -> AbstractContextManager[Iterator[str]]: ...

    def proofs(self) -> tuple[ProofFile, ...]: ...


class Engine(Protocol):
    """What the engine answers, asked on the host over its loopback."""

    def info(self) -> dict[str, Any]:
        """Server arguments and versions, secrets already redacted."""
        ...

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]: ...

    def flush_cache(self) -> bool: ...


class Clock(Protocol):
    def now(self) -> float:
        """Unix seconds."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Prompt(Protocol):
    """A question to the person. Raises UsageError (with '--yes' as the remedy) when nobody is there."""

    def confirm(self, question: str) -> bool: ...
