"""Which operations might give a change of a body: for each kind of change the likeliest first.

Owns: their order, and code as recipes have it. Refuses: to try them (``importing`` does).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from oeactl.core.blocks import is_docstring, unit_of
from oeactl.core.bodies import Item
from oeactl.core.naming import (
    Description,
    descriptions,
    head_pattern,
    means,
    numbered,
    outdented,
    placed,
    run_pattern,
)
from oeactl.core.scopes import Definition
from oeactl.core.source import Source, parse_module

Scope = tuple[str, ...]
Candidate = dict[str, Any]
_UNREAD = '"""The docstring below is put in; this one, as in any snippet, is not."""\n'


class Candidates:
    """Operations on ``old`` whose code comes from ``new``."""

    def __init__(self, old: Source, new: Source) -> None:
        self.old, self.new = old, new

    def code(self, items: Sequence[Item], indent: str, *, lead: bool = True) -> str:
        """New statements as code of a recipe: at no indentation, in steps of four blanks."""
        if not items:
            return ""
        begin = items[0].lead if lead else items[0].start
        text = self.new.utf8[begin : items[-1].end].decode()
        code = _in_fours(outdented(text.rstrip("\r\n"), indent), unit_of(self.old))
        return _UNREAD + code if is_docstring(items[0].node) else code

    def insertions(self, scope: Scope, older: Sequence[Item], at: int, code: str) -> Iterator[Candidate]:
        """Code before older[at], after what precedes it, or first in the body."""
        if at == 0 or (at == 1 and is_docstring(older[0].node)):
            yield {"op": "body_start", "scope": list(scope), "code": code}
        if at:
            for where in descriptions(self.old, scope, older, at - 1):
                yield {"op": "insert_after", "at": where, "code": code}
        if at < len(older):
            for where in descriptions(self.old, scope, older, at):
                yield {"op": "insert_before", "at": where, "code": code}

    def deletions(self, scope: Scope, older: Sequence[Item], gone: tuple[int, int]) -> Iterator[Candidate]:
        """older[gone] taken out, with or without what leads up to it."""
        for where in self._runs(scope, older, gone):
            for lead in (False, True):
                yield {"op": "delete_statement", "at": where, **({"lead": True} if lead else {})}

    def replacements(
        self, scope: Scope, older: Sequence[Item], gone: tuple[int, int], code: str, bare: str
    ) -> Iterator[Candidate]:
        """older[gone] made into other code. bare: that code without what leads up to it."""
        one = older[gone[0]]
        alone = gone[1] - gone[0] == one.place.count == 1
        if alone and isinstance(one.node, ast.Assign | ast.AnnAssign):
            yield from self._item_added(scope, one, bare)
        for where in self._runs(scope, older, gone):
            yield {"op": "replace_statement", "at": where, "code": bare}
            yield {"op": "replace_statement", "at": where, "lead": True, "code": code}

    def _item_added(self, scope: Scope, one: Item, bare: str) -> Iterator[Candidate]:
        """A literal bound to a name, with one more item at its end."""
        try:
            old, new = one.node, parse_module(bare).body[0]
        except SyntaxError:  # a branch, which is no statement of its own
            return
        value, longer = (getattr(node, "value", None) for node in (old, new))
        if type(value) is not type(longer):
            return
        if isinstance(value, ast.List | ast.Set | ast.Tuple) and len(value.elts) + 1 == len(longer.elts):  # type: ignore[union-attr]
            item = ast.get_source_segment(bare, longer.elts[-1])  # type: ignore[union-attr]
            hollow = {ast.List: "[...]", ast.Set: "{...}", ast.Tuple: "(...,)"}[type(value)]
            head = self.old.cut(old)[: self.old.start(value) - self.old.start(old)]
            at = placed(self.old, scope, one, {"statement": head + hollow})
            yield {"op": "add_item", "at": {**at, "part": "value"}, "code": item}

    def _runs(self, scope: Scope, older: Sequence[Item], gone: tuple[int, int]) -> Iterator[Description]:
        """Descriptions of older[gone], whole: an unknown text is never overwritten."""
        items = older[gone[0] : gone[1]]
        base = placed(self.old, scope, items[0], {"statement": run_pattern(items)})
        for where in (base, *numbered(self.old, base)):
            if means(self.old, where, items[0], sum(item.place.count for item in items)):
                yield where

    def below_lead(
        self, scope: Scope, older: Sequence[Item], at: int, first: Item, end: int
    ) -> Iterator[Candidate]:
        """New statements, up to ``end``, between older[at] and the comment above it."""
        text = self.new.utf8[first.start : end].decode().rstrip("\r\n")
        code = _in_fours(outdented(text, older[at].indent.decode()), unit_of(self.old))
        for where in descriptions(self.old, scope, older, at):
            yield {"op": "insert_before", "at": where, "below_comment": True, "code": code}

    def leads(self, scope: Scope, older: Sequence[Item], at: int, two: Item) -> Iterator[Candidate]:
        """Other comments and blank lines above older[at]."""
        lines = outdented(two.lead_text.decode(), two.indent.decode())
        was = _stripped(older[at].lead_text)
        for where in descriptions(self.old, scope, older, at):
            yield {"op": "replace_lead", "at": where, "was": was, "lines": lines}

    def branches(self, scope: Scope, above: Item, text: str) -> Iterator[Candidate]:
        """``elif``s or an ``else``, as they are written, behind the branch of an ``if`` or ``elif``."""
        code = _in_fours(outdented(text.rstrip("\r\n"), above.indent.decode()), unit_of(self.old))
        for where in descriptions(self.old, scope, [above], 0):
            yield {"op": "add_branch", "at": where, "code": code}

    def branch_gone(self, scope: Scope, one: Item) -> Iterator[Candidate]:
        """An ``elif`` taken out."""
        for where in descriptions(self.old, scope, [one], 0):
            yield {"op": "delete_branch", "at": where}

    def tails(self, was: bytes, lines: bytes) -> Iterator[Candidate]:
        """Other comments and blank lines behind the last statement."""
        yield {"op": "replace_tail", "was": _stripped(was), "lines": outdented(lines.decode(), "")}

    def headings(self, scope: Scope, older: Sequence[Item], at: int, two: Item) -> Iterator[Candidate]:
        """Another head of older[at]: a parameter more, another condition, or the head as a whole."""
        one = older[at]
        if isinstance(one.node, Definition) and not hasattr(one.node, "bases"):
            for parameter in _added(one, two):
                for only in (False, True):
                    more = {"keyword_only": True} if only else {}
                    link = [*scope, f"def {one.node.name}"]
                    yield {"op": "add_parameter", "scope": link, **more, "code": parameter}
        base = placed(self.old, scope, one, {"statement": head_pattern(self.old, one)})
        places = [base] if means(self.old, base, one) else []
        if one.is_elif or hasattr(one.node, "test"):
            test = two.source.cut(two.node.test)  # type: ignore[attr-defined]
            for where in places:
                yield {"op": "replace_expression", "at": {**where, "part": "test"}, "code": test}
        if not one.is_elif:
            for where in places:
                yield {"op": "replace_header", "at": where, "code": head_pattern(self.new, two)}


def _stripped(text: bytes) -> str:
    return "".join(f"{line.strip()}\n" for line in text.decode().splitlines())


def _added(one: Item, two: Item) -> Iterator[str]:
    """The one parameter that a function has more than before: as it is written."""
    sides = []
    for item in (one, two):
        given = item.node.args  # type: ignore[attr-defined]
        positional = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
        sides.append(
            {
                parameter.arg: (parameter, default)
                for parameter, default in [
                    *zip(positional, defaults, strict=True),
                    *zip(given.kwonlyargs, given.kw_defaults, strict=True),
                ]
            }
        )
    more = [name for name in sides[1] if name not in sides[0]]
    if len(more) == 1 and len(sides[1]) == len(sides[0]) + 1:
        parameter, default = sides[1][more[0]]
        source = two.source
        text = source.cut(parameter)
        if default is not None:
            equals = " = " if parameter.annotation is not None else "="
            text += equals + source.cut(default)
        yield text


def _in_fours(text: str, unit: str) -> str:
    """Code whose steps are ``unit`` in steps of four blanks, as recipes have it."""
    if unit == "    ":
        return text
    lines = []
    for line in text.split("\n"):
        steps = 0
        while line.startswith(unit):
            steps, line = steps + 1, line[len(unit) :]
        lines.append("    " * steps + line)
    return "\n".join(lines)
