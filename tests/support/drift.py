"""A module drifted away from a recipe, in many ways, at each of the places that the recipe names.

Owns: the mutations, made with ``ast`` alone, and what must come of each. Refuses: to look at what a plan did.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from oeactl.core.anchors import Anchor, Place, find, find_scope
from oeactl.core.host import Edit
from oeactl.core.plan import Planned, PlannedFile
from oeactl.core.reasons import CannotPlace, Reason
from oeactl.core.recipe import RecipeFile
from oeactl.core.scopes import Definition
from oeactl.core.source import Source

_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{2,}\b")
_KEYWORDS = {"self", "None", "True", "False", "def", "class", "return", "import", "from", "not", "and", "for"}


@dataclass(frozen=True)
class Drifted:
    """name: what was done, to which edit's place. must_refuse: False where the place is as good as it was."""

    name: str
    edit: str
    data: bytes
    must_refuse: bool


def drifted(file: RecipeFile, variant: str | None, data: bytes) -> Iterator[Drifted]:
    """The module broken at every place that the recipe's edits name. data: UTF-8 without a mark."""
    source = Source(data, file.module)
    steps = [*file.steps, *(s for v in file.variants if v.document.id == variant for s in v.steps)]
    seen: set[bytes] = {data}
    for step in steps:
        for anchor in _anchors(step.operation):
            for one in _broken(source, anchor, step.operation.id):
                if one.data not in seen and _is_python(one.data):
                    seen.add(one.data)
                    yield one


def _anchors(operation: object) -> Iterator[Anchor]:
    at = getattr(operation, "at", None)
    scope = getattr(operation, "scope", ())
    for anchor in ([at] if at is not None else []) + ([Anchor(scope=scope)] if scope else []):
        yield anchor
        for length in range(1, len(anchor.scope)):
            yield Anchor(scope=anchor.scope[:length])
        for mark in (anchor.after, anchor.before):
            if mark is not None:
                yield Anchor(**{**_fields(mark), "scope": mark.scope or anchor.scope})


def _fields(anchor: Anchor) -> dict[str, object]:
    return {name: getattr(anchor, name) for name in anchor.__struct_fields__}


def _broken(source: Source, anchor: Anchor, edit: str) -> Iterator[Drifted]:
    try:
        places = find(source, anchor, edit) if anchor.kind else (find_scope(source, anchor.scope, edit),)
    except CannotPlace:
        return  # it builds on another edit's output
    strict = anchor.pick == "only"
    for place in places:
        for name, data, sure in _changes(source, place, anchor):
            yield Drifted(f"{edit}: {name}", edit, data, sure and (strict or name in _ALWAYS))


_ALWAYS = ("gone", "anchor renamed", "function split", "definition renamed")


def _changes(source: Source, place: Place, anchor: Anchor) -> Iterator[tuple[str, bytes, bool]]:
    """Name, text, and whether a plan must refuse it if exactly one match was asked for."""
    first, last = source.start(place.statement), source.end(place.last)
    start, end = source.line_start(first), source.line_end(last)
    indent = source.indent(first)
    lines = source.utf8[start:end]
    head, tail = source.utf8[:start], source.utf8[end:]
    newline = source.newline(first)
    if indent.strip():
        return
    if not lines.endswith((b"\n", b"\r")):
        lines += newline
    if isinstance(place.statement, Definition) and place.count == 1:
        yield from _definitions(source, place, head, lines, tail)
        return
    yield "gone", head + indent + b"pass" + newline + tail, True
    for name in _names(source, place, anchor):
        fresh = re.sub(rb"\b%s\b" % re.escape(name), name + b"_v2", lines)
        yield "anchor renamed", head + fresh + tail, True
    if "..." not in str(getattr(anchor, anchor.kind or "scope")):  # else it may well say other words
        for label, fresh in _reworded(source, place):
            yield label, head + fresh + tail, anchor.kind in ("statement", "expression")
    yield "duplicated", head + lines + lines + tail, True
    pushed = b"".join(b"    " + line if line.strip() else line for line in lines.splitlines(keepends=True))
    branch = indent + b"if bool(1):" + newline + pushed
    yield "moved into a branch", head + branch + tail, anchor.depth == "top"
    loop = indent + b"for _ in (1, 2):" + newline + pushed
    yield "moved into a loop", head + loop + tail, anchor.depth == "top"
    if anchor.scope and anchor.scope[-1].startswith("def "):
        yield "function split", _split(source, place, anchor), True


