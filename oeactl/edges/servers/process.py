"""A server that is a detached process of its host, begun, watched and ended by the agent.

Owns: ports.Server over an Agent. Refuses: to end a server that oeactl did not start, unless
``foreign`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from oeactl.core.host import Launch, Process, ProofFile, ServerState
from oeactl.core.redact import redact_text
from oeactl.edges.answers import answer_of
from oeactl.errors import UsageError
from oeactl.ports import Agent, Failed, Progress, Ready

STATE_S = 60.0
CHECK_S = 120.0  # nvidia-smi, and an interpreter on a slow disk
START_S = 150.0  # old connections on the port are waited out


class ProcessServer:
    """ports.Server by the agent's own process. root() tells the engine's root as a survey does (asked late).

    url and log as seen on the host. kind: which request proves that it generates. api_key: its value, sent
    as a header only. stop_timeout_s: what the leader gets after SIGTERM; grace_s: what the rest gets.
    canary: so many completions more than the first must come before it is ready.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        root: Callable[[], str],
        state_dir: str | None = None,
        url: str,
        log: str,
        kind: str = "sglang",
        ready_timeout_s: float = 1800.0,
        stop_timeout_s: float = 120.0,
        grace_s: float = 5.0,
        api_key: str | None = None,
        canary: int = 0,
    ) -> None:
        self._canary = canary
        self._agent = agent
        self._root = root
        self._fixed: dict[str, Any] = {
            "state_dir": state_dir,
            "url": url,
            "log": log,
            "api_key": api_key,
        }
        self._kind = kind
        self._ready_timeout_s = ready_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._grace_s = grace_s

    @property
    def _place(self) -> dict[str, Any]:
        return {"root": self._root(), **self._fixed}

    def state(self, *, health: bool = True) -> ServerState:
        """What runs. ``health``: also ask /health, which makes the engine generate a token."""
        answer = self._agent.ask("server.state", timeout_s=STATE_S, health=health, **self._place)
        return msgspec.convert(answer, ServerState)

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        """Raise UsageError for what is in the way of ``launch`` on the host. Nothing is begun or made."""
        self._check(launch, alone=alone)

    def _check(self, launch: Launch, **more: Any) -> None:
        self._agent.ask(
            "server.startable", timeout_s=STATE_S + CHECK_S, launch=msgspec.to_builtins(launch), **more
        )

    def start(self, launch: Launch) -> Process:
        answer = self._agent.ask(
            "server.start", timeout_s=START_S, launch=msgspec.to_builtins(launch), **self._place
        )
        return msgspec.convert(answer, Process)

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        return self._await_ready(process, progress)

    def _await_ready(self, process: Process, progress: Progress, **more: Any) -> Ready | Failed:
        answer = answer_of(
            self._agent,
            "server.await_ready",
            _teller(progress),
            process=msgspec.to_builtins(process),
            kind=self._kind,
            canary=self._canary,
            deadline_s=self._ready_timeout_s,
            **self._place,
            **more,
        )
        return _outcome(answer)

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        self._stop(progress, foreign=foreign)

    def _stop(self, progress: Progress, **more: Any) -> None:
        answer = answer_of(
            self._agent,
            "server.stop",
            _teller(progress),
            deadline_s=self._stop_timeout_s,
            grace_s=self._grace_s,
            **self._place,
            **more,
        )
        if not answer["ended"]:
            progress.note("no server was running")
        for note in answer["notes"]:
            progress.warn(note)

    def log_lines(self, count: int) -> tuple[str, ...]:
        lines = self._agent.ask("server.log", log=self._log(), count=count)
        return tuple(map(redact_text, lines))

    @contextmanager
    def follow_log(self, count: int) -> Iterator[Iterator[str]]:
        with self._agent.watch("server.follow", log=self._log(), count=count) as events:
            yield (redact_text(line) for event in events for line in event.get("lines", ()))

    def proofs(self) -> tuple[ProofFile, ...]:
        answer = self._agent.ask("server.proofs", **self._place)
        return msgspec.convert(answer["proofs"], tuple[ProofFile, ...])

    def _log(self) -> str:
        if not self._fixed["log"]:
            raise UsageError("no log is named", where=self._agent.name, hint="add server.log to hosts.yaml")
        return str(self._fixed["log"])


def _outcome(answer: Mapping[str, Any]) -> Ready | Failed:
    """How a wait ended; the log's lines without secrets."""
    if "ready" in answer:
        return msgspec.convert(answer["ready"], Ready)
    failed = msgspec.convert(answer["failed"], Failed)
    return msgspec.structs.replace(
        failed,
        first_error=redact_text(failed.first_error) if failed.first_error else None,
        tail=tuple(map(redact_text, failed.tail)),
    )


class FollowerServer(ProcessServer):
    """ports.Follower: a process like any other, which nobody asks for completions."""

    def watch(self, process: Process, progress: Progress) -> Failed:
        answer = answer_of(
            self._agent,
            "server.watch",
            _teller(progress),
            process=msgspec.to_builtins(process),
            deadline_s=self._ready_timeout_s,
            **self._place,
        )
        outcome = _outcome(answer)
        assert isinstance(outcome, Failed)
        return outcome

    def joined(self, process: Process) -> Ready | Failed:
        return _outcome(self._agent.ask("server.joined", process=msgspec.to_builtins(process), **self._place))


def _teller(progress: Progress) -> Callable[[Mapping[str, Any]], None]:
    """Events of a watched operation as a person's progress."""

    def told(event: Mapping[str, Any]) -> None:
        if event["event"] == "note":
            progress.note(event["text"])
        else:
            progress.update(redact_text(event["text"]))  # the text has its own "50 %" or "12/64"

    return told
