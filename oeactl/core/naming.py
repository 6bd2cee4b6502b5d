"""How a statement of a module is described so that it alone is meant: the anchors that an import writes.

Owns: the choice, from plain to narrowed, each tried on the module itself. Refuses: lines and counts.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any

from oeactl.core.anchors import Anchor, find, find_scope
from oeactl.core.bodies import Item, heads_of
from oeactl.core.reasons import CannotPlace
from oeactl.core.scopes import Definition
from oeactl.core.snippets import string_lines
from oeactl.core.source import Source

Description = dict[str, Any]
_NEIGHBOURS = 4


def plain(source: Source, item: Item) -> Description:
    """What the statement is: its name, its head, or its whole text."""
    node = item.node
    if isinstance(node, Definition):
        return {"definition": f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}"}
    if item.is_compound and not isinstance(node, ast.Match):
        return {"statement": head_pattern(source, item)}
    return {"statement": outdented(item.text.decode(), item.indent.decode())}


def head_pattern(source: Source, item: Item) -> str:
    """The head of a compound statement, whatever its bodies are; of a ``try`` all heads."""
    heads = heads_of(source, item.node)
    heads = heads if isinstance(item.node, ast.Try) else heads[:1]
    texts = [outdented(head.decode(), item.indent.decode()).rstrip() for head in heads]
    texts = [text.replace("elif", "if", 1) if item.is_elif else text for text in texts]
    return "\n".join(f"{text}\n    ..." for text in texts)


def outdented(text: str, indent: str) -> str:
    """Lines without the indentation they stand at; what lies inside a string stays as it is."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    inside = _inside(lines, indent)
    return "\n".join(
        line if number in inside else line.removeprefix(indent) for number, line in enumerate(lines, 1)
    )


def _inside(lines: Sequence[str], indent: str) -> frozenset[int]:
    """The lines that begin inside a string, as the tokens of the text have it, be it a part of a block."""
    body = "\n".join(line if line.strip() else "" for line in lines)
    opened = f"if 1:\n{body}\n" if indent else f"{body}\n"
    shift = 1 if indent else 0
    try:
        return frozenset(number - shift for number in string_lines(opened))
    except (SyntaxError, tokenize.TokenError):  # half a statement
        return frozenset()


def run_pattern(items: Sequence[Item]) -> str:
    """Statements one after the other, whole."""
    source, first = items[0].source, items[0]
    text = source.utf8[first.start : items[-1].end].decode().rstrip("\r\n")
    return outdented(text, first.indent.decode())


def descriptions(
    source: Source, scope: Sequence[str], siblings: Sequence[Item], at: int
) -> Iterator[Description]:
    """Descriptions that mean ``siblings[at]`` and nothing else in the module, the plainest first."""
    item = siblings[at]
    base = placed(source, scope, item, plain(source, item))
    if means(source, base, item):
        yield base
    marks = [("after", other) for other in list(range(at - 1, -1, -1))[:_NEIGHBOURS]]
    marks += [("before", other) for other in range(at + 1, len(siblings))][:_NEIGHBOURS]
    for key, other in marks:
        mark = plain(source, siblings[other])
        if means(source, placed(source, scope, siblings[other], mark), siblings[other]):
            for narrowed in numbered(source, {**base, key: mark}):
                if means(source, narrowed, item):
                    yield narrowed
    for narrowed in numbered(source, base):
        if means(source, narrowed, item):
            yield narrowed


def numbered(source: Source, description: Description) -> Iterator[Description]:
    """The first and the last of several that match, with their number: another number is another module."""
    try:
        found = find(source, anchor_of({**description, "pick": "all"}), "import")
    except (CannotPlace, SyntaxError):
        return
    for pick in ("first", "last"):
        yield {**description, "pick": pick, "count": len(found)}


def placed(source: Source, scope: Sequence[str], item: Item, description: Description) -> Description:
    """A description with its scope; one that stands at the scope's top level is not meant in a branch."""
    whole: Description = {"scope": list(scope), **description} if scope else dict(description)
    try:
        own = getattr(find_scope(source, tuple(scope), "import").node, "body", None)
    except CannotPlace:  # a scope that is there twice: nothing in it can be meant
        own = None
    return {**whole, "depth": "top"} if own is item.place.body else whole


def means(source: Source, description: Description, item: Item, count: int | None = None) -> bool:
    """Whether the description finds the statement (the first of ``count``, if given) and no other."""
    try:
        found = find(source, anchor_of(description), "import")
    except (CannotPlace, SyntaxError):
        return False
    if len(found) != 1:
        return False
    return found[0].statement is item.node and found[0].count == (count or item.place.count)


def anchor_of(description: Description) -> Anchor:
    """The anchor that recipe.yaml would make of a description."""
    fields: Description = {**description, "scope": tuple(description.get("scope", ()))}
    for key in ("after", "before"):
        if key in fields:
            fields[key] = anchor_of(fields[key])
    return Anchor(**fields)
