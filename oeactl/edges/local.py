"""This machine behind the same port as a remote one.

Owns: subprocesses of our own, ended as whole groups. Refuses: a shell.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from oeactl.errors import ConnectionLost, Refused
from oeactl.ports import Completed, Remote


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

    @contextmanager
    def forward(self, port: int) -> Iterator[int]:
        yield port

    def get(self, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise Refused(f"cannot read it: {error.strerror}", where=f"{self.name}:{path}") from None

    def close(self) -> None:
        """Nothing is held open."""


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
