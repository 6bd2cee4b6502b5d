"""One HTTP/1.1 connection: requests go out, bytes are stamped when seen and read when there is time.

Owns: the connection, its request in flight, and the backlog of bytes not read yet. What may end an answer is
read at once; the rest together, every few milliseconds, and never for longer than a third of one while others
wait to be stamped. Refuses: to send anything twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .answer import Answer, Broken
from .apis import Stream

if TYPE_CHECKING:
    from .lag import Watch

READ_AT_ONCE_S = 0.0003
READ_EVERY_S = 0.005
LAST_CHUNK = b"\r\n0\r\n\r\n"
LARGEST_BACKLOG = 64 << 20
CONNECT_S = 30.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Exchange:
    """One request and what came back. ``finished`` is set once; ``stream.error`` says how it went."""

    def __init__(self, stream: Stream, begun: float) -> None:
        self.stream = stream
        self.answer = Answer(stream)
        self.begun = begun
        self.active_at = begun
        self.finished: asyncio.Future[None] = asyncio.get_event_loop().create_future()
        self.pieces: list[tuple[float, bytes | None]] = []
        self.waits = False

    def read(self) -> int:
        """Understand what has come; how many bytes that was."""
        size = 0
        pieces, self.pieces, self.waits = self.pieces, [], False
        for at, data in pieces:
            if self.finished.done():
                break
            try:
                if data is None:
                    self.answer.eof(at)
                else:
                    size += len(data)
                    self.answer.feed(at, data)
            except Broken as problem:
                self.fail(str(problem))
            else:
                if self.answer.ended:
                    self.stream.close()
                    self.finished.set_result(None)
        return size

    def fail(self, why: str) -> None:
        """End it as failed, unless it is over; an error that the stream told comes first."""
        if not self.finished.done():
            self.stream.error = self.stream.error or why
            self.answer.reusable = False
            self.finished.set_result(None)


class Backlog:
    """Exchanges with bytes to read, first come first read, a little at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Exchange] = deque()
        self._urgent: list[Exchange] = []
        self._size = 0
        self._scheduled = False

    def add(self, exchange: Exchange, size: int, *, urgent: bool) -> None:
        """Have it read: soon, or (urgent: it may be over) before anything else."""
        self._size += size
        if urgent:
            if not self._urgent:
                self._loop.call_soon(self._hurry)
            self._urgent.append(exchange)
            return
        if not exchange.waits:
            exchange.waits = True
            self._waiting.append(exchange)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(READ_EVERY_S, self._work)

    def _hurry(self) -> None:
        urgent, self._urgent = self._urgent, []
        for exchange in urgent:
            self._size -= exchange.read()

    def _work(self) -> None:
        limit = perf_counter() + READ_AT_ONCE_S
        while self._waiting:
            self._size -= self._waiting.popleft().read()
            if perf_counter() > limit and self._size < LARGEST_BACKLOG:
                break
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            self._loop.call_soon(self._work)


class Connection(asyncio.BufferedProtocol):
    """To one server; one exchange at a time. All connections of a process share one buffer to receive in."""

    def __init__(self, watch: Watch, backlog: Backlog, buffer: bytearray) -> None:
        self._watch = watch
        self._backlog = backlog
        self._view = memoryview(buffer)
        self._exchange: Exchange | None = None
        self._transport: Any = None
        self.open = False
        self.idle_since = 0.0

    def send(self, data: bytes, exchange: Exchange) -> None:
        self._exchange = exchange
        self._transport.write(data)

    def release(self) -> bool:
        """The exchange is over; whether another may follow here."""
        exchange, self._exchange = self._exchange, None
        self.idle_since = perf_counter()
        if exchange is None or not exchange.answer.reusable or not self.open:
            self.close()
        return self.open

    def close(self) -> None:
        self.open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.open = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self._exchange
        if exchange is None:  # bytes that belong to no request
            self.close()
            return
        at = self._watch.seen
        exchange.active_at = at
        exchange.pieces.append((at, bytes(self._view[:nbytes])))
        urgent = not exchange.answer.flows or self._view[max(0, nbytes - 7) : nbytes] == LAST_CHUNK
        self._backlog.add(exchange, nbytes, urgent=urgent)

    def eof_received(self) -> bool:
        self._over(None)
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        self._over(exc)

    def _over(self, exc: BaseException | None) -> None:
        self.open = False
        exchange = self._exchange
        if exchange is None or exchange.finished.done():
            return
        if exc is None:
            exchange.pieces.append((self._watch.seen, None))
            self._backlog.add(exchange, 0, urgent=True)
            return
        exchange.read()  # what came before it broke may have been the whole answer
        exchange.fail("the connection broke: %s" % (exc or type(exc).__name__))


class Place:
    """Where requests go: address, path, headers. api_key goes into one header and nowhere else."""

    def __init__(self, url: str, api_key: str | None) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.tls = _context(self.host) if parts.scheme == "https" else None
        self._base = parts.path.rstrip("/")
        name = parts.netloc.rpartition("@")[2]
        self._fields = f"Host: {name}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
        if api_key:
            self._fields += f"Authorization: Bearer {api_key}\r\n"

    def request(self, path: str, body: bytes) -> bytes:
        head = f"POST {self._base}{path} HTTP/1.1\r\n{self._fields}Content-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    async def connect(self, watch: Watch, backlog: Backlog, buffer: bytearray) -> Connection:
        """A new connection. Raises OSError, asyncio.TimeoutError."""
        loop = asyncio.get_event_loop()
        making = loop.create_connection(
            lambda: Connection(watch, backlog, buffer), self.host, self.port, ssl=self.tls
        )
        _, connection = await asyncio.wait_for(making, CONNECT_S)
        return connection


def _context(host: str) -> Any:
    import ssl

    context = ssl.create_default_context()
    if host in LOOPBACK:  # no certificate names loopback
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
