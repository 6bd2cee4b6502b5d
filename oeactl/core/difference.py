"""A unified difference, read and applied byte for byte, as ``git apply`` does it; and written.

Owns: the format: headers of git and of diff, quoted names, a missing last newline. Refuses: fuzz. A hunk's
lines must all be there, at its line or, moved as a whole, at the nearest place before or after it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from oeactl.core.host import Value
from oeactl.errors import UsageError

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPE = re.compile(r'\\([abtnvfr"\\]|[0-7]{3})')
_BINARY = "a binary file"
_NO_NEWLINE = b"\\ No newline at end of file"


class Hunk(Value, frozen=True, kw_only=True):
    """start: its first old line, from 1. old, new: lines before and after.

    context: how many of them are in both; tail: how many of those at the end.
    """

    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    context: int
    tail: int


class FileDifference(Value, frozen=True, kw_only=True):
    """One file. old, new: its names as written, None for /dev/null. odd: what is no change of lines."""

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    odd: str | None = None

    @property
    def name(self) -> str:
        return self.new or self.old or "?"


class DoesNotApply(Exception):
    """A hunk's lines are not in the file. line: the hunk's first old line."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"no place for the lines at {line}: {text}")
        self.line = line


def read_difference(data: bytes, where: str) -> tuple[FileDifference, ...]:
    """Read every file of a difference. Raises UsageError at the line of what is none."""
    found = tuple(_Reader(data, where).files())
    if not found:
        raise UsageError("this holds no unified difference", where=where, hint="git diff > FILE.diff")
    return found


def subject(data: bytes) -> str | None:
    """The subject of a mail that ``git format-patch`` wrote, without its ``[PATCH]``."""
    match = re.search(rb"^Subject: (?:\[[^\]]*\] )?(.+(?:\n[ \t].+)*)$", data[:4000], re.MULTILINE)
    return " ".join(match[1].decode("utf-8", "replace").split()) if match else None


class _Reader:
    def __init__(self, data: bytes, where: str) -> None:
        self.lines = data.split(b"\n")
        if self.lines[-1] == b"":
            self.lines.pop()
        self.where = where
        self.at = 0

    def files(self) -> Iterator[FileDifference]:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith(b"diff --git ") or self._is_header():
                yield self._file()
            elif line.startswith((b"Binary files ", b"@@ -")):
                raise self._fault("a hunk without the names of its file")
            else:
                self.at += 1

    def _is_header(self) -> bool:
        following = self.lines[self.at + 1] if self.at + 1 < len(self.lines) else b""
        return self.lines[self.at].startswith(b"--- ") and following.startswith(b"+++ ")

    def _file(self) -> FileDifference:
        odd, names = self._git_header()
        if self.at < len(self.lines) and self._is_header():
            names = (_name(self.lines[self.at][4:]), _name(self.lines[self.at + 1][4:]))
            self.at += 2
        hunks = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(b"@@ -"):
            hunks.append(self._hunk())
        return FileDifference(old=names[0], new=names[1], hunks=tuple(hunks), odd=odd)

    def _git_header(self) -> tuple[str | None, tuple[str | None, str | None]]:
        """What ``diff --git`` and the lines below it say: what is odd, and the names."""
        odd: str | None = None
        names: tuple[str | None, str | None] = (None, None)
        while self.at < len(self.lines) and not self._is_header():
            line = self.lines[self.at]
            if line.startswith(b"diff --git "):
                if names != (None, None):
                    break
                names = _git_names(line[len(b"diff --git ") :])
            elif line.startswith((b"new file mode ", b"deleted file mode ")):
                names = (None, names[1]) if line.startswith(b"new") else (names[0], None)
                if line.endswith(b" 120000"):
                    odd = "a symbolic link"
            elif line.startswith((b"rename ", b"copy ")):
                odd = "a renamed or copied file"
            elif line.startswith((b"old mode ", b"new mode ")):
                odd = odd or "a change of mode"
            elif line.startswith((b"Binary files ", b"GIT binary patch")):
                odd = _BINARY
            elif not line.startswith((b"index ", b"similarity ", b"dissimilarity ")) and odd != _BINARY:
                break
            self.at += 1
        return odd, names

    def _hunk(self) -> Hunk:
        match = _HUNK.match(self.lines[self.at])
        if match is None:
            raise self._fault("not the head of a hunk")
        start, left = int(match[1]), [int(match[2] or 1), int(match[4] or 1)]
        old: list[bytes] = []
        new: list[bytes] = []
        tail = context = 0
        self.at += 1
        while left != [0, 0]:
            line = self.lines[self.at] if self.at < len(self.lines) else b"?"
            sign, text = line[:1] or b" ", line[1:] + b"\n"
            if sign not in (b" ", b"-", b"+") or min(left) < 0:
                raise self._fault("the hunk ends before its head says so")
            self.at += 1
            if sign != b"+":
                old.append(text)
                left[0] -= 1
            if sign != b"-":
                new.append(text)
                left[1] -= 1
            tail = tail + 1 if sign == b" " else 0
            context += sign == b" "
            if self.at < len(self.lines) and self.lines[self.at].startswith(_NO_NEWLINE[:12]):
                for side in ([old] if sign != b"+" else []) + ([new] if sign != b"-" else []):
                    side[-1] = text[:-1]
                self.at += 1
        return Hunk(start=start, old=tuple(old), new=tuple(new), context=context, tail=tail)

    def _fault(self, what: str) -> UsageError:
        return UsageError(what, where=f"{self.where}:{self.at + 1}")