def _definitions(
    source: Source, place: Place, head: bytes, lines: bytes, tail: bytes
) -> Iterator[tuple[str, bytes, bool]]:
    name = place.statement.name.encode()  # type: ignore[attr-defined]
    pattern = rb"\b(def|class) %s\b" % re.escape(name)
    yield "definition renamed", head + re.sub(pattern, rb"\1 %s_v2" % name, lines, count=1) + tail, True
    yield "definition duplicated", head + lines + source.newline(0) + lines + tail, True


def _names(source: Source, place: Place, anchor: Anchor) -> list[bytes]:
    """Names of the anchor's pattern that are in the statement: one at a time is renamed."""
    text = getattr(anchor, anchor.kind or "scope") if anchor.kind else ""
    there = source.utf8[source.start(place.statement) : source.end(place.last)].decode()
    found = [name for name in dict.fromkeys(_NAME.findall(text)) if name not in _KEYWORDS]
    return [name.encode() for name in found if re.search(rf"\b{name}\b", there)][:4]


def _reworded(source: Source, place: Place) -> Iterator[tuple[str, bytes]]:
    """The statement with one argument more, one constant changed, one operator turned."""
    start, end = source.start(place.statement), source.end(place.last)
    line = source.line_start(start)
    whole = source.utf8[line : source.line_end(end)]

    def with_text(at: int, stop: int, text: bytes) -> bytes:
        return whole[: at - line] + text + whole[stop - line :]

    for node in ast.walk(place.statement):
        if not hasattr(node, "lineno") or not start <= source.start(node) < end:
            continue
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            close = source.end(node) - 1
            yield "argument added", with_text(close, close, b", extra_v2=1")
        if isinstance(node, ast.keyword):
            at = source.start(node)
            yield "argument renamed", with_text(at, at, b"new_")
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, int)
            and not isinstance(node.value, bool)
        ):
            yield "constant changed", with_text(source.start(node), source.end(node), b"987654")


def _split(source: Source, place: Place, anchor: Anchor) -> bytes:
    """The rest of a function, from the statement on, moved into a function of its own."""
    function = find_scope(source, anchor.scope, "").node
    top = next(
        (node for node in function.body if source.end(node) > source.start(place.statement)),  # type: ignore[attr-defined]
        place.statement,
    )
    at = source.line_start(source.start(top))
    margin = source.indent(source.start(function))
    newline = source.newline(at)
    inner = source.indent(source.start(top))
    cut = newline.join([inner + b"return _rest()", b"", margin + b"def _rest():", b""])
    return source.utf8[:at] + cut + source.utf8[at:]


def _is_python(data: bytes) -> bool:
    try:
        compile(data, "drifted.py", "exec", dont_inherit=True, flags=ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return False
    return True


def foreign(before: bytes, after: bytes) -> Iterator[bytes]:
    """A patched file, touched by another hand: in what the patch put in, at its marks, right beside it."""
    yield from (data for data in _touched(before, after) if data not in (before, after))


def _touched(before: bytes, after: bytes) -> Iterator[bytes]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    ours = [at for at, line in enumerate(new) if line not in old]
    for at in ours:
        yield b"".join([*new[:at], *new[at + 1 :]])
        yield b"".join([*new[:at], new[at].replace(b"\n", b"  # theirs\n"), *new[at + 1 :]])
        yield b"".join([*new[:at], new[at].replace(b"oeactl", b"oactl"), *new[at + 1 :]])
    for at in {ours[0], ours[-1] + 1}:
        yield b"".join([*new[:at], b"# theirs\n", *new[at:]])
    yield before + b"# theirs\n"


def named(reason: Reason) -> bool:
    """Whether a refusal says where: a lost anchor with what comes near, all others with words."""
    if reason.kind != "anchor":
        return bool(reason.what and reason.where)
    near = reason.nearest if reason.count == 0 else reason.candidates
    return bool(near) and all(one.line > 0 and one.text for one in near)


def beside_the_same(fits: Planned, drifted: Planned) -> bool:
    """Whether each edit lies beside a line that an edit lay beside on the module it was made for."""
    (one,), (two,) = fits.files, drifted.files
    known = set().union(*(_neighbours(one, edit) for edit in one.edits))
    return all(_neighbours(two, edit) & known for edit in two.edits)


def _neighbours(file: PlannedFile, edit: Edit) -> set[bytes]:
    """The lines an edit begins and ends in, and those above and below it that are not blank."""
    above = [line.strip() for line in file.before[: edit.start].splitlines() if line.strip()]
    below = [line.strip() for line in file.before[edit.end :].splitlines() if line.strip()]
    return {*above[-2:], *below[:2]}
