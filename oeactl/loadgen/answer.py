"""An HTTP/1.1 answer and the events in it, out of bytes that may be cut anywhere.

Owns: head, chunked, counted or open-ended body, server-sent events; every length is bounded. Refuses: what
an event means (apis.py), and an answer that is compressed, redirected, or no event stream.
"""

from __future__ import annotations

from .apis import Stream

LONGEST_HEAD = 1 << 16
LONGEST_EVENT = 1 << 24
LONGEST_SIZE_LINE = 1 << 10
KEPT_OF_ERROR = 600


class Broken(Exception):
    """The answer is not what it should be; the text says why."""


class Events:
    """Cuts a body into server-sent events: (is it an error event, its data)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._data: list[bytes] = []
        self._name = b""

    def feed(self, data: bytes) -> list[tuple[bool, bytes]]:
        self._parts.append(data)
        self._held += len(data)
        if b"\n" not in data:
            if self._held > LONGEST_EVENT:
                raise Broken(f"an event is longer than {LONGEST_EVENT} bytes")
            return []
        lines = b"".join(self._parts).split(b"\n")
        self._parts = [lines.pop()]
        self._held = len(self._parts[0])
        found: list[tuple[bool, bytes]] = []
        for line in lines:
            self._line(line[:-1] if line.endswith(b"\r") else line, found)
        return found

    @property
    def empty(self) -> bool:
        """Whether no event is half there."""
        return not (self._held or self._data or self._name)

    def finish(self) -> list[tuple[bool, bytes]]:
        """The body ended: a last event without its blank line still counts."""
        return self.feed(b"\n\n")

    def _line(self, line: bytes, found: list[tuple[bool, bytes]]) -> None:
        if not line:
            if self._data:
                found.append((self._name == b"error", b"\n".join(self._data)))
            self._data, self._name = [], b""
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()


class Answer:
    """One answer, fed with (time, bytes). ``ended``: nothing more belongs to it; ``reusable``: nor spoils it.

    status 0: no head yet. flows: within the chunked body of a stream, which a last chunk will end. Raises
    Broken from feed and eof.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.status = 0
        self.ended = False
        self.reusable = False
        self.flows = False
        self._buffer = bytearray()
        self._chunked = False
        self._state = "head"
        self._left: int | None = None
        self._events = Events()
        self._said = b""
        self._type = ""

    def feed(self, at: float, data: bytes) -> None:
        if self.flows and not self._buffer and self._one_event(at, data):
            return
        self._buffer += data
        if self._state == "head" and not self._head():
            return
        if self.ended:
            return
        if self._chunked:
            self._chunks(at)
        elif self._left is None:
            self._body(at, bytes(self._buffer))
            self._buffer.clear()
        else:
            part = bytes(self._buffer[: self._left])
            del self._buffer[: len(part)]
            self._left -= len(part)
            self._body(at, part)
            if self._left == 0:
                self._end(at)

    def eof(self, at: float) -> None:
        """The server closed the connection."""
        if self.ended:
            return
        if self.status == 0:
            raise Broken("the connection was closed before an answer")
        whole = not self._chunked and self._left is None
        self.reusable = False
        if self.status != 200 or whole or self.stream.done:
            self._end(at)
            return
        raise Broken("the connection was closed in the middle of the answer")

    def _one_event(self, at: float, data: bytes) -> bool:
        """Take the usual: one whole chunk with one event of one line in it; False: it is something else."""
        line_end = data.find(b"\r\n")
        if self._state != "size" or not self._events.empty or data[line_end + 2 : line_end + 8] != b"data: ":
            return False
        event = data[line_end + 8 : -4]
        if b"\n" in event or b"\r" in event or data[-4:] != b"\n\n\r\n":
            return False
        try:
            if int(data[:line_end], 16) != len(event) + 8:
                return False
        except ValueError:
            return False
        self.stream.take(at, event)
        return True

    def _head(self) -> bool:
        """Read the head if it is all there."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > LONGEST_HEAD:
                raise Broken(f"the head of the answer is longer than {LONGEST_HEAD} bytes")
            return False
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = first.split(None, 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise Broken(f"no HTTP/1.1 answer: {first[:80]}")
        if words[1].startswith("1"):  # an interim answer; the real one follows
            return self._head()
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        self.status = int(words[1])
        self._understand(words[0], fields)
        return True

    def _understand(self, version: str, fields: dict[str, str]) -> None:
        self._type = fields.get("content-type", "")
        self._chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = fields.get("content-length", "")
        if not self._chunked and length:
            if not length.isdigit():
                raise Broken(f"content-length {length[:40]} is none")
            self._left = int(length)
        closes = fields.get("connection", "").lower() == "close" or version == "HTTP/1.0"
        self.reusable = not closes and (self._chunked or self._left is not None)
        self._state = "size" if self._chunked else "body"
        self.flows = self._chunked and self.status == 200 and "json" not in self._type
        if fields.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise Broken("the answer is compressed, which nobody asked for")
        if 300 <= self.status < 400:
            self._said = ("to " + fields.get("location", "nowhere")).encode()
        if self._left == 0:
            self._end(0.0)

    def _chunks(self, at: float) -> None:
        buffer = self._buffer
        while not self.ended:
            if self._left:
                part = bytes(buffer[: self._left])
                if not part:
                    return
                del buffer[: len(part)]
                self._left -= len(part)
                self._body(at, part)
                if self._left:
                    return
                self._state = "after"
            line_end = buffer.find(b"\r\n")
            if line_end < 0:
                if len(buffer) > LONGEST_SIZE_LINE:
                    raise Broken("a chunk without a size")
                return
            line = bytes(buffer[:line_end])
            del buffer[: line_end + 2]
            self._chunk_line(at, line)

    def _chunk_line(self, at: float, line: bytes) -> None:
        """A line between chunks: the end of one, the size of the next, or a trailer."""
        if self._state == "after":
            if line:
                raise Broken("a chunk is longer than its size")
            self._state = "size"
        elif self._state == "size":
            try:
                self._left = int(line.split(b";", 1)[0], 16)
            except ValueError:
                raise Broken(f"a chunk has no size: {line[:40]!r}") from None
            if self._left == 0:
                self._state = "trailer"
        elif not line:
            self._end(at)

    def _body(self, at: float, data: bytes) -> None:
        if self.status != 200 or "json" in self._type:
            self._said = (self._said + data)[:KEPT_OF_ERROR]
            return
        for is_error, event in self._events.feed(data):
            self.stream.take(at, event, is_error)

    def _end(self, at: float) -> None:
        self.ended, self.flows = True, False
        said = self._said.decode("utf-8", "replace").strip()
        if self.status != 200:
            raise Broken(f"HTTP {self.status}" + (f": {said}" if said else ""))
        if "json" in self._type:
            raise Broken(f"no event stream came but {self._type}: {said}")
        for is_error, event in self._events.finish():
            self.stream.take(at, event, is_error)
