"""A body as lines: each statement with what leads up to it, so that a whole file is made of nothing else.

Owns: the cut between statements: the blank lines and comments above one belong to it, and statements that
share a line are one. Refuses: a body that shares its head's line. Offsets are into ``Source.utf8``.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from oeactl.core.anchors import Place
from oeactl.core.blocks import is_elif, lead_start
from oeactl.core.scopes import Definition, Owner, blocks
from oeactl.core.source import Source


class Item:
    """A statement, or those of one line. lead:start leads up to it, start:end is the whole of its lines."""

    __slots__ = ("end", "lead", "place", "source", "start")

    def __init__(self, source: Source, place: Place) -> None:
        self.source, self.place = source, place
        self.lead = lead_start(source, place)
        self.start = source.line_start(source.start(place.statement))
        self.end = source.line_end(source.end(place.last))

    @property
    def node(self) -> ast.stmt:
        return self.place.statement

    @property
    def lead_text(self) -> bytes:
        return self.source.utf8[self.lead : self.start]

    @property
    def text(self) -> bytes:
        """Its lines, without the last newline."""
        return self.source.utf8[self.start : self.end].rstrip(b"\r\n")

    @property
    def indent(self) -> bytes:
        return self.source.indent(self.source.start(self.node))

    @property
    def is_elif(self) -> bool:
        return is_elif(self.source, self.place)

    @property
    def is_compound(self) -> bool:
        return self.place.count == 1 and next(blocks(self.node), None) is not None

    @property
    def line(self) -> int:
        return self.source.line(self.start)


def items_of(source: Source, owner: Owner, body: list[ast.stmt]) -> list[Item] | None:
    """A body's statements; None where it shares a line with its head."""
    found: list[Item] = []
    at = 0
    while at < len(body):
        place = Place(owner, body, at, 0)
        while at + 1 < len(body) and _share_a_line(source, body[at], body[at + 1]):
            at += 1
            place = place.spanning(place.count + 1)
        found.append(Item(source, place))
        at += 1
    return None if found and found[0].indent.strip(b" \t\f") else found


def _share_a_line(source: Source, one: ast.stmt, two: ast.stmt) -> bool:
    return source.line(source.end(one)) == source.line(source.start(two))


def heads_of(source: Source, node: ast.stmt) -> list[bytes]:
    """The lines above each body of a compound statement: ``if x:``, ``else:``, ``except E:``."""
    heads = []
    at = source.line_start(source.start(node))
    for owner, body in blocks(node):
        first = lead_start(source, Place(owner, body, 0, 0))
        heads.append(source.utf8[at:first])
        at = source.line_end(source.end(body[-1]))
    return heads


def chain_of(item: Item) -> list[Item]:
    """An ``if`` and its ``elif``s, one after the other."""
    found = [item]
    while isinstance(node := found[-1].node, ast.If) and node.orelse:
        further = Item(item.source, Place(node, node.orelse, 0, 0))
        if not further.is_elif:
            break
        found.append(further)
    return found


def shape_of(node: ast.stmt) -> tuple[object, ...]:
    """What two compound statements must share for their bodies to be compared one by one."""
    if isinstance(node, ast.If):
        return (ast.If,)
    name = node.name if isinstance(node, Definition) else ""
    return (type(node), name, [type(owner) for owner, _ in blocks(node)])


def keys_of(items: Sequence[Item]) -> list[tuple[object, ...]]:
    """For each statement of a body what makes it the same one in another version of the body."""
    count: Counter[str] = Counter()
    keys: list[tuple[object, ...]] = []
    for item in items:
        node = item.node
        if isinstance(node, Definition):
            keys.append(("definition", node.name, count[node.name]))
            count[node.name] += 1
        elif item.is_compound:
            keys.append(("compound", type(node), heads_of(item.source, node)[0].strip()))
        else:
            keys.append(("simple", item.text))
    return keys


def topic_of(node: ast.stmt) -> tuple[object, ...]:
    """What a statement is about: the names it binds, the module it imports from, the function it calls."""
    match node:
        case ast.Assign():
            return ("binds", *(ast.dump(target) for target in node.targets))
        case ast.AnnAssign() | ast.AugAssign():
            return ("binds", ast.dump(node.target))
        case ast.ImportFrom():
            return ("from", node.level, node.module)
        case ast.Import():
            return ("import", *(alias.name for alias in node.names))
        case ast.Expr(value=ast.Call(func=called)):
            return ("calls", ast.dump(called))
    return (type(node), getattr(node, "name", None))
