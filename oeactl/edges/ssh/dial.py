"""Opening a connection that is sure of the host, hop after hop, and noticing when its peer is dead.

Owns: fabric's connections, sockets, host key policy, the watchdog, how many logins knock at one server at a
time. Refuses: unknown host keys.
"""

from __future__ import annotations

import logging
import random
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import fabric  # type: ignore[import-untyped]
import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from oeactl.edges.ssh.approach import Approach
from oeactl.edges.ssh.config import Route
from oeactl.edges.ssh.host_keys import HostKeys
from oeactl.edges.ssh.login import Login
from oeactl.errors import OeactlError, Unreachable

#: sshd's MaxStartups drops logins by chance from 10 on, ours and everybody's.
LOGINS_AT_ONCE = 6
RETRY_S = (0.2, 0.5, 1.0, 2.0)
TOO_MANY = (b"Exceeded MaxStartups", b"Not allowed at this time")
FIRST = 32

_doors: dict[tuple[str, int], threading.BoundedSemaphore] = {}
_doors_turn = threading.Lock()

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # its threads would print tracebacks


class _Dropped(Exception):
    """The server hung up before it said anything."""


class Line:
    """An open connection with its hops, watched."""

    def __init__(
        self,
        transport: paramiko.Transport,
        opened: ExitStack,
        meter: _Meter,
        timeout_s: float,
        dead_after_s: float,
    ) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self._opened = opened
        self._dead_after_s = dead_after_s
        self._closed = threading.Event()
        threading.Thread(target=self._watch, args=(meter,), daemon=True).start()

    def _watch(self, meter: _Meter) -> None:
        """Ask now and then; close when neither answer nor bytes come. paramiko's keepalive never does."""
        while not self._closed.wait(self._dead_after_s / 3) and self.transport.is_active():
            question = threading.Thread(target=self._ask, daemon=True)
            question.start()
            moved = -1
            while question.is_alive() and moved != meter.moved:
                moved = meter.moved
                question.join(self._dead_after_s)
            if question.is_alive():
                self.transport.close()

    def _ask(self) -> None:
        with suppress(paramiko.SSHException, OSError, EOFError):
            self.transport.global_request("keepalive@openssh.com", wait=True)

    def close(self) -> None:
        self._closed.set()
        self._opened.close()


