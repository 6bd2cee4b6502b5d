"""From a module before and after to the edits of a recipe: which statement changed, and where it stands.

Owns: the comparison, body by body, and the choice of an operation for each change; each is tried on the
module itself and taken only when it gives the very bytes. Refuses: to place by line; what no operation gives
is left out and named.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from oeactl.core.blocks import Stamp
from oeactl.core.bodies import Item, chain_of, heads_of, items_of, keys_of, shape_of, topic_of
from oeactl.core.candidates import Candidates, Scope
from oeactl.core.document import Node
from oeactl.core.edits import Overlap, apply, merge
from oeactl.core.host import Edit, Value
from oeactl.core.placing import place
from oeactl.core.reasons import CannotPlace
from oeactl.core.scopes import Definition, blocks
from oeactl.core.source import Source
from oeactl.core.steps import read_steps
from oeactl.errors import UsageError


class Left(Value, frozen=True, kw_only=True):
    """A change that no operation gives. line: in the module before; text: what stands there, or would."""

    line: int
    text: str


class Imported(Value, frozen=True, kw_only=True):
    """edits: as recipe.yaml has them, with code inline. left: what they leave out."""

    edits: tuple[dict[str, Any], ...]
    left: tuple[Left, ...]


def import_module(before: bytes, after: bytes, where: str) -> Imported:
    """The edits that lead from one module to the other. Raises CannotPlace for what cannot be read."""
    old, new = Source(before, where), Source(after, where)
    work = _Import(old, new)
    work.bodies((), None, None)
    return Imported(edits=tuple(work.edits), left=tuple(work.left))


class _Import:
    def __init__(self, old: Source, new: Source) -> None:
        self.old, self.new = old, new
        self.candidates = Candidates(old, new)
        self.edits: list[dict[str, Any]] = []
        self.left: list[Left] = []
        self._made: list[Edit] = []
        self._led: list[Item] = []  # what leads up to these is seen to

    # --- two bodies, statement by statement

    def bodies(self, scope: Scope, one: Item | None, two: Item | None, which: int = 0) -> None:
        """Compare the ``which``-th bodies of two statements, or those of the modules."""
        older = self._items(self.old, one, which)
        newer = self._items(self.new, two, which)
        if older is None or newer is None:
            line = one.line if one else 1
            self.left.append(Left(line=line, text="statements that share a line"))
            return
        keys, new_keys = keys_of(older), keys_of(newer)
        matcher = difflib.SequenceMatcher(None, keys, new_keys, autojunk=False)
        for kind, a, b, c, d in matcher.get_opcodes():
            if kind == "equal" or (b - a == d - c and _alike(older[a:b], newer[c:d])):
                for at in range(b - a):
                    self._pair(scope, older, a + at, newer[c + at])
            elif kind == "insert" and _below_lead(older, a, newer, c, d):
                self._come_below_lead(scope, older, a, newer, (c, d))
            elif kind == "replace" and b - a + d - c > 2:
                self._akin(scope, older, (a, b), newer, (c, d))
            else:
                self._run(scope, older, (a, b), newer, (c, d))
        if one is None:
            self._tail(older, newer)

    def _akin(
        self,
        scope: Scope,
        older: Sequence[Item],
        gone: tuple[int, int],
        newer: Sequence[Item],
        come: tuple[int, int],
    ) -> None:
        """Several statements for several: those that do the same to the same names stand for each other."""
        keys, new_keys = (
            [topic_of(item.node) for item in side[slice(*which)]]
            for side, which in ((older, gone), (newer, come))
        )
        matcher = difflib.SequenceMatcher(None, keys, new_keys, autojunk=False)
        for kind, a, b, c, d in matcher.get_opcodes():
            a, b, c, d = a + gone[0], b + gone[0], c + come[0], d + come[0]
            if kind == "equal":
                for at in range(b - a):
                    self._pair(scope, older, a + at, newer[c + at])
            else:
                self._run(scope, older, (a, b), newer, (c, d))

    def _items(self, source: Source, item: Item | None, which: int) -> list[Item] | None:
        if item is None:
            return items_of(source, source.tree, source.tree.body)
        owner, body = list(blocks(item.node))[which]
        return items_of(source, owner, body)

    def _tail(self, older: Sequence[Item], newer: Sequence[Item]) -> None:
        """What stands behind the last statement of the module."""
        start, end = (items[-1].end if items else 0 for items in (older, newer))
        was, lines = self.old.utf8[start:], self.new.utf8[end:]
        if newer and start == len(self.old.utf8) and not self.old.utf8.endswith((b"\n", b"\r")):
            end = newer[-1].start + len(newer[-1].text)  # with the newline that the last line lacked
        wanted = Edit(start=start, end=start + len(was), text=self.new.utf8[end:])
        if was != lines and not self._take(self.candidates.tails(was, lines), wanted):
            self._leave(self.old.line(start), "what stands behind the last statement")

    def _pair(self, scope: Scope, older: Sequence[Item], at: int, two: Item) -> None:
        """One statement that is in both: what is above it, its head, its bodies."""
        one = older[at]
        same_lead = one.lead_text == two.lead_text or one in self._led
        if one.text == two.text:
            if not same_lead:
                self._lead(scope, older, at, two)
            return
        if not (one.is_compound and two.is_compound) or shape_of(one.node) != shape_of(two.node):
            self._run(scope, older, (at, at + 1), [two], (0, 1))
            return
        edits, made, left = len(self.edits), len(self._made), len(self.left)
        if not same_lead:
            self._lead(scope, older, at, two)
        if isinstance(one.node, ast.If):
            self._chain(scope, one, two)
        else:
            self._parts(scope, older, at, two)
        if len(self.left) > left:
            partly = self.edits[edits:], self._made[made:], self.left[left:]
            del self.edits[edits:], self._made[made:], self.left[left:]
            self._run(scope, older, (at, at + 1), [two], (0, 1))
            if len(self.left) > left:  # not as a whole either
                del self.edits[edits:], self._made[made:], self.left[left:]
                self.edits += partly[0]
                self._made += partly[1]
                self.left += partly[2]

    def _parts(self, scope: Scope, older: Sequence[Item], at: int, two: Item) -> None:
        """The head and the bodies of a compound statement."""
        one = older[at]
        heads = [heads_of(side.source, side.node) for side in (one, two)]
        inner = (*scope, _link(one)) if isinstance(one.node, Definition) else scope
        if heads[0][0] != heads[1][0]:
            self._head(scope, older, at, two)
        if heads[0][1:] != heads[1][1:]:
            self._leave(one.line, "the heads of its further branches")
            return
        for which in range(len(heads[0])):
            self.bodies(inner, one, two, which)

    def _chain(self, scope: Scope, one: Item, two: Item) -> None:
        """An ``if`` with its ``elif``s and ``else``: branches come, go, have other heads or bodies."""
        older, newer = chain_of(one), chain_of(two)
        heads, new_heads = (
            [heads_of(item.source, item.node)[0].strip() for item in side[1:]] for side in (older, newer)
        )
        self._branch(scope, one, two)
        matcher = difflib.SequenceMatcher(None, heads, new_heads, autojunk=False)
        for _, a, b, c, d in matcher.get_opcodes():
            if b - a == d - c:
                for first, second in zip(older[a + 1 : b + 1], newer[c + 1 : d + 1], strict=True):
                    self._branch(scope, first, second)
                continue
            for item, above in zip(older[a + 1 : b + 1], older[a:b], strict=True):
                self._branch_gone(scope, above, item)
            if c < d:
                begin, end = _behind(newer[c]), _behind(newer[d])
                self._branches_come(scope, older[a], self.new.utf8[begin:end])
        self._else(scope, older[-1], newer[-1])

    def _branch(self, scope: Scope, one: Item, two: Item) -> None:
        """One ``if`` or ``elif`` that is in both."""
        if one.is_elif and one.lead_text != two.lead_text:
            self._lead(scope, [one], 0, two)
        if heads_of(self.old, one.node)[0] != heads_of(self.new, two.node)[0]:
            self._head(scope, [one], 0, two)
        self.bodies(scope, one, two)

    def _branch_gone(self, scope: Scope, above: Item, one: Item) -> None:
        wanted = Edit(start=_behind(above), end=_behind(one), text=b"")
        if not self._take(self.candidates.branch_gone(scope, one), wanted):
            self._leave(one.line, one.text.decode().strip().split("\n")[0])

    def _branches_come(self, scope: Scope, above: Item, text: bytes) -> None:
        at = _behind(above)
        wanted = Edit(start=at, end=at, text=text)
        if not self._take(self.candidates.branches(scope, above, text.decode()), wanted):
            self._leave(above.line, text.decode().strip().split("\n")[0])

    def _else(self, scope: Scope, one: Item, two: Item) -> None:
        """The last branch of a chain. one, two: the ``if`` or ``elif`` before it."""
        heads = [heads_of(side.source, side.node)[1:] for side in (one, two)]
        if not heads[0] and heads[1]:
            self._branches_come(scope, one, self.new.utf8[_behind(two) : two.end])
        elif heads[0] != heads[1]:
            self._leave(one.line, "the 'else'")
        elif heads[0]:
            self.bodies(scope, one, two, 1)

    # --- one change, and the operations that might give it

    def _run(
        self,
        scope: Scope,
        older: Sequence[Item],
        gone: tuple[int, int],
        newer: Sequence[Item],
        come: tuple[int, int],
    ) -> None:
        """Statements older[gone] become newer[come]; either may be none."""
        wanted = self._wanted(older, gone, newer, come)
        indent = (older or newer)[0].indent.decode()
        text = self.candidates.code(newer[come[0] : come[1]], indent)
        if gone[0] == gone[1]:
            candidates = self.candidates.insertions(scope, older, gone[0], text)
        elif come[0] == come[1]:
            candidates = self.candidates.deletions(scope, older, gone)
        else:
            bare = self.candidates.code(newer[come[0] : come[1]], indent, lead=False)
            candidates = self.candidates.replacements(scope, older, gone, text, bare)
        if not self._take(candidates, wanted):
            item = older[min(gone[0], len(older) - 1)] if older else None
            shown = (newer[come[0]] if come[0] < come[1] else older[gone[0]]).text
            self._leave(item.line if item else 1, shown.decode("utf-8", "replace").strip().split("\n")[0])

    def _come_below_lead(
        self,
        scope: Scope,
        older: Sequence[Item],
        at: int,
        newer: Sequence[Item],
        come: tuple[int, int],
    ) -> None:
        """New statements between a statement and the comment that has led up to it."""
        one, begin, end = older[at], newer[come[0]].start, newer[come[1]].start
        candidates = self.candidates.below_lead(scope, older, at, newer[come[0]], end)
        wanted = Edit(start=one.start, end=one.start, text=self.new.utf8[begin:end])
        if self._take(candidates, wanted) or self._with_the_next(scope, older, at, newer, come):
            self._led.append(one)
        else:
            self._run(scope, older, (at, at), newer, come)

    def _with_the_next(
        self,
        scope: Scope,
        older: Sequence[Item],
        at: int,
        newer: Sequence[Item],
        come: tuple[int, int],
    ) -> bool:
        """The same, with lines between that only the statement itself, written anew, can carry."""
        one, last = older[at], newer[come[1]]
        if one.text != last.text:
            return False
        code = self.candidates.code(newer[come[0] : come[1] + 1], one.indent.decode(), lead=False)
        wanted = Edit(start=one.start, end=one.end, text=self.new.utf8[newer[come[0]].start : last.end])
        return self._take(self.candidates.replacements(scope, older, (at, at + 1), "", code), wanted)

    def _wanted(
        self, older: Sequence[Item], gone: tuple[int, int], newer: Sequence[Item], come: tuple[int, int]
    ) -> Edit:
        start = older[gone[0]].lead if gone[0] < len(older) else older[-1].end if older else 0
        end = older[gone[1] - 1].end if gone[0] < gone[1] else start
        if come[0] == come[1]:
            return Edit(start=start, end=end, text=b"")
        begin, finish = newer[come[0]].lead, newer[come[1] - 1].end
        if start == len(self.old.utf8) and not self.old.utf8.endswith((b"\n", b"\r")) and come[0]:
            before = newer[come[0] - 1]  # a last line without its newline gets it with what follows
            begin = before.start + len(before.text)
        return Edit(start=start, end=end, text=self.new.utf8[begin:finish])

    def _lead(self, scope: Scope, older: Sequence[Item], at: int, two: Item) -> None:
        one = older[at]
        candidates = self.candidates.leads(scope, older, at, two)
        wanted = Edit(start=one.lead, end=one.start, text=two.lead_text)
        if not self._take(candidates, wanted):
            shown = two.lead_text.strip() or one.lead_text.strip() or b"blank lines"
            self._leave(one.line, shown.decode().split("\n")[0])

    def _head(self, scope: Scope, older: Sequence[Item], at: int, two: Item) -> None:
        """Another head of a compound statement."""
        one = older[at]
        old, new = (heads_of(side.source, side.node)[0] for side in (one, two))
        wanted = Edit(start=one.start, end=one.start + len(old), text=new)
        if not self._take(self.candidates.headings(scope, older, at, two), wanted):
            self._leave(one.line, new.decode().strip().split("\n")[0])

    # --- trying

    def _take(self, candidates: Iterable[dict[str, Any]], wanted: Edit) -> bool:
        """Take the first operation that gives the bytes, and does not touch what another one does."""
        aim = apply(self.old.utf8, [wanted])
        for number, edit in enumerate(candidates):
            made = self._try({"id": "x", **edit}, aim) if number < _TRIES else None
            if made is not None:
                self.edits.append(edit)
                self._made += made
                return True
        return False

    def _try(self, edit: dict[str, Any], aim: bytes) -> list[Edit] | None:
        try:
            (step,) = read_steps([as_node(edit)])
            made = place(self.old, step, {}, Stamp(recipe="x", revision=1, marks=False))
            if apply(self.old.utf8, merge([made])) != aim:
                return None
            merge([self._made, made])
        except (CannotPlace, UsageError, Overlap, SyntaxError):
            return None
        return made

    def _leave(self, line: int, text: str) -> None:
        self.left.append(Left(line=line, text=text.strip()[:100]))


_TRIES = 12


def as_node(value: Any) -> Node:
    """Plain values as a document's nodes."""
    if isinstance(value, dict):
        value = {key: as_node(inner) for key, inner in value.items()}
    elif isinstance(value, list | tuple):
        value = [as_node(inner) for inner in value]
    return Node(value=value, where="the import:1")


def _alike(older: Sequence[Item], newer: Sequence[Item]) -> bool:
    """Whether changed statements stand for each other one by one: compound ones of one kind."""
    return all(
        one.is_compound and two.is_compound and type(one.node) is type(two.node)
        for one, two in zip(older, newer, strict=True)
    )


def _behind(item: Item) -> int:
    """Where the line behind an ``if``'s own branch begins."""
    assert isinstance(item.node, ast.If)
    return item.source.line_end(item.source.end(item.node.body[-1]))


def _below_lead(older: Sequence[Item], at: int, newer: Sequence[Item], come: int, end: int) -> bool:
    """Whether the comment above older[at] now leads up to what was put in below it."""
    if not (at < len(older) and end < len(newer)):
        return False
    was = older[at].lead_text
    return bool(was.strip()) and newer[come].lead_text == was and newer[end].lead_text != was


def _link(item: Item) -> str:
    node = item.node
    assert isinstance(node, Definition)
    return f"{'class' if hasattr(node, 'bases') else 'def'} {node.name}"
