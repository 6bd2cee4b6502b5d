"""A server's log: its new lines, what it says is being waited for, and the first error in it.

Owns: following a file through truncation and rotation, and the phrases of engines' logs. Refuses: to
decide whether a server is well from its log alone.
"""

from __future__ import annotations

import os
import re
from collections import deque
from typing import BinaryIO, NamedTuple

CHUNK = 1 << 20
UP = "up, says its log"
KEEP = 400  # lines remembered
LAST_WORDS = 2000  # lines that are searched for the reason of an end
LONGEST = 2000  # of one line; engines print their whole configuration in one

_STAMP = re.compile(
    r"^(?:\x1b\[[0-9;]*m|\([^()]*pid=\d+\)|\[?\d{4}-\d\d-\d\d[ T][\d:.,]+(?: [A-Z]{2}\d+)*\]?"
    r"|(?:INFO|WARNING|ERROR) \d\d-\d\d [\d:.]+|\s)+"
)
_BAR = re.compile(
    r"^(?P<what>.*?):?\s*(?P<percent>\d+)%[ ]?(?:Completed )?\|[^|]*?\|?\s*(?P<done>\d+)/(?P<total>\d+) \["
)
_NOISE = re.compile(
    r"^(\s|$)|warnings\.warn|Warning: |Ignore import error|it/s\]$|INFO:\s+[\d.:]+ - |^[\^~]+$"
)

# What an engine says -> what a person is told. The first match counts.
_PHASES: tuple[tuple[str, str], ...] = (
    (r"server_args=|ServerArgs\(", "starting the engine"),
    (r"Init torch distributed begin", "joining torch.distributed"),
    (r"Load weight begin|Starting to load model", "loading weights"),
    (r"Load weight end|Loading (model )?weights took", "weights loaded"),
    (r"KV Cache is allocated|Memory pool end|KV cache size", "allocating the KV cache"),
    (r"Captur\w+ .*graphs? begin|Capturing .*graph", "capturing CUDA graphs"),
    (r"Captur\w+ .*graphs? end|Graph capturing finished", "CUDA graphs captured"),
    (r"DeepGEMM (warmup|JIT)|Try DeepGEMM", "compiling DeepGEMM kernels"),
    (r"Application startup complete|Uvicorn running on|Running warmup|^Prefill batch", "warming up"),
    (r"fired up and ready", UP),
)
_BEGINS = re.compile(_PHASES[0][0])
_BARS: tuple[tuple[str, str, bool], ...] = (  # the last: in per cent rather than steps
    (r"shards|[Ll]oading weights", "loading weights", True),
    (r"Capturing", "capturing CUDA graphs", False),
    (r"Compiling num", "compiling prefill graphs", False),
    (r"DeepGEMM", "compiling DeepGEMM kernels", False),
)

# kind -> what a line looks like once its stamp is off, by how surely it is the reason (0 is surest).
_ERRORS: tuple[tuple[str, int, str], ...] = (
    ("gpu memory", 0, r"OutOfMemoryError|CUDA (error: )?out of memory|[Nn]ot enough memory.*mem-fraction"),
    (
        "port",
        0,
        r"[Aa]ddress already in use|EADDRINUSE|[Pp]ort \S+ is (already )?(in use|occupied|not available)",
    ),
    ("argument", 0, r"^[\w./ -]+: error: "),
    ("module", 0, r"^\S*python[\d.]*: (No module named|can't open file|Error while finding module)"),
    ("module", 1, r"^(ModuleNotFoundError|ImportError)\b"),
    ("crash", 1, r"Segmentation fault|Fatal Python error|terminate called|core dumped|Bus error"),
    ("exception", 1, r"^(SyntaxError|IndentationError): "),
    ("error", 2, r"^(ERROR|CRITICAL|FATAL)\b|^Error: "),
)
_ERROR_RULES = tuple((kind, rank, re.compile(pattern)) for kind, rank, pattern in _ERRORS)

REMEDIES: dict[str, str] = {
    "gpu memory": "see nvidia-smi for who holds the memory; else lower --mem-fraction-static",
    "port": "see `oeactl status` for who holds the port, or change it in hosts.yaml",
    "argument": "correct server.argv in hosts.yaml",
    "module": "correct engine.python in hosts.yaml, or install what is missing for it",
}


class Said(NamedTuple):
    """What is being waited for. done/total are None where the log counts nothing."""

    text: str
    done: float | None = None
    total: float | None = None
    known: bool = False  # a phase that we know, not just the last line


class Complaint(NamedTuple):
    kind: str
    rank: int
    line: str


def bare(line: str) -> str:
    """The line without colours, time stamp and rank."""
    return _STAMP.sub("", line, count=1).rstrip()


