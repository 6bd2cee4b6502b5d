"""A source made as small as a recipe allows: statement after statement goes while the recipe still applies.

Owns: the search. Refuses: to know what applies (it is asked), and to leave a body without a statement.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence

from oeactl.core.bodies import Item, items_of
from oeactl.core.edits import apply
from oeactl.core.host import Edit
from oeactl.core.reasons import CannotPlace
from oeactl.core.scopes import Owner, blocks
from oeactl.core.source import Source


def reduced(data: bytes, applies: Callable[[bytes], bool], *, tries: int = 400) -> bytes:
    """The smallest source found for which ``applies`` holds; ``data`` itself must be one.

    tries: how often it is asked at most; a large change ends with a source that could be smaller.
    """
    left = tries

    def limited(less: bytes) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and applies(less)

    depth = 0
    while True:
        data, deeper = _level(data, limited, depth)
        if not deeper or left < 0:
            return data
        depth += 1


def pruned(data: bytes, keep: Collection[int], whole: Collection[int]) -> bytes:
    """The source with only those statements that begin at an offset in ``keep``, and what they are in.

    whole: which of them keep all their inner statements. A body that would be empty keeps its first.
    """
    source = Source(data, "case")
    gone: list[tuple[int, int]] = []
    todo: list[tuple[Owner, list[ast.stmt]]] = [(source.tree, source.tree.body)]
    while todo:
        owner, body = todo.pop()
        items = items_of(source, owner, body) or []
        wanted = [item for item in items if any(item.start <= at < item.end for at in keep)]
        wanted = wanted or ([] if owner is source.tree else items[:1])
        gone += [(item.lead, item.end) for item in items if item not in wanted]
        todo += [
            inner
            for item in wanted
            if item.start not in whole
            for inner in blocks(item.node)
            if len(inner[1])
        ]
    edits = (Edit(start=start, end=end, text=b"") for start, end in sorted(gone))
    return apply(source.utf8, edits)


def _level(data: bytes, applies: Callable[[bytes], bool], depth: int) -> tuple[bytes, bool]:
    """Take out what can go at one depth; whether there is a deeper one."""
    size = max((len(body) for body in _bodies(data, depth)), default=0)
    while size:
        at = 0
        while at < len(bodies := _bodies(data, depth)):
            data, kept = _thinned(data, bodies[at], size, applies)
            at += kept
        size //= 2
    return data, bool(_bodies(data, depth + 1))


def _thinned(
    data: bytes, body: Sequence[Item], size: int, applies: Callable[[bytes], bool]
) -> tuple[bytes, bool]:
    """Try to take runs of ``size`` statements out of a body; False: one went, so look at it again."""
    for start in range(0, len(body), size):
        gone = body[start : start + size]
        if len(gone) == len(body) and body[0].place.depth:
            continue
        less = data[: gone[0].lead] + data[gone[-1].end :]
        if applies(less):
            return less, False
    return data, True


def _bodies(data: bytes, depth: int) -> list[list[Item]]:
    """Every body at a depth, from 0 for the module's own; none where offsets are not those of ``data``."""
    try:
        source = Source(data, "case")
    except CannotPlace:
        return []
    if source.utf8 != data:
        return []
    level = [(source.tree, source.tree.body)]
    for _ in range(depth):
        level = [inner for _, body in level for node in body for inner in blocks(node)]  # type: ignore[misc]
    found = []
    for owner, body in level:
        items = items_of(source, owner, body)
        if items and (depth == 0 or len(items) > 1):
            for item in items:
                item.place.depth = depth
            found.append(items)
    return found
