"""One module's bytes, and where its syntax lies in them.

Owns: decoding, byte offsets of ``ast`` nodes, the newline and indentation of a place, and the bound on
nesting that keeps libcst's parser from taking the process down. Refuses: to change anything.

Offsets are into ``Source.utf8``: the text as UTF-8 without a byte order mark. ``Source.original`` maps
one into the file's own bytes; for UTF-8 (nearly every file) that is the offset itself.
"""

from __future__ import annotations

import ast
import bisect
import gc
import io
import re
import sys
import threading
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from oeactl.core.reasons import CannotPlace, Reason

MAX_NESTING = 200
"""libcst converts trees by recursion; CPython's own limit on brackets is 200 as well."""

_NEWLINE = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_FAULTS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
_quiet = threading.Lock()


class Source:
    """A parsed module. where: what messages call the file. python: the version that the host runs it with."""

    def __init__(self, data: bytes, where: str, python: str | None = None) -> None:
        self.where = where
        self.python = python
        self.encoding, self.bom = self._encoding(data)
        self.text = self._decode(data[len(self.bom) :])
        self.utf8 = data[len(self.bom) :] if self.encoding == "utf-8" else self.text.encode()
        self.starts = [0, *(match.end() for match in _NEWLINE.finditer(self.utf8))]
        self.tree = self._parse()

    def _encoding(self, data: bytes) -> tuple[str, bytes]:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except SyntaxError as error:
            raise self.unreadable(f"its encoding cannot be told: {error.msg}", line=1) from error
        bom = _BOM if data.startswith(_BOM) else b""
        return ("utf-8" if encoding in ("utf-8", "utf-8-sig") else encoding), bom

    def _decode(self, data: bytes) -> str:
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            line = len(_NEWLINE.findall(data[: error.start])) + 1
            raise self.unreadable(
                f"byte {data[error.start]:#04x} is not {self.encoding}", line=line
            ) from error
        if (
            self.encoding != "utf-8"
            and b"".join(part.encode(self.encoding) for part in text.splitlines(keepends=True)) != data
        ):
            raise self.unreadable(f"encoding {self.encoding} cannot be edited line by line", line=1)
        return text

    def _parse(self) -> ast.Module:
        try:
            return parse_module(self.text)
        except _FAULTS as error:
            line = error.lineno if isinstance(error, SyntaxError) else None
            what = str(getattr(error, "msg", error)) or type(error).__name__
            here = f"{sys.version_info[0]}.{sys.version_info[1]}"
            newer = _version(self.python) > sys.version_info[:2]
            raise self.unreadable(
                f"not Python that {here} can read: {what}",
                line=line,
                hint=f"the host runs it with Python {self.python}: run oeactl with that version or newer"
                if newer
                else None,
            ) from error

    def unreadable(self, what: str, *, line: int | None = None, hint: str | None = None) -> CannotPlace:
        """The exception for a file that cannot be planned on at all."""
        return CannotPlace(Reason(kind="unreadable", what=what, where=self.where, line=line, hint=hint))

    def offset(self, line: int, column: int) -> int:
        """The offset of an ``ast`` position: line from 1, column in UTF-8 bytes."""
        return self.starts[line - 1] + column

    def start(self, node: ast.AST) -> int:
        """Where a node begins, its decorators included."""
        first = min([node, *getattr(node, "decorator_list", ())], key=_position)
        offset = self.offset(*_position(first))
        if first is node:
            return offset
        return self.utf8.rindex(b"@", 0, offset)

    def end(self, node: ast.AST) -> int:
        """One past a node's last byte."""
        return self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def cut(self, node: ast.AST) -> str:
        """The node's own text."""
        return self.utf8[self.start(node) : self.end(node)].decode()

    def line(self, offset: int) -> int:
        """The line, from 1, that holds ``offset``."""
        return bisect.bisect_right(self.starts, offset)

    def line_text(self, line: int) -> str:
        """A line without its indentation and newline."""
        return self._raw_line(line).decode().strip()

    def line_start(self, offset: int) -> int:
        return self.starts[self.line(offset) - 1]

    def line_end(self, offset: int) -> int:
        """Where the next line begins; the length of the text for the last line."""
        line = self.line(offset)
        return self.starts[line] if line < len(self.starts) else len(self.utf8)

    def _raw_line(self, line: int) -> bytes:
        end = self.starts[line] if line < len(self.starts) else len(self.utf8)
        return self.utf8[self.starts[line - 1] : end]

    def newline(self, offset: int) -> bytes:
        """The newline in use at ``offset``: of its line, else of the line before, else ``\\n``."""
        for line in (self.line(offset), self.line(offset) - 1):
            if line >= 1 and (found := _NEWLINE.search(self._raw_line(line))):
                return found[0]
        return b"\n"

    def indent(self, offset: int) -> bytes:
        """What precedes ``offset`` on its line."""
        return self.utf8[self.line_start(offset) : offset]

    def original(self, offset: int) -> int:
        """``offset`` in the file's own bytes."""
        if self.encoding == "utf-8":
            return len(self.bom) + offset
        return len(self.bom) + len(self.utf8[:offset].decode().encode(self.encoding))

    def encode(self, text: bytes, edit: str | None = None) -> bytes:
        """UTF-8 text of ours in the file's own encoding."""
        if self.encoding == "utf-8":
            return text
        try:
            return text.decode().encode(self.encoding)
        except UnicodeEncodeError as error:
            what = f"{error.object[error.start]!r} cannot be written in {self.encoding}"
            raise CannotPlace(Reason(kind="edit", what=what, where=self.where, edit=edit)) from error