def _git_names(text: bytes) -> tuple[str | None, str | None]:
    """``a/x b/x``: both halves are the same name where nothing is renamed."""
    words = text.decode("utf-8", "surrogateescape").rstrip("\r")
    if words.startswith('"'):
        first, _, second = words.partition('" ')
        return _name((first + '"').encode("utf-8", "surrogateescape")), _name(second.encode())
    half = len(words) // 2
    return words[:half], words[half + 1 :]


def _name(text: bytes) -> str | None:
    """A file's name as ``---`` and ``+++`` write it, without a time behind it."""
    name = text.decode("utf-8", "surrogateescape").rstrip("\r")
    if name.startswith('"'):
        inner = name[1 : name.rindex('"')]
        raw = b"".join(_unescaped(inner))
        return raw.decode("utf-8", "surrogateescape")
    name = name.partition("\t")[0].rstrip(" ")
    return None if name == "/dev/null" else name


def _unescaped(text: str) -> Iterator[bytes]:
    at = 0
    for match in _ESCAPE.finditer(text):
        yield text[at : match.start()].encode("utf-8", "surrogateescape")
        yield bytes([_ESCAPES[match[1]] if match[1] in _ESCAPES else int(match[1], 8)])
        at = match.end()
    yield text[at:].encode("utf-8", "surrogateescape")


def applied(before: bytes, hunks: Sequence[Hunk]) -> bytes:
    """The file with all hunks made. Raises DoesNotApply."""
    lines = _lines(before)
    shift = 0
    for hunk in hunks:
        wanted = max(hunk.start - 1, 0) + shift if hunk.old else hunk.start + shift
        at = _place(lines, hunk, wanted)
        lines[at : at + len(hunk.old)] = hunk.new
        shift = at + len(hunk.new) - (max(hunk.start - 1, 0) if hunk.old else hunk.start) - len(hunk.old)
    return b"".join(lines)


def _place(lines: list[bytes], hunk: Hunk, wanted: int) -> int:
    """The index at which the hunk's old lines stand, the nearest to ``wanted``.

    As git has it: a hunk of the first line belongs there, one without lines behind its change at the end. One
    without any lines around it is at its line or nowhere.
    """
    size = len(hunk.old)
    last = len(lines) - size
    bare = not hunk.context and hunk.start > bool(hunk.old)

    def fits(at: int) -> bool:
        if not 0 <= at <= last or tuple(lines[at : at + size]) != hunk.old:
            return False
        return bare or ((hunk.start > 1 or at == 0) and (hunk.tail > 0 or at == last))

    for away in range(1 if bare else len(lines) + 1):
        for at in (wanted - away, wanted + away):
            if fits(at):
                return at
    shown = next((line for line in hunk.old if line.strip()), b"")
    raise DoesNotApply(hunk.start, shown.decode("utf-8", "replace").strip()[:100])


def write_difference(name: str, before: bytes | None, after: bytes | None) -> bytes:
    """A difference that ``git apply`` and ``patch -p1`` take. None: no file.

    name: the file's path from the folder in which they are run.
    """
    old, new = (b"/dev/null", b"/dev/null")
    if before is not None:
        old = _written(f"a/{name}")
    if after is not None:
        new = _written(f"b/{name}")
    head = [
        b"diff --git " + _written(f"a/{name}", tab=False) + b" " + _written(f"b/{name}", tab=False) + b"\n"
    ]
    if before is None or after is None:
        head.append(b"new file mode 100644\n" if before is None else b"deleted file mode 100644\n")
    made = difflib.diff_bytes(difflib.unified_diff, _lines(before or b""), _lines(after or b""), old, new)
    body = [line if line.endswith(b"\n") else line + b"\n" + _NO_NEWLINE + b"\n" for line in made]
    return b"".join([*head, *body])


def _written(name: str, *, tab: bool = True) -> bytes:
    """A name as git writes it: in quotes where it must be, a tab behind one that holds blanks."""
    raw = name.encode("utf-8", "surrogateescape")
    if any(byte < 32 or byte > 126 or byte in b'"\\' for byte in raw):
        inner = "".join(
            f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte <= 126 else f"\\{byte:03o}"
            for byte in raw
        )
        return f'"{inner}"'.encode()
    return raw + (b"\t" if tab and b" " in raw else b"")


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return [*(part + b"\n" for part in parts[:-1]), *([parts[-1]] if parts[-1] else [])]
