"""A local port whose every connection goes through a channel to the host.

Owns: listening on loopback and moving bytes both ways. Refuses: to know how a channel is opened.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

CHUNK = 65536


class Channel(Protocol):
    """The little of a socket that is needed here."""

    def recv(self, size: int, /) -> bytes: ...
    def sendall(self, data: bytes, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


@contextmanager
def listening(open_channel: Callable[[], Channel]) -> Iterator[int]:
    """Yield the port. A channel that cannot be opened closes that one connection."""
    server = socket.create_server(("127.0.0.1", 0))
    opened: list[Channel | socket.socket] = []
    acceptor = threading.Thread(target=_accept, args=(server, open_channel, opened), daemon=True)
    acceptor.start()
    try:
        yield server.getsockname()[1]
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        acceptor.join(5.0)
        for end in opened:
            with suppress(OSError, EOFError):
                end.close()


def _accept(
    server: socket.socket, open_channel: Callable[[], Channel], opened: list[Channel | socket.socket]
) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        opened.append(client)
        try:
            channel = open_channel()
        except (OSError, EOFError):
            client.close()
            continue
        opened.append(channel)
        for source, sink in ((client, channel), (channel, client)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: Channel | socket.socket, sink: Channel | socket.socket) -> None:
    """Move bytes until the source ends; then tell the sink, whose other direction goes on."""
    with suppress(OSError, EOFError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with suppress(OSError, EOFError):
        sink.shutdown(socket.SHUT_WR)
