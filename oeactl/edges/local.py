"""This machine behind the same port as a remote one.

Owns: subprocesses of our own, ended as whole groups. Refuses: a shell.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from oeactl.errors import ConnectionLost, Refused
from oeactl.ports import Completed, Dialogue, Remote

CHUNK = 65536


def open_local(name: str = "@local", *, grace_s: float = 5.0) -> Remote:
    """This machine. grace_s: between the polite end of a command and the other one."""
    return LocalRemote(name, grace_s)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine has this number now."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class LocalRemote:
    """Commands start in the home folder, in their own session: Ctrl-C here reaches them only through us."""

    def __init__(self, name: str, grace_s: float) -> None:
        self.name = name
        self._grace_s = grace_s
        self._talks: list[_Talk] = []

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        try:
            process = _begin(argv, stderr=subprocess.PIPE)
        except OSError as error:
            return Completed(returncode=127, stdout=b"", stderr=f"{argv[0]}: {error.strerror}\n".encode())
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise ConnectionLost(
                f"{argv[0]} did not end within {timeout_s:g} s and was stopped", where=self.name
            ) from None
        finally:
            _end(process, self._grace_s)
        code = process.returncode
        return Completed(returncode=code if code >= 0 else None, stdout=stdout, stderr=stderr)

    @contextmanager
    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> Iterator[Iterator[bytes]]:
        try:
            process = _begin(argv, stderr=subprocess.DEVNULL)
        except OSError:
            yield iter(())
            return
        feeder = threading.Thread(target=_feed, args=(process, stdin), daemon=True)
        feeder.start()
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            _end(process, self._grace_s)
            feeder.join(self._grace_s)

    def converse(self, argv: Sequence[str]) -> Dialogue:
        try:
            process = _begin(argv, stderr=subprocess.PIPE)
        except OSError as error:
            return _Unbegun(f"{argv[0]}: {error.strerror}\n")
        self._talks.append(_Talk(process, argv[0], self.name, self._grace_s))
        return self._talks[-1]

    @contextmanager
    def forward(self, port: int) -> Iterator[int]:
        yield port

    def get(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise Refused(f"cannot read it: {error.strerror}", where=f"{self.name}:{path}") from None

    def close(self) -> None:
        """End the commands that are still talked to."""
        while self._talks:
            self._talks.pop().end()


class _Talk:
    """ports.Dialogue over a process of ours; its stderr is drained by a thread."""

    def __init__(self, process: subprocess.Popen[bytes], program: str, name: str, grace_s: float) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._program = program
        self._name = name
        self._grace_s = grace_s
        self._stderr = b""
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with suppress(OSError, ValueError):
            self._stderr = self._process.stderr.read()

    def lives(self) -> bool:
        return self._process.poll() is None

    def say(self, data: bytes) -> None:
        with suppress(OSError, ValueError):  # whatever became of it, the answer tells, or its absence
            self._stdin.write(data)
            self._stdin.flush()

    def hear(self, timeout_s: float) -> bytes:
        if not select.select([self._stdout], [], [], timeout_s)[0]:
            raise ConnectionLost(
                f"{self._program} gave no answer within {timeout_s:g} s and was stopped", where=self._name
            )
        return os.read(self._stdout.fileno(), CHUNK)

    def end(self, *, at_once: bool = False) -> Completed:
        with suppress(OSError, ValueError):
            self._stdin.close()
        if not at_once:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._grace_s)
        _end(self._process, self._grace_s)
        self._drain.join(self._grace_s)
        code = self._process.returncode
        return Completed(
            returncode=code if code is not None and code >= 0 else None, stdout=b"", stderr=self._stderr
        )


class _Unbegun:
    """A command that could not even be begun."""

    def __init__(self, why: str) -> None:
        self._why = why

    def lives(self) -> bool:
        return False

    def say(self, data: bytes) -> None:
        """Nobody listens."""

    def hear(self, timeout_s: float) -> bytes:
        return b""

    def end(self, *, at_once: bool = False) -> Completed:
        return Completed(returncode=127, stdout=b"", stderr=self._why.encode())


def _begin(argv: Sequence[str], *, stderr: int) -> subprocess.Popen[bytes]:
    home = os.path.expanduser("~")  # noqa: PTH111  # Path.home() raises where there is none
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=home if Path(home).is_dir() else "/",
        start_new_session=True,
    )


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError, ValueError):
        process.stdin.write(data)
    with suppress(BrokenPipeError, ValueError):
        process.stdin.close()


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End the command's process group, politely first; a group that is gone is fine."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
