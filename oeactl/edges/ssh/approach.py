"""What comes before a login, without paramiko: the hops to a target, and the socket to the first of them.

Both are under way from the beginning on, while paramiko is imported: to import it takes as long as OpenSSH's
answer and what sshd does before it says a word. Owns: that start, and TCP. Refuses: to log in.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from oeactl.edges.ssh.config import Route, Target, chain
from oeactl.errors import OeactlError, Unreachable

#: Of each server: beside the logins under way, still below the 10 from which on its MaxStartups drops some.
EARLY_AT_ONCE = 3
EARLY_S = 20.0  # sshd waits for a login for two minutes, by default

_ADDRESS = re.compile(r"[0-9.]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")

_early: Counter[tuple[str, int]] = Counter()
_turn = threading.Lock()


class Approach:
    """The way to a target: for its first connection begun at once, for each further one asked anew.

    timeout_s: how long a connection may take.
    """

    def __init__(self, target: Target, environment: Mapping[str, str], timeout_s: float) -> None:
        self._target = target
        self._environment = environment
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._closed = False
        self._found: tuple[Route, ...] | OeactlError | None = None
        self._early: socket.socket | Unreachable | None = None
        self._early_at = 0.0
        self._first: threading.Thread | None = threading.Thread(target=self._look, daemon=True)
        self._first.start()

    def _look(self) -> None:
        try:
            self._found = hops = chain(self._target, self._environment)
        except OeactlError as error:
            self._found = error
            return
        if hops[0].proxy_command is None and _may_begin(hops[0]):
            self._keep(_begun(hops[0], self._timeout_s))

    def _keep(self, early: socket.socket | Unreachable) -> None:
        with self._lock:
            self._early, self._early_at = early, time.monotonic()
        if self._closed:
            self.close()

    def _take(self) -> socket.socket | Unreachable | None:
        with self._lock:
            early, self._early = self._early, None
            return early

    def routes(self) -> tuple[Route, ...]:
        """The hops. Raises UsageError, Unreachable as ``chain`` does."""
        first, self._first = self._first, None
        if first is None:
            return chain(self._target, self._environment)
        first.join()
        if isinstance(self._found, OeactlError):
            raise self._found
        return self._found or chain(self._target, self._environment)

    def socket(self, route: Route) -> socket.socket:
        """A connection to the first hop, on which nothing was said yet. Raises Unreachable."""
        early = self._take()
        if early is None or time.monotonic() - self._early_at > EARLY_S:
            _leave(early)
            return tcp(route, self._timeout_s)
        if isinstance(early, Unreachable):
            raise early
        return early

    def close(self) -> None:
        """Leave what was begun for a connection that nobody wanted."""
        self._closed = True
        _leave(self._take())


def _may_begin(route: Route) -> bool:
    with _turn:
        _early[route.hostname, route.port] += 1
        return _early[route.hostname, route.port] <= EARLY_AT_ONCE


def _begun(route: Route, timeout_s: float) -> socket.socket | Unreachable:
    try:
        return tcp(route, timeout_s)
    except Unreachable as error:
        return error


def _leave(early: socket.socket | Unreachable | None) -> None:
    if isinstance(early, socket.socket):
        early.close()


def tcp(route: Route, timeout_s: float) -> socket.socket:
    """Connect, with an error that says which of the usual reasons it was."""
    host: Any = route.hostname
    if _ADDRESS.fullmatch(host):
        host = host.encode()  # for text Python imports its codec of international names first, in 6 ms
    try:
        connection = socket.create_connection((host, route.port), timeout=timeout_s)
    except socket.gaierror as error:
        raise Unreachable(
            f"no address is known for {route.hostname}: {error.strerror}",
            hint="check address in hosts.yaml, or the Host entry of your ssh configuration",
        ) from None
    except UnicodeError:
        raise Unreachable(f"not a host name: {route.hostname!r}", hint="check address") from None
    except TimeoutError:
        raise Unreachable(
            f"{route.at} did not answer within {timeout_s:g} s", hint="is the machine up? a VPN, a firewall?"
        ) from None
    except ConnectionRefusedError:
        raise Unreachable(
            f"nothing listens on {route.at}", hint="check port in hosts.yaml, and that sshd runs there"
        ) from None
    except OSError as error:
        raise Unreachable(
            f"{route.at} cannot be reached: {error.strerror}", hint="is there a route to it?"
        ) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection
