"""The client's end of the agent's wire, over any Remote.

Owns: which program is asked, the frames that come back, and what an absent answer means.
Refuses: to know what an operation does.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from oeactl.edges.agent_program import BOOTSTRAP, brought, message, needs, program, request
from oeactl.edges.sudo import Sudo
from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Locked,
    OeactlError,
    Refused,
    Unreachable,
    UsageError,
)
from oeactl.ports import Completed, Dialogue, Remote

KINDS: Mapping[str, type[OeactlError]] = {
    "usage": UsageError,
    "refused": Refused,
    "unreachable": Unreachable,
    "locked": Locked,
    "degraded": Degraded,
}

TAIL_LINES = 20
REUSE_S = 30.0  # a program that waits for longer may be about to leave: it does after a minute
CLOSE_S = 1.0
KNOCK_S = 60.0
NOT_THERE = ("not found", "No such file", "Permission denied")
ENDED = 143  # the agent's exit code when a signal, or a client that went away, ended it


class Frames:
    """Cut what came on stdout into frames; whatever lies between them is noise, kept for a diagnosis."""

    def __init__(self, sentinel: str) -> None:
        self._mark = b"\n" + sentinel.encode() + b" "
        self._buffer = b"\n"
        self.noise = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, Any]]:
        """Yield ("event", mapping) and ("answer", body) as far as they are complete."""
        self._buffer += data
        while True:
            start = self._buffer.find(self._mark)
            if start < 0:
                keep = len(self._mark)
                self._keep_noise(self._buffer[:-keep])
                self._buffer = self._buffer[-keep:]
                return
            self._keep_noise(self._buffer[:start])
            self._buffer = self._buffer[start:]
            header, newline, rest = self._buffer[len(self._mark) :].partition(b"\n")
            kind, _, length = header.partition(b" ")
            if not newline or len(rest) < int(length):
                return
            body, self._buffer = rest[: int(length)], rest[int(length) :]
            yield kind.decode(), json.loads(zlib.decompress(body) if kind == b"answer" else body)

    def finish(self) -> bytes:
        """The noise, to its end."""
        self._keep_noise(self._buffer)
        self._buffer = b""
        return self.noise.strip()

    def _keep_noise(self, data: bytes) -> None:
        self.noise = (self.noise + data)[-16384:]


class _SudoAsks(Unreachable):
    """sudo wants a password, and somebody has one: nothing ran."""


class AgentLink:
    """ports.Agent over a Remote. python: the interpreter on the host that runs the agent.

    become: None, or "sudo" to act as root. password: where sudo's is had from, if it asks for one. keep: ask
    one program in turns instead of starting one for each question; it ends with ``close``, or a minute after
    the last. container: says in which to run it, by ``docker exec -i``; python is then the container's.
    """

    def __init__(
        self,
        remote: Remote,
        *,
        python: str | None = None,
        become: str | None = None,
        password: Callable[[str], str | None] | None = None,
        keep: bool = False,
        container: Callable[[], str] | None = None,
    ) -> None:
        if become not in (None, "sudo"):
            raise UsageError(
                f"become: {become!r} is not known", where=remote.name, hint="use sudo, or nothing"
            )
        if python is not None and python.startswith("-"):
            raise UsageError(f"not an interpreter: {python!r}", where=remote.name, hint="set engine.python")
        self.name = remote.name
        self._remote = remote
        self._python = python or "python3"
        self._sudo = Sudo(remote.name, password) if become else None
        self._container = container
        self._told = {"contained": True} if container else {}
        self._keep = keep
        self._turn = threading.Lock()
        self._kept: Dialogue | None = None
        self._there: frozenset[str] = frozenset()  # the modules that the kept program has
        self._last = 0.0

    def ask(self, op: str, /, *, timeout_s: float = 120.0, **fields: Any) -> Any:
        try:
            return self._ask(op, fields, timeout_s)
        except _SudoAsks:
            self._learn()
        return self._ask(op, fields, timeout_s)

    def _ask(self, op: str, fields: Mapping[str, Any], timeout_s: float) -> Any:
        if self._keep and self._turn.acquire(blocking=False):
            try:
                return self._ask_kept(op, fields, timeout_s)
            finally:
                self._turn.release()
        sentinel = secrets.token_hex(16)
        argv, first = self._way_in()
        words = message(op, sentinel, {**fields, **self._told})
        done = self._remote.run(argv, stdin=first + words, timeout_s=timeout_s)
        frames = Frames(sentinel)
        for kind, body in frames.feed(done.stdout):
            if kind == "answer":
                return self._open(body)
        raise self._silence(done, frames.finish())

    def _ask_kept(self, op: str, fields: Mapping[str, Any], timeout_s: float) -> Any:
        """Ask the program that is there, or a fresh one. It stays only if it answers."""
        if self._kept is not None and (
            time.monotonic() - self._last > REUSE_S or not self._kept.lives()
        ):  # nothing of this question was sent: with another program its outcome is as sure as ever
            self._end_kept()
        sentinel = secrets.token_hex(16)
        frames = Frames(sentinel)
        asked = request(op, sentinel, {**fields, **self._told})
        if self._kept is None:
            argv, first = self._way_in()
            talk = self._remote.converse(argv)
            words = first + program() + brought(op) + asked
            self._there = needs(op)
        else:
            talk, self._kept = self._kept, None
            words = brought(op, self._there) + asked
            self._there |= needs(op)
        try:
            talk.say(words)
            deadline = time.monotonic() + timeout_s
            while heard := talk.hear(max(0.0, deadline - time.monotonic())):
                for kind, body in frames.feed(heard):
                    if kind == "answer":
                        self._kept, self._last = talk, time.monotonic()
                        return self._open(body)
        except BaseException:
            if self._kept is None:
                talk.end(at_once=True)
            raise
        raise self._silence(talk.end(), frames.finish())

    def _end_kept(self) -> None:
        talk, self._kept = self._kept, None
        if talk is not None:
            with suppress(OeactlError):
                talk.end()

    def _way_in(self) -> tuple[tuple[str, ...], bytes]:
        """The program's argv, and what goes on its stdin before all else."""
        inside = ("docker", "exec", "-i", self._container()) if self._container else ()
        words = (*inside, self._python, "-I", "-S", "-c", BOOTSTRAP)
        if self._sudo is None:
            return words, b""
        return self._sudo.argv(words), self._sudo.first()

    def _learn(self) -> None:
        assert self._sudo is not None
        self._sudo.learn()

    def _knock(self) -> None:
        """Find out whether sudo asks for a password, before something that cannot be asked twice."""
        if self._sudo is not None and not self._sudo.first():
            done = self._remote.run(self._sudo.argv(("true",)), timeout_s=KNOCK_S)
            if done.returncode and self._sudo.asks(done.stderr.decode("utf-8", "replace")):
                self._learn()

    @contextmanager
    def watch(self, op: str, /, **fields: Any) -> Iterator[Iterator[Mapping[str, Any]]]:
        """As the port says; the last item is ``{"event": "answer", "value": ...}``."""
        self._knock()
        sentinel = secrets.token_hex(16)
        words, first = self._way_in()
        argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", *words)
        sent = first + message(op, sentinel, {**fields, **self._told})
        with self._remote.stream(argv, stdin=sent) as lines:
            yield self._events(lines, Frames(sentinel))

    def _events(self, lines: Iterator[bytes], frames: Frames) -> Iterator[Mapping[str, Any]]:
        for line in lines:
            for kind, body in frames.feed(line):
                if kind == "answer":
                    yield {"event": "answer", "value": self._open(body)}
                    return
                if body["event"] != "alive":
                    yield body
        raise self._silence(Completed(returncode=1, stdout=b"", stderr=b""), frames.finish())

    def close(self) -> None:
        if self._turn.acquire(timeout=CLOSE_S):
            self._end_kept()
            self._turn.release()
        self._remote.close()

    def _open(self, body: Mapping[str, Any]) -> Any:
        if "error" not in body:
            return body["ok"]
        error = body["error"]
        where = f"{self.name}:{error['where']}" if error["where"] else self.name
        raise KINDS[error["kind"]](
            error["what"], where=where, hint=error["hint"], details=tuple(error["details"])
        )

    def _silence(self, done: Completed, noise: bytes) -> OeactlError:
        """What it means that the command ended without an answer."""
        text = (done.stderr + b"\n" + noise).decode("utf-8", "replace").strip()
        details = tuple(text.splitlines()[-TAIL_LINES:])
        if done.returncode in (None, ENDED) or not text:
            return ConnectionLost(
                "the agent was ended before it answered: what it did is unknown",
                where=self.name,
                hint="oeactl status reads the host's journal and tells",
                details=details,
            )
        if "Traceback" in text:
            return OeactlError("the agent failed without an answer", where=self.name, details=details)
        if "oeactl: Python 3.8" in text:
            return UsageError(
                f"{self._python} is older than Python 3.8", where=self.name, hint=self._other_python()
            )
        if self._sudo is not None:
            if self._sudo.asks(text):
                return _SudoAsks(text)
            refusal = self._sudo.refusal(text)
            if refusal is not None:
                return refusal
        if any(words in text for words in NOT_THERE):
            return UsageError(
                f"there is no Python at {self._python}",
                where=self.name,
                hint=self._other_python(),
                details=details,
            )
        return OeactlError("the agent failed without an answer", where=self.name, details=details)

    def _other_python(self) -> str:
        return f"set hosts.{self.name}.engine.python to an interpreter on the host, 3.8 or newer"