def said(line: str, before: str = "") -> Said | None:
    """What this line says is going on, None for noise. ``before`` is the text told last."""
    bar = _BAR.match(bare(line))
    if bar:
        done, total = int(bar["done"]), int(bar["total"])
        what = bar["what"].strip()
        for pattern, text, percent in _BARS:
            if re.search(pattern, what):
                counted = f"{bar['percent']} %" if percent else f"{done}/{total}"
                return Said(f"{text} {counted}", done, total, True)
        text = what or re.sub(r" \d+(/\d+| %)$", "", before) or "working"
        return Said(f"{_short(text)} {done}/{total}", done, total)
    if _NOISE.search(line):
        return None
    text = bare(line)
    for pattern, phase in _PHASES:
        if re.search(pattern, text):
            return Said(phase, known=True)
    return Said(_short(text)) if text else None


def _short(text: str, width: int = 100) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


class FirstError:
    """Reads lines in order and keeps the first of the surest kind: mostly the reason of a death.

    Of chained tracebacks the first is the root; its last line is the one kept. begins_again: the engine
    began, complained, and began once more.
    """

    def __init__(self) -> None:
        self.found: Complaint | None = None
        self.begins_again = False
        self._in_traceback = False
        self._begun = False

    def feed(self, line: str) -> None:
        text = bare(line)
        if _BEGINS.search(text):
            self.begins_again = self.begins_again or (self._begun and self.found is not None)
            self._begun = True
        if "Traceback (most recent call last)" in text:
            self._in_traceback = True
            return
        if self._in_traceback and text and not line.startswith((" ", "\t")) and not line.startswith("["):
            self._in_traceback = False
            self._keep(self._judge(text) or Complaint("exception", 1, text))
            return
        if "Ignore import error" not in text:
            self._keep(self._judge(text))

    def _judge(self, text: str) -> Complaint | None:
        for kind, rank, pattern in _ERROR_RULES:
            if pattern.search(text):
                return Complaint(kind, rank, text)
        return None

    def _keep(self, one: Complaint | None) -> None:
        if one and (self.found is None or one.rank < self.found.rank):
            self.found = Complaint(one.kind, one.rank, _short(one.line, 400))


class Tail:
    """The lines of a growing file from ``offset`` on; a carriage return ends a line as well (progress bars).

    A file that was truncated or replaced is read from its beginning.
    """

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.last: deque[str] = deque(maxlen=KEEP)
        self.error = FirstError()
        self._file: BinaryIO | None = None
        self._rest = b""

    def read(self) -> list[str]:
        """The complete lines that came since the last call; [] while there is no file."""
        lines = self._drain()
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return lines
        if self._file is None or not os.path.samestat(status, os.fstat(self._file.fileno())):
            self._reopen(self.offset if self._file is None and self.offset <= status.st_size else 0)
            lines += self._drain()
        elif status.st_size < self.offset:
            self.offset, self._rest = 0, b""
            lines += self._drain()
        return lines

    def _reopen(self, offset: int) -> None:
        """Hold the file open: as long as we do, no new one can get its number."""
        if self._file:
            self._file.close()
        self._file = open(self.path, "rb")  # noqa: SIM115  # kept open between reads
        self.offset, self._rest = offset, b""

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _drain(self) -> list[str]:
        lines: list[str] = []
        if self._file:
            self._file.seek(self.offset)
            while True:
                data = self._file.read(CHUNK)
                if not data:
                    break
                self.offset += len(data)
                lines += self._split(data)
        return lines

    def finish(self) -> list[str]:
        """The rest, with the last line even where it is incomplete: nothing more will come."""
        lines = self.read()
        if self._rest:
            lines += self._split(b"\n")
        return lines

    def _split(self, data: bytes) -> list[str]:
        parts = re.split(rb"\r\n|\n|\r", self._rest + data)
        self._rest = parts.pop()
        lines = [part[:LONGEST].decode("utf-8", "replace") for part in parts if part.strip()]
        for line in lines:
            self.last.append(line)
            self.error.feed(line)
        return lines


def first_error(path: str, begin: int) -> str | None:
    """The first error among the last lines after the offset ``begin``, None where there is none."""
    reader = FirstError()
    for line in last_lines(path, LAST_WORDS, begin):
        reader.feed(line)
    return reader.found.line if reader.found else None


def end_of(path: str) -> int:
    """The size of the log, 0 where there is none yet."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def last_lines(path: str, count: int, begin: int = 0) -> list[str]:
    """The last ``count`` lines after the offset ``begin``; every state of a progress bar is a line."""
    size = end_of(path)
    begin = begin if begin <= size else 0
    window = max(begin, size - max(1 << 16, min(1000 * count, 1 << 24)))
    tail = Tail(path, window)
    lines = tail.finish()
    tail.close()
    if window > begin and len(lines) > 1:
        lines = lines[1:]  # the first is cut
    return lines[-count:] if count else []