class _Meter:
    """A socket, or a channel through a hop, that counts the bytes it moves and remembers the first ones."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._plain = isinstance(inner, socket.socket) and inner.family != socket.AF_UNIX
        self._first = b""
        self._ended = False
        self.moved = 0

    @property
    def dropped(self) -> bool:
        """The server hung up, with no word or with those of an sshd that has too many logins."""
        return self._ended and (not self._first or self._first.startswith(TOO_MANY))

    def recv(self, size: int) -> bytes:
        try:
            data: bytes = self._inner.recv(size)
        except ConnectionError:
            self._ended = True
            raise
        self._ended = not data
        self.moved += len(data)
        if len(self._first) < FIRST:
            self._first += data[:FIRST]
        if self._plain and hasattr(socket, "TCP_QUICKACK"):
            # sshd's answers come in small pieces, each held back until the one before is acknowledged, which
            # this side would put off by 40 ms. The kernel forgets the wish, so it is made each time.
            self._inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data

    def send(self, data: bytes) -> int:
        sent: int = self._inner.send(data)
        self.moved += sent
        return sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Dialer:
    """How to open the connection, hop after hop."""

    def __init__(
        self,
        name: str,
        approach: Approach,
        timeout_s: float,
        dead_after_s: float,
        passphrase: Callable[[str], str | None] | None,
    ) -> None:
        self._name = name
        self._approach = approach
        self._timeout_s = timeout_s
        self._dead_after_s = dead_after_s
        self._passphrase = passphrase

    def close(self) -> None:
        """Leave alone what was begun for a connection that nobody wanted."""
        self._approach.close()

    def dial(self) -> Line:
        via: fabric.Connection | None = None
        try:
            with ExitStack() as opened:
                for route in self._approach.routes():
                    via, meter = self._hop(route, via, opened)
                assert via is not None, "a chain has at least its last hop"
                transport: paramiko.Transport = via.transport
                return Line(transport, opened.pop_all(), meter, self._timeout_s, self._dead_after_s)
        except OeactlError as error:
            error.where = error.where or self._name
            raise

    def _hop(
        self, route: Route, via: fabric.Connection | None, opened: ExitStack
    ) -> tuple[fabric.Connection, _Meter]:
        """Log in to one hop; again after a while where its server had too many logins at once."""
        for pause_s in RETRY_S:
            try:
                return self._login(route, via, opened)
            except _Dropped:
                time.sleep(pause_s * random.uniform(0.5, 1.5))
        try:
            return self._login(route, via, opened)
        except _Dropped:
            raise Unreachable(
                f"{route.at} drops the connection before a word is said",
                hint="its sshd has too many logins at once (MaxStartups), or keeps this address out",
            ) from None

    def _login(
        self, route: Route, via: fabric.Connection | None, opened: ExitStack
    ) -> tuple[fabric.Connection, _Meter]:
        with ExitStack() as this, _knocking(route):
            meter = _Meter(self._socket(route, via, this))
            this.callback(meter.close)
            connection = self._connect(route, meter)
            this.callback(connection.close)
            opened.push(this.pop_all())
            return connection, meter

    def _socket(self, route: Route, via: fabric.Connection | None, opened: ExitStack) -> Any:
        if via is not None:
            return self._through(route, via)
        if route.proxy_command is not None:
            return opened.enter_context(_proxied(route.proxy_command))
        return self._approach.socket(route)

    def _through(self, route: Route, via: fabric.Connection) -> paramiko.Channel:
        try:
            transport: paramiko.Transport = via.transport
            return transport.open_channel(
                "direct-tcpip", (route.hostname, route.port), ("", 0), timeout=self._timeout_s
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise Unreachable(
                f"the jump host {via.host} cannot reach {route.at}: {error}",
                hint="check proxy_jump and the address",
            ) from None

    def _connect(self, route: Route, meter: _Meter) -> fabric.Connection:
        keys = HostKeys(route)
        connection = fabric.Connection(
            host=route.hostname,
            user=route.user,
            port=route.port,
            config=fabric.Config(ssh_config=paramiko.SSHConfig(), lazy=True),
            connect_kwargs={
                "sock": meter,
                "timeout": self._timeout_s,
                "banner_timeout": self._timeout_s,
                "auth_timeout": self._timeout_s,
                "channel_timeout": self._timeout_s,
                "transport_factory": lambda sock, **options: _transport(sock, keys, options),
                "auth_strategy": Login(route, self._passphrase),
            },
        )
        connection.client.set_missing_host_key_policy(_Policy(keys))
        try:
            connection.open()
        except BaseException as error:
            connection.client.close()
            if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
                if meter.dropped:
                    raise _Dropped from None
                raise self._no_ssh(route, error) from None
            raise
        return connection

    def _no_ssh(self, route: Route, error: Exception) -> Unreachable:
        """The TCP connection stands, and no SSH came of it."""
        if isinstance(error, IncompatiblePeer):
            return Unreachable(
                f"{route.at} offers no algorithm that we take: {error}", hint="upgrade its sshd"
            )
        why = str(error) or type(error).__name__
        return Unreachable(
            f"{route.at} answers, but not as an SSH server: {why}",
            hint=f"try: ssh -v -p {route.port} {shlex.quote(f'{route.user}@{route.hostname}')}",
        )


@contextmanager
def _knocking(route: Route) -> Iterator[None]:
    """Take part in the logins under way at the route's server, of which there are only so many."""
    with _doors_turn:
        door = _doors.setdefault((route.hostname, route.port), threading.BoundedSemaphore(LOGINS_AT_ONCE))
    with door:
        yield


@contextmanager
def _proxied(command: str) -> Iterator[socket.socket]:
    """A socket whose other end is the stdin and stdout of OpenSSH's ProxyCommand."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            end = theirs.fileno()
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"], stdin=end, stdout=end, start_new_session=True
            )
        try:
            yield ours
        finally:
            process.terminate()
            process.wait()


def _transport(sock: Any, keys: HostKeys, options: dict[str, Any]) -> paramiko.Transport:
    """A transport that asks first for the kinds of host key that known_hosts can recognise."""
    transport = paramiko.Transport(sock, **options)
    known = keys.kinds()
    security = transport.get_security_options()
    security.key_types = sorted(
        security.key_types,
        key=lambda kind: ("ssh-rsa" if kind.startswith("rsa-sha2-") else kind) not in known,
    )
    return transport


class _Policy(paramiko.MissingHostKeyPolicy):
    """The client's own store stays empty: every host key comes here, before any key of ours is shown."""

    def __init__(self, keys: HostKeys) -> None:
        self._keys = keys

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        self._keys.check(key.get_name(), key.asbytes())
