"""Commands, streams, ports and files of a machine over SSH.

Owns: raw channels and the ends of commands. Refuses: to call a lost connection a failed command.
"""

from __future__ import annotations

import math
import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import paramiko

from oeactl.edges.ssh import tunnel
from oeactl.edges.ssh.dial import Dialer, Line
from oeactl.errors import ConnectionLost, OeactlError, Refused, Unreachable, UsageError
from oeactl.ports import Completed, Dialogue

CHUNK = 65536
TICK_S = 0.5
GRACE_S = 5.0
GET_S = 300.0


class SshRemote:
    """ports.Remote over one connection, opened once, shared by threads, opened anew after it was lost."""

    def __init__(self, name: str, dialer: Dialer) -> None:
        self.name = name
        self._dialer = dialer
        self._lock = threading.Lock()
        self._line: Line | None = None

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        command = _Command(self.name, self._channel, argv, stdin)
        try:
            deadline = time.monotonic() + timeout_s
            stdout = b"".join(command.output(lambda: deadline))
        finally:
            command.end(self._channel)
        return Completed(returncode=command.returncode(), stdout=stdout, stderr=bytes(command.stderr))

    @contextmanager
    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> Iterator[Iterator[bytes]]:
        command = _Command(self.name, self._channel, argv, stdin)
        try:
            yield _lines(command.output(lambda: math.inf))
        finally:
            command.end(self._channel)

    def converse(self, argv: Sequence[str]) -> Dialogue:
        return _Talk(_Command(self.name, self._channel, argv, None), self._channel)

    @contextmanager
    def forward(self, port: int) -> Iterator[int]:
        self._connected()

        def open_channel() -> paramiko.Channel:
            try:
                return self._connected().transport.open_channel(
                    "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=GRACE_S
                )
            except (paramiko.SSHException, OeactlError) as error:
                raise OSError(str(error)) from None

        with tunnel.listening(open_channel) as local_port:
            yield local_port

    def get(self, path: str) -> bytes:
        done = self.run(("cat", "--", path), timeout_s=GET_S)
        if done.returncode != 0:
            why = done.stderr.decode("utf-8", "replace").strip().rpartition(": ")[2]
            raise Refused(f"cannot read it: {why}", where=f"{self.name}:{path}")
        return done.stdout

    def close(self) -> None:
        with self._lock:
            line, self._line = self._line, None
        self._dialer.close()
        if line is not None:
            line.close()

    def _connected(self) -> Line:
        with self._lock:
            if self._line is None or not self._line.transport.is_active():
                if self._line is not None:
                    self._line.close()
                self._line = None
                self._line = self._dialer.dial()
            return self._line

    def _channel(self) -> paramiko.Channel:
        """A fresh channel; a connection found dead here is opened anew once, as nothing was sent yet."""
        for last in (False, True):
            line = self._connected()
            try:
                channel = line.transport.open_session(timeout=line.timeout_s)
            except (paramiko.SSHException, EOFError, OSError) as error:
                if last or line.transport.is_active():
                    raise Unreachable(
                        f"the host opened no channel: {error}",
                        where=self.name,
                        hint="see MaxSessions in sshd_config",
                    ) from None
            else:
                channel.settimeout(TICK_S)
                return channel
        raise AssertionError("unreachable")


