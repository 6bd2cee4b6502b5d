"""Places in a module described by meaning, found in its syntax tree.

An anchor names a scope (a chain such as ``class RadixAttention``, ``def forward``) and, in it, one kind of
thing: a definition, a statement, the statement that contains an expression, an expression, the statement
that binds a name, the ``if`` that tests one. It means exactly one match unless it says otherwise.

Owns: finding, and the error that names every candidate and the nearest three. Refuses: to guess.
"""

from __future__ import annotations

import ast
import difflib
import heapq
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NoReturn

import msgspec

from oeactl.core import patterns
from oeactl.core.host import Value
from oeactl.core.reasons import Candidate, CannotPlace, Reason
from oeactl.core.scopes import Definition, Owner, blocks, bound_names, own_nodes
from oeactl.core.source import Source

_KINDS: dict[str, tuple[type, ...]] = {
    "def": (ast.FunctionDef, ast.AsyncFunctionDef),
    "class": (ast.ClassDef,),
}
_TEXT = 100


class Anchor(Value, frozen=True, kw_only=True):
    """A place by meaning. Exactly one of definition … tests; none: the scope's own definition.

    depth: "top" takes only direct statements of the scope's body. pick: which of several ("only" refuses
    several); count: how many "all" must be. part: of the match, the field ("test", "value", "iter", …) or
    the argument ("argument 0", "argument name") that is meant. after/before: another place in the scope.
    """

    scope: tuple[str, ...] = ()
    definition: str | None = None
    statement: str | None = None
    contains: str | None = None
    expression: str | None = None
    binds: str | None = None
    tests: str | None = None
    depth: Literal["any", "top"] = "any"
    pick: Literal["only", "first", "last", "all"] = "only"
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None
    part: str | None = None
    after: Anchor | None = None
    before: Anchor | None = None

    @property
    def kind(self) -> str | None:
        """The one kind of thing that is asked for, None for the scope itself."""
        given = [name for name in KINDS if getattr(self, name) is not None]
        return given[0] if given else None


KINDS = ("definition", "statement", "contains", "expression", "binds", "tests")


class Place:
    """A match. body[index : index + count]: the statements that it is or that hold it; owner: whose body.

    node: the match itself. depth: 0 for a direct statement of the scope.
    """

    __slots__ = ("body", "count", "depth", "index", "node", "owner")

    def __init__(
        self, owner: Owner, body: list[ast.stmt], index: int, depth: int, *, node: ast.AST | None = None
    ) -> None:
        self.owner, self.body, self.index, self.depth = owner, body, index, depth
        self.count = 1
        self.node = node or body[index]

    @property
    def statement(self) -> ast.stmt:
        return self.body[self.index]

    @property
    def last(self) -> ast.stmt:
        return self.body[self.index + self.count - 1]

    def of(self, node: ast.AST) -> Place:
        """The same statement, with another node in it as the match."""
        return Place(self.owner, self.body, self.index, self.depth, node=node)

    def spanning(self, count: int) -> Place:
        """A run of statements that begins here."""
        run = self.of(self.statement)
        run.count = count
        return run


def find(source: Source, anchor: Anchor, edit: str) -> tuple[Place, ...]:
    """Every place the anchor means, in order of the text.

    Raises CannotPlace with the count, all candidates and the nearest three.
    """
    scope = find_scope(source, anchor.scope, edit)
    if anchor.kind is None:
        return (scope,)
    found = list(_candidates(scope.node, anchor))
    if anchor.depth == "top":
        found = [place for place in found if place.depth == 0]
    for other, keep in ((anchor.after, _follows), (anchor.before, _precedes)):
        if other is not None:
            mark = find(source, _within(other, anchor), edit)[0]
            found = [place for place in found if keep(source, place, mark)]
    chosen = _pick(found, anchor)
    if chosen is None:
        _fail(source, anchor, found, scope.node, edit)
    return tuple(_part(source, place, anchor, edit) for place in chosen)


def find_scope(source: Source, chain: tuple[str, ...], edit: str) -> Place:
    """The definition at the end of a chain; for an empty one a place whose node is the module."""
    place = Place(source.tree, source.tree.body, 0, 0, node=source.tree)
    for link in chain:
        found = list(_definitions(place.node, link))
        if len(found) != 1:
            wanted = Anchor(scope=chain, definition=link)
            _fail(source, wanted, found, place.node, edit, what=f"scope '{' / '.join(chain)}'")
        place = found[0]
    return place


def spots(root: ast.AST, *, into_definitions: bool = True) -> Iterator[Place]:
    """Every statement under ``root``, in order of the text; depth 0 are those of its own body."""
    todo = _children(root, 0)[::-1]
    while todo:
        place = todo.pop()
        yield place
        if into_definitions or not isinstance(place.statement, Definition):
            todo += _children(place.statement, place.depth + 1)[::-1]


def _children(owner: ast.AST, depth: int) -> list[Place]:
    return [Place(holder, body, at, depth) for holder, body in blocks(owner) for at in range(len(body))]


def _within(inner: Anchor, outer: Anchor) -> Anchor:
    return inner if inner.scope else msgspec.structs.replace(inner, scope=outer.scope)


def _candidates(root: ast.AST, anchor: Anchor) -> Iterator[Place]:
    if anchor.definition is not None:
        return _definitions(root, anchor.definition)
    if anchor.statement is not None:
        return _statements(root, anchor.statement)
    if anchor.contains is not None:
        return _unique(_expressions(root, anchor.contains))
    if anchor.expression is not None:
        return _expressions(root, anchor.expression)
    if anchor.binds is not None:
        return _binding(root, anchor.binds, top=anchor.depth == "top")
    return _testing(root, anchor.tests or "")


