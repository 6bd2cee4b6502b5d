"""Byte edits against a pristine file: how they compose, how they are undone, and where they collide.

Owns: the algebra. Every layer's edits are offsets into the same pristine bytes, so any layer can be taken
out and the rest composed again. Insertions at one point stand in stack order. Refuses: overlaps.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence

from oeactl.core.host import Edit


class Overlap(Exception):
    """Two edits touch the same bytes. owners: the indices of their layers; first, second: the edits."""

    def __init__(self, owners: tuple[int, int], first: Edit, second: Edit) -> None:
        super().__init__(f"bytes {second.start}-{second.end} are changed twice")
        self.owners, self.first, self.second = owners, first, second


def merge(layers: Iterable[Sequence[Edit]]) -> tuple[Edit, ...]:
    """All layers' edits in order of place. Raises Overlap."""
    owned = [(edit, owner) for owner, layer in enumerate(layers) for edit in layer]
    owned.sort(key=lambda pair: (pair[0].start, pair[0].end, pair[1]))  # stable: a layer's own order stays
    reached: tuple[Edit, int] | None = None
    for edit, owner in owned:
        if reached is not None and edit.start < reached[0].end:
            raise Overlap((reached[1], owner), reached[0], edit)
        if reached is None or edit.end >= reached[0].end:
            reached = (edit, owner)
    return tuple(edit for edit, _ in owned)


def apply(pristine: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with the edits made; they are in order and apart, as ``merge`` leaves them."""
    out: list[bytes] = []
    at = 0
    for edit in edits:
        out += (pristine[at : edit.start], edit.text)
        at = edit.end
    return b"".join((*out, pristine[at:]))


def compose(pristine: bytes, layers: Iterable[Sequence[Edit]]) -> bytes:
    """The bytes of a file under a whole stack of layers. Raises Overlap."""
    return apply(pristine, merge(layers))


def invert(pristine: bytes, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that lead from ``apply(pristine, edits)`` back; offsets are into that text."""
    back: list[Edit] = []
    shift = 0
    for edit in edits:
        start = edit.start + shift
        back.append(Edit(start=start, end=start + len(edit.text), text=pristine[edit.start : edit.end]))
        shift += len(edit.text) - (edit.end - edit.start)
    return tuple(back)


def between(before: bytes, after: bytes) -> tuple[Edit, ...]:
    """Edits, whole lines each, that lead from one text to the other."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    starts = [*itertools.accumulate(map(len, inner_old), initial=sum(map(len, old[:head])))]
    matcher = difflib.SequenceMatcher(None, inner_old, inner_new, autojunk=False)
    return tuple(
        Edit(start=starts[a], end=starts[b], text=b"".join(inner_new[c:d]))
        for kind, a, b, c, d in matcher.get_opcodes()
        if kind != "equal"
    )


class Draft:
    """A text under way: changed in stages, each against what the one before left.

    ``edits`` says the same against the pristine bytes, however the stages built on one another.
    """

    def __init__(self, pristine: bytes) -> None:
        self.pristine = pristine
        self._pieces: list[tuple[int, int] | bytes] = [(0, len(pristine))]  # kept ranges and new text

    @property
    def current(self) -> bytes:
        return b"".join(
            piece if isinstance(piece, bytes) else self.pristine[piece[0] : piece[1]]
            for piece in self._pieces
        )

    def change(self, edits: Sequence[Edit]) -> None:
        """Make edits whose offsets are into ``current``. Raises Overlap."""
        for edit in reversed(merge([edits])):
            head, tail = self._split(edit.start)
            _, tail = _cut(tail, edit.end - edit.start)
            self._pieces = [*head, edit.text, *tail]

    def _split(self, at: int) -> tuple[list[tuple[int, int] | bytes], list[tuple[int, int] | bytes]]:
        return _cut(self._pieces, at)

    def edits(self) -> tuple[Edit, ...]:
        """What was done, as the fewest edits of the pristine bytes."""
        found: list[Edit] = []
        at, fresh = 0, b""
        for piece in [*self._pieces, (len(self.pristine), len(self.pristine))]:
            if isinstance(piece, bytes):
                fresh += piece
                continue
            if fresh or piece[0] > at:
                found.append(Edit(start=at, end=piece[0], text=fresh))
            at, fresh = piece[1], b""
        return tuple(found)


def _cut(
    pieces: list[tuple[int, int] | bytes], at: int
) -> tuple[list[tuple[int, int] | bytes], list[tuple[int, int] | bytes]]:
    passed = 0
    for index, piece in enumerate(pieces):
        size = len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]
        if passed + size <= at:
            passed += size
            continue
        inside = at - passed
        if inside == 0:
            return pieces[:index], pieces[index:]
        if isinstance(piece, bytes):
            return [*pieces[:index], piece[:inside]], [piece[inside:], *pieces[index + 1 :]]
        start, end = piece
        return [*pieces[:index], (start, start + inside)], [(start + inside, end), *pieces[index + 1 :]]
    return list(pieces), []


def unified(before: bytes, after: bytes, old: str, new: str, *, context: int = 3) -> str:
    """A unified difference; '' where there is none. Line ends other than ``\\n`` are kept as they are."""
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new, n=context)
    told = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(told)


def three_way(pristine: bytes, expected: bytes, found: bytes, path: str) -> str:
    """What oeactl made of the original, and then what someone else made of that."""
    return unified(pristine, expected, f"{path} (original)", f"{path} (as oeactl left it)") + unified(
        expected, found, f"{path} (as oeactl left it)", f"{path} (as it is now)"
    )


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "backslashreplace")
    parts = text.split("\n")
    return [*(f"{part}\n" for part in parts[:-1]), *itertools.compress(parts[-1:], parts[-1:])]