class _Command:
    """One command on one channel: fed by a thread, its stderr drained by another. stdin None: it stays open.

    It starts through ``sh`` so that its pid is known (a channel's signals do not reach root's processes on
    common servers), and so that whatever rc files print stays out of stdout.
    """

    def __init__(
        self,
        name: str,
        open_channel: Callable[[], paramiko.Channel],
        argv: Sequence[str],
        stdin: bytes | None,
    ) -> None:
        if argv[0].startswith("-"):
            raise UsageError(f"not a program: {argv[0]!r}", where=name)
        self._name = name
        self._token = secrets.token_hex(8)
        self._pid: int | None = None
        self.stderr = bytearray()
        script = 'printf "%s %s\\n" "$0" "$$"; exec "$@"'
        line = shlex.join(("sh", "-c", script, self._token, *argv))
        self._channel = open_channel()
        try:
            self._channel.exec_command(line)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._channel.close()
            raise Unreachable(f"the host ran no command: {error}", where=name) from None
        self._threads = [threading.Thread(target=self._drain, daemon=True)]
        if stdin is not None:
            self._threads.append(threading.Thread(target=self._feed, args=(stdin,), daemon=True))
        for thread in self._threads:
            thread.start()

    def _feed(self, data: bytes) -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):
            self.send(data)
            self.close_stdin()

    def send(self, data: bytes) -> None:
        """Raises OSError, EOFError or SSHException where the command or the connection is gone."""
        view = memoryview(data)
        while view and not self._channel.closed:
            with suppress(TimeoutError):
                view = view[self._channel.send(bytes(view[:CHUNK])) :]

    def close_stdin(self) -> None:
        self._channel.shutdown_write()

    def _drain(self) -> None:
        with suppress(OSError, EOFError):
            while True:
                with suppress(TimeoutError):
                    data = self._channel.recv_stderr(CHUNK)
                    if not data:
                        return
                    self.stderr += data

    def output(self, deadline: Callable[[], float]) -> Iterator[bytes]:
        """Chunks of stdout to its end. deadline: of time.monotonic, asked anew for each.

        Raises ConnectionLost when that is not the command's own end.
        """
        head = b""
        for data in self._received(deadline):
            if self._pid is not None:
                yield data
                continue
            head += data
            _, found, rest = head.partition(self._token.encode() + b" ")
            pid, newline, rest = rest.partition(b"\n")
            if found and newline:
                self._pid, head = int(pid), b""
                if rest:
                    yield rest
        if head:
            yield head
        if not self._ended_by(deadline) or not self._has_status():
            raise self._lost()
        for thread in self._threads:
            thread.join(GRACE_S)

    def _received(self, deadline: Callable[[], float]) -> Iterator[bytes]:
        while True:
            try:
                data = self._channel.recv(CHUNK)
            except TimeoutError:
                if time.monotonic() > deadline():
                    raise ConnectionLost(
                        "the command did not end in time; whether it still runs is not known",
                        where=self._name,
                    ) from None
                continue
            except OSError:
                return
            if not data:
                return
            yield data

    def _ended_by(self, deadline: Callable[[], float]) -> bool:
        """Wait for the exit status, which follows the end of stdout."""
        while not self._channel.status_event.wait(TICK_S):
            if self._channel.closed or time.monotonic() > deadline():
                return False
        return True

    def _has_status(self) -> bool:
        """False when the connection ended first. A signal's end has no status, but a living connection.

        A connection that ends closes its channels just before it says so itself: it is given a moment.
        """
        channel = self._channel
        if channel.exit_status != -1:
            return True
        if not channel.eof_received:
            channel.get_transport().join(TICK_S)
        return bool(channel.get_transport().is_active())

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            "the connection ended before the command did: what it did is unknown",
            where=self._name,
            hint="run the command again: it looks before it does anything",
        )

    def lives(self) -> bool:
        """Neither it nor its connection has ended, as far as has been heard."""
        channel = self._channel
        ended = channel.closed or channel.eof_received or channel.status_event.is_set()
        return not ended and bool(channel.get_transport().is_active())

    def returncode(self) -> int | None:
        status: int = self._channel.exit_status
        return status if status >= 0 else None

    def end(self, open_channel: Callable[[], paramiko.Channel]) -> None:
        """End a command that still runs: TERM, then KILL, to its process group."""
        transport = self._channel.get_transport()
        try:
            for number in ("TERM", "KILL"):
                if self._channel.status_event.is_set() or not transport.is_active() or self._pid is None:
                    return
                self._signal(number, open_channel)
                self._channel.status_event.wait(GRACE_S)
        finally:
            self._channel.close()

    def _signal(self, number: str, open_channel: Callable[[], paramiko.Channel]) -> None:
        # The group is the fifth field of stat; the second is a name in brackets that may hold anything.
        script = 'g=$(sed "s/.*) //" /proc/$2/stat | cut -d" " -f3) && kill -"$1" -"$g"'
        with suppress(OeactlError, paramiko.SSHException, OSError, EOFError):
            channel = open_channel()
            channel.exec_command(shlex.join(("sh", "-c", script, "sh", number, str(self._pid))))
            channel.status_event.wait(GRACE_S)
            channel.close()


class _Talk:
    """ports.Dialogue over a command on a channel."""

    def __init__(self, command: _Command, open_channel: Callable[[], paramiko.Channel]) -> None:
        self._command = command
        self._open_channel = open_channel
        self._deadline = 0.0
        self._output = command.output(lambda: self._deadline)

    def lives(self) -> bool:
        return self._command.lives()

    def say(self, data: bytes) -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):  # the answer tells, or its absence
            self._command.send(data)

    def hear(self, timeout_s: float) -> bytes:
        self._deadline = time.monotonic() + timeout_s
        return next(self._output, b"")

    def end(self, *, at_once: bool = False) -> Completed:
        rest = b""
        try:
            if not at_once:
                with suppress(OSError, EOFError, paramiko.SSHException, ConnectionLost):
                    self._command.close_stdin()
                    self._deadline = time.monotonic() + GRACE_S
                    rest = b"".join(self._output)
        finally:
            self._command.end(self._open_channel)
        stderr = bytes(self._command.stderr)
        return Completed(returncode=self._command.returncode(), stdout=rest, stderr=stderr)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest
