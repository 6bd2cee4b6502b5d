"""One command on the host, watched: its lines as they come, its end, and the file it wrote.

Owns: ``job``. Refuses: to leave anything of it running, whether the client goes, the deadline passes or it
ends by itself.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from . import process
from .environment import base_environment
from .wire import AgentError, from_text, operation, to_text

if TYPE_CHECKING:
    from .process import Key
    from .wire import Client, Request

TOLD_EVERY_S = 0.25
LINES_AT_ONCE = 40
TAIL_LINES = 200
LONGEST = 2000
TERM_S = 2.0
KILL_S = 10.0
MARK = "OEACTL_JOB"  # a random value in its environment: what it begets is known by it
PR_SET_PDEATHSIG = 1


class Output:
    """Cuts a stream into lines. Of a progress bar (carriage returns) only the newest state is told."""

    def __init__(self) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.new: list[str] = []
        self._bar: str | None = None
        self._rest = b""

    def feed(self, data: bytes) -> None:
        parts = re.split(rb"(\r\n|\n|\r)", self._rest + data)
        self._rest = parts.pop()
        for text, end in zip(parts[::2], parts[1::2]):  # noqa: B905  # no strict= in CPython 3.8
            line = text[:LONGEST].decode("utf-8", "replace")
            if end == b"\r":
                self._bar = line or self._bar
            elif line or self._bar is None:
                self._keep(line)

    def take(self) -> list[str]:
        """What is new since the last call, the middle of a flood left out."""
        lines, self.new = self.new, []
        if len(lines) > LINES_AT_ONCE:
            half = LINES_AT_ONCE // 2
            lines = [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]
        if self._bar is not None:
            lines.append(self._bar)
            self._bar = None
        return lines

    def finish(self) -> list[str]:
        if self._bar is not None:
            self._keep(self._bar)
        if self._rest:
            self.feed(b"\n")
        return self.take()

    def _keep(self, line: str) -> None:
        self._bar = None
        self.tail.append(line)
        self.new.append(line)


@operation("job")
def job(request: Request, client: Client) -> dict[str, Any]:
    """Run ``argv`` ({out} in it: a fresh path), emit ``lines``; answer how it ended and what ``out`` holds.

    With the lines comes how many CPU seconds it has had so far.

    {in}: a file that holds ``input``, in a folder that only this user may enter.

    returncode is negative for a signal; timed_out when the deadline ended it.
    """
    folder = tempfile.mkdtemp(prefix="oeactl-job-")
    begun = time.monotonic()
    try:
        out, given = os.path.join(folder, "out"), os.path.join(folder, "in")
        if request.get("input") is not None:
            with open(given, "wb") as file:
                file.write(from_text(request["input"]))
        mark = secrets.token_hex(8)
        argv = [word.replace("{out}", out).replace("{in}", given) for word in request["argv"]]
        child = _begin(request, argv, mark)
        output = Output()
        try:
            timed_out = _watch(child, output, client, begun + request["deadline_s"])
        finally:
            _end(child, mark)
        lines = output.finish()
        if lines:
            client.emit("lines", lines=lines)
        return {
            "returncode": child.returncode,
            "timed_out": timed_out,
            "tail": list(output.tail),
            "out": _content(out),
            "seconds": time.monotonic() - begun,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _begin(request: Request, argv: list[str], mark: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**base_environment(), **request["env"], MARK: mark},
            cwd=request.get("cwd") or "/",
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    except OSError as error:
        raise AgentError("usage", f"cannot run it: {error.strerror}", error.filename or argv[0]) from error


def _die_with_parent() -> None:
    """Even a SIGKILL of this program ends the command."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it is over. It stays a zombie: so long its number, and its session's, are given to no other."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _watch(child: subprocess.Popen[bytes], output: Output, client: Client, limit: float) -> bool:
    """Pass its lines on until it has ended; True when ``limit`` came first."""
    assert child.stdout is not None
    handle = child.stdout.fileno()
    os.set_blocking(handle, False)
    told_at = 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        is_open = True
        while not _ended(child) or is_open:
            if is_open and selector.select(TOLD_EVERY_S):
                data = os.read(handle, 1 << 16)
                is_open = bool(data)
                output.feed(data)
            elif _ended(child):
                break  # a grandchild keeps the pipe: it is ended with the group
            elif not is_open:
                time.sleep(0.05)
            now = time.monotonic()
            if now - told_at >= TOLD_EVERY_S:
                told_at = now
                lines = output.take()
                if lines:
                    client.emit("lines", lines=lines, cpu_s=process.cpu_s(child.pid), at_s=now)
            if now >= limit:
                return True
    return False


def _end(child: subprocess.Popen[bytes], mark: str) -> None:
    """End what is left of the command and all it begot, wherever it went."""
    found = process.stat(child.pid)
    family = process.Family(found.key if found else None, mark=f"{MARK}={mark}")
    for number, seconds in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        limit = time.monotonic() + seconds
        sent: set[Key] = set()
        while time.monotonic() < limit:
            left = family.look() or family.look(marks=True)
            if not left:
                break
            for one in left:
                if one.key not in sent:
                    process.send(one.key, number)
                    sent.add(one.key)
            time.sleep(0.05)
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def _content(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return to_text(file.read())
    except OSError:
        return None
