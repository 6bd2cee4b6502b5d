"""A body as lines: each statement with what leads up to it, so that a whole file is made of nothing else.

Owns: the cut between statements: the blank lines and comments above one belong to it. Refuses: a body whose
statements share lines. Offsets are into ``Source.utf8``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from oeactl.core.anchors import Definition, Owner, Place, blocks
from oeactl.core.blocks import lead_start
from oeactl.core.source import Source


class Item:
    """A statement. lead:start is what leads up to it, start:end its own lines, the last newline included."""

    __slots__ = ("end", "lead", "place", "source", "start")

    def __init__(self, source: Source, place: Place) -> None:
        self.source, self.place = source, place
        self.lead = lead_start(source, place)
        self.start = source.line_start(source.start(place.statement))
        self.end = source.line_end(source.end(place.statement))

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
        return isinstance(self.node, ast.If) and self.text.lstrip().startswith(b"elif")

    @property
    def line(self) -> int:
        return self.source.line(self.start)


def items_of(source: Source, owner: Owner, body: list[ast.stmt]) -> list[Item] | None:
    """A body's statements; None where two of them, or one and its head, share a line."""
    found = [Item(source, Place(owner, body, at, 0)) for at in range(len(body))]
    reached = 0
    for item in found:
        rest = source.utf8[source.end(item.node) : item.end].strip()
        alone = not item.indent.strip(b" \t\f") and (not rest or rest.startswith(b"#"))
        if not alone or item.start < reached:
            return None
        reached = item.end
    return found


def heads_of(source: Source, node: ast.stmt) -> list[bytes]:
    """The lines above each body of a compound statement: ``if x:``, ``else:``, ``except E:``."""
    heads = []
    at = source.line_start(source.start(node))
    for owner, body in blocks(node):
        first = lead_start(source, Place(owner, body, 0, 0))
        heads.append(source.utf8[at:first])
        at = source.line_end(source.end(body[-1]))
    return heads


def is_compound(node: ast.stmt) -> bool:
    return next(blocks(node), None) is not None


def shape_of(node: ast.stmt) -> tuple[object, ...]:
    """What two compound statements must share for their bodies to be compared one by one."""
    name = node.name if isinstance(node, Definition) else ""
    return (type(node), name, len(list(blocks(node))), [type(owner) for owner, _ in blocks(node)])


def key_of(item: Item, siblings: Sequence[Item]) -> tuple[object, ...]:
    """What makes a statement the same one in two versions of a body."""
    node = item.node
    if isinstance(node, Definition):
        alike = [one for one in siblings if isinstance(one.node, Definition) and one.node.name == node.name]
        return ("definition", node.name, alike.index(item))
    if is_compound(node):
        return ("compound", type(node), heads_of(item.source, node)[0].strip())
    return ("simple", item.text)


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