def parse_module(text: str) -> ast.Module:
    """``ast.parse`` without warnings about other people's code."""
    with _compiler():
        return ast.parse(text)


@contextmanager
def _compiler() -> Iterator[None]:
    """Python's compiler, one at a time and silent."""
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def unswept() -> Iterator[None]:
    """Look for no garbage in the block: trees of a megabyte, looked through again and again, cost most."""
    swept = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if swept:
            gc.enable()


def compile_fault(text: str) -> str | None:
    """What CPython's compiler says against the text (a late ``__future__`` import, say), or None."""
    try:
        with _compiler():
            compile(text, "<after>", "exec", dont_inherit=True)
    except _FAULTS as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{line}{getattr(error, 'msg', error)}"
    return None


def balanced(text: str) -> bool:
    """Whether every bracket in a piece of Python closes one that it opened: ``a)(`` does not."""
    depth, closed = 0, 0
    try:  # in brackets of our own, so that indentation does not count
        for token in tokenize.generate_tokens(io.StringIO(f"(\n{text}\n)").readline):
            if token.type == tokenize.OP and token.string in "([{":
                depth += 1
            elif token.type == tokenize.OP and token.string in ")]}":
                depth -= 1
                closed += depth == 0
    except (tokenize.TokenError, SyntaxError):
        return False
    return depth == 0 and closed == 1


def nesting(node: ast.AST) -> int:
    """How deep the tree under ``node`` is, found without recursion."""
    deepest, todo = 0, [(node, 1)]
    while todo:
        here, depth = todo.pop()
        deepest = max(deepest, depth)
        todo += [(child, depth + 1) for child in ast.iter_child_nodes(here)]
    return deepest


def enclosing(source: Source, offsets: Iterator[int]) -> tuple[ast.stmt, ...]:
    """The top-level statements that hold any of ``offsets``, in order."""
    held: dict[int, ast.stmt] = {}
    spans = [(source.start(node), source.end(node), node) for node in source.tree.body]
    begins = [start for start, _, _ in spans]
    for offset in offsets:
        at = bisect.bisect_right(begins, offset) - 1
        if at >= 0 and offset <= spans[at][1]:
            held[at] = spans[at][2]
    return tuple(held[at] for at in sorted(held))


def _position(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _version(text: str | None) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)