def _definitions(root: ast.AST, link: str) -> Iterator[Place]:
    kind, _, name = link.rpartition(" ")
    for place in spots(root, into_definitions=False):
        node = place.statement
        if isinstance(node, _KINDS.get(kind, (Definition,))) and getattr(node, "name", None) == name:
            yield place


def _statements(root: ast.AST, text: str) -> Iterator[Place]:
    pattern = patterns.statements(text)
    for place in spots(root):
        if type(place.statement) is not type(pattern[0]):
            continue
        taken = patterns.leading(pattern, place.body[place.index :])
        if taken is not None:
            yield place.spanning(taken)


def _expressions(root: ast.AST, text: str) -> Iterator[Place]:
    pattern = patterns.expression(text)
    for place in spots(root):
        found = [
            node
            for node in own_nodes(place.statement)
            if type(node) is type(pattern) and patterns.matches(pattern, node)
        ]
        for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
            yield place.of(node)


def _unique(places: Iterable[Place]) -> Iterator[Place]:
    held: ast.stmt | None = None
    for place in places:
        if place.statement is not held:
            held = place.statement
            yield place.of(held)


def _binding(root: ast.AST, name: str, *, top: bool) -> Iterator[Place]:
    for place in spots(root):
        if top:
            if place.depth == 0 and name in bound_names(place.statement):
                yield place
        elif any(name in bound_names(node) for node in own_nodes(place.statement) if _simple(node)):
            yield place


def _simple(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.alias | ast.MatchAs | ast.MatchStar)


def _testing(root: ast.AST, name: str) -> Iterator[Place]:
    for place in spots(root):
        if isinstance(place.statement, ast.If | ast.While) and any(
            isinstance(node, ast.Name) and node.id == name for node in ast.walk(place.statement.test)
        ):
            yield place


def _follows(source: Source, place: Place, mark: Place) -> bool:
    return source.start(place.node) >= source.end(mark.last)


def _precedes(source: Source, place: Place, mark: Place) -> bool:
    return source.end(place.last if place.node is place.statement else place.node) <= source.start(mark.node)


def _pick(found: list[Place], anchor: Anchor) -> list[Place] | None:
    if not found or (anchor.count is not None and len(found) != anchor.count):
        return None
    if anchor.pick == "only" and anchor.count is None:
        return found if len(found) == 1 else None
    return {"first": found[:1], "last": found[-1:]}.get(anchor.pick, found)


def _part(source: Source, place: Place, anchor: Anchor, edit: str) -> Place:
    if anchor.part is None:
        return place
    kind, _, name = anchor.part.partition(" ")
    node: object = None
    if kind == "argument":
        call = place.node.value if isinstance(place.node, ast.Expr) else place.node
        if isinstance(call, ast.Call):
            node = argument(call, name)
    else:
        node = getattr(place.node, anchor.part, None)
    if isinstance(node, ast.expr):
        return place.of(node)
    line = source.line(source.start(place.node))
    raise CannotPlace(
        Reason(
            kind="anchor",
            what=f"what matches has no part '{anchor.part}'",
            where=source.where,
            line=line,
            edit=edit,
            candidates=(_shown(source, place),),
        )
    )


def argument(call: ast.Call, name: str) -> ast.expr | None:
    """A call's argument by its number (from 0) or keyword; None when it is not given."""
    if name.isdigit():
        positional = call.args[: int(name) + 1]
        starred = any(isinstance(given, ast.Starred) for given in positional)
        return positional[-1] if len(positional) == int(name) + 1 and not starred else None
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _fail(
    source: Source, anchor: Anchor, found: list[Place], root: ast.AST, edit: str, *, what: str | None = None
) -> NoReturn:
    wanted = getattr(anchor, anchor.kind or "definition")
    said = what or f"{anchor.kind} '{' '.join(wanted.split())}'" + (
        f" in {' / '.join(anchor.scope)}" if anchor.scope else ""
    )
    asked = anchor.count or 1
    raise CannotPlace(
        Reason(
            kind="anchor",
            what=f"{said} matches {len(found)} places, not {asked}",
            where=source.where,
            edit=edit,
            count=len(found),
            candidates=tuple(_shown(source, place) for place in found),
            nearest=nearest(source, anchor, root) if len(found) < asked else (),
            hint="the engine's source has changed here: the recipe needs a variant for it",
        )
    )


def _shown(source: Source, place: Place) -> Candidate:
    start = source.start(place.node)
    text = " ".join(source.cut(place.node)[: 4 * _TEXT].split())[:_TEXT]
    return Candidate(line=source.line(start), text=text)


def nearest(source: Source, anchor: Anchor, root: ast.AST, count: int = 3) -> tuple[Candidate, ...]:
    """The places in the anchor's scope whose text is most like what it asks for, best first."""
    wanted = " ".join((getattr(anchor, anchor.kind or "definition") or "").split())
    if anchor.kind == "definition":
        places = [place for place in spots(source.tree) if isinstance(place.statement, Definition)]
        pool = [(place, getattr(place.statement, "name", "")) for place in places]
        wanted = wanted.rpartition(" ")[2]
    else:
        pool = [(place, _shown(source, place).text) for place in spots(root)]
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    ranked = []
    for at, (place, text) in enumerate(pool):
        matcher.set_seq1(text)
        ranked.append((matcher.quick_ratio(), -at, place))
    best = heapq.nlargest(count, ranked, key=lambda row: row[:2])
    return tuple(_shown(source, place) for _, _, place in best)
