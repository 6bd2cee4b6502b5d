"""The wire, seen from the host: a request in, events while it works, its answer out; then perhaps another.

Owns: frames, the table of operations, errors that name their kind, and how the program ends when its
client is gone. Refuses: to know what any operation does.
"""

from __future__ import annotations

import _thread
import binascii
import os
import select
import sys
import zlib
from contextlib import contextmanager

from . import jsontext, steps
from .loader import block

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, BinaryIO

    Request = dict[str, Any]
    Operation = Callable[[Request, "Client"], Any]
else:
    import _signal as signal  # without the enumerations around it, which take longer than all its calls

HEARTBEAT_S = 1.0
IDLE_S = 60.0

_operations: dict[str, Operation] = {}


class AgentError(Exception):
    """A failure the client can name. kind: usage, refused, unreachable, locked or degraded; where: a path."""

    def __init__(
        self, kind: str, what: str, where: str | None = None, hint: str | None = None, details: Any = ()
    ) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.where = where
        self.hint = hint
        self.details = tuple(details)


class Ending(BaseException):
    """The client is gone, or someone ended this program: put things in order and leave."""


def operation(name: str) -> Callable[[Operation], Operation]:
    """Register ``function(request, client) -> answer`` under ``name``; raise AgentError to refuse.

    The literal name in the decorator is what the client reads to find an operation's module.
    """

    def register(function: Operation) -> Operation:
        _operations[name] = function
        return function

    return register


def to_text(data: bytes) -> str:
    """Bytes as they travel in JSON."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def from_text(text: str) -> bytes:
    return binascii.a2b_base64(text)


class Client:
    """Who asked. Frames go to a private copy of stdout, one at a time, flushed."""

    def __init__(self, out: BinaryIO, sentinel: str) -> None:
        self._out = out
        self._sentinel = sentinel.encode("ascii")
        self._turn = _thread.allocate_lock()

    def emit(self, event: str, **fields: Any) -> None:
        """Tell the client something now. Raises Ending when it is gone."""
        try:
            self._frame(b"event", jsontext.dumps({"event": event, **fields}) + b"\n")
        except BrokenPipeError:
            raise Ending("the client is gone") from None

    def answer(self, body: Mapping[str, Any]) -> None:
        self._frame(b"answer", zlib.compress(jsontext.dumps(body), 6))

    def _frame(self, kind: bytes, body: bytes) -> None:
        with self._turn:
            self._out.write(b"\n%s %s %d\n%s" % (self._sentinel, kind, len(body), body))
            self._out.flush()

    def _beat(self, stopped: _thread.LockType) -> None:
        while not stopped.acquire(timeout=HEARTBEAT_S):
            try:
                self.emit("alive")
            except Ending:
                os.kill(os.getpid(), signal.SIGHUP)
                return

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Show the client every second that we are here; end this program when nobody reads any more."""
        stopped = _thread.allocate_lock()
        stopped.acquire()
        _thread.start_new_thread(self._beat, (stopped,))
        try:
            yield
        finally:
            stopped.release()


class _Signals:
    """SIGHUP, SIGTERM and SIGINT raise Ending where that is safe, and as soon as it is."""

    def __init__(self) -> None:
        self.held = 0
        self.waiting = False

    def handle(self, number: int, frame: object) -> None:
        if self.held:
            self.waiting = True
        else:
            raise Ending(f"signal {number}")


_signals = _Signals()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let nothing but SIGKILL end the block: what is begun in it is also finished."""
    _signals.held += 1
    try:
        yield
    finally:
        _signals.held -= 1
    if _signals.waiting and not _signals.held:
        _signals.waiting = False
        raise Ending("ended by a signal")


def check_ending() -> None:
    """Within ``uninterrupted``: leave now if someone asked us to, because undoing is still cheap."""
    if _signals.waiting:
        _signals.waiting = False
        raise Ending("ended by a signal")


@contextmanager
def interruptible() -> Iterator[None]:
    """Within ``uninterrupted``: a long wait that may be ended at once."""
    held, _signals.held = _signals.held, 0
    try:
        check_ending()
        yield
    finally:
        _signals.held = held


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take stdin and stdout for ourselves: stray prints go to stderr, and no child inherits either."""
    source, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return source, out


def _next(bring: Callable[[bytes], None], source: BinaryIO) -> dict[str, Any] | None:
    """What the client asks next; None when it does not, for good or for too long."""
    ready, _, _ = select.select([source], [], [], IDLE_S)
    modules = block(source) if ready else None
    if modules is None:
        return None
    bring(modules)
    return _request(block(source))


def _request(data: bytes | None) -> dict[str, Any]:
    if data is None:
        sys.exit("oeactl agent: no request")
    request = jsontext.loads(data)
    assert isinstance(request, dict)
    return request


def _perform(request: dict[str, Any], client: Client) -> dict[str, Any]:
    name, module = request.pop("op"), request.pop("module")
    try:
        if module is None:
            raise AgentError("usage", f"this agent knows no operation {name!r}")
        steps.arm(request.pop("fault", None), client)
        if request.pop("contained", False):
            from . import environment

            environment.inherit_all()
        __import__(f"{__package__}.{module}")
        with client.heartbeat():
            return {"ok": _operations[name](request, client)}
    except AgentError as error:
        fields = ("kind", "what", "where", "hint", "details")
        return {"error": {field: getattr(error, field) for field in fields}}


def serve(bring: Callable[[bytes], None]) -> int:
    """Answer the requests on stdin, one after the other, the first one's modules being here.

    bring: takes in the modules of the others. A failure nobody foresaw ends with a traceback on stderr and no
    answer.
    """
    os.umask(0o022)
    request: dict[str, Any] | None = _request(block(sys.stdin.buffer))
    source, out = _private_streams()
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _signals.handle)
    try:
        while request is not None:
            client = Client(out, request.pop("sentinel"))
            client.answer(_perform(request, client))
            request = _next(bring, source)
    except (Ending, BrokenPipeError):
        return 143
    return 0
