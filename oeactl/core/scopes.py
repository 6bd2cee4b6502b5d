"""Bodies of statements, the names that they bind, and which of those surely have a value at a place.

Owns: the rules of Python's scopes, as far as source tells them. Refuses: to guess; a name that only some ways
lead to is not bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
Owner = ast.Module | ast.stmt | ast.excepthandler | ast.match_case


def blocks(owner: ast.AST) -> Iterator[tuple[Owner, list[ast.stmt]]]:
    """The statement lists of a module, definition or compound statement, with the node that holds each."""
    if not isinstance(owner, Owner):
        return
    if isinstance(body := getattr(owner, "body", None), list):
        yield owner, body
    for holder in (*getattr(owner, "handlers", ()), *getattr(owner, "cases", ())):
        yield holder, holder.body
    for name in ("orelse", "finalbody"):
        if body := getattr(owner, name, None):
            yield owner, body


def own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement without those of the statements inside it."""
    todo = [statement]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def parameters(function: Function) -> set[str]:
    """The names of a function's parameters."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {parameter.arg for parameter in every if parameter is not None}


def bound_names(node: ast.AST) -> set[str]:
    """The names that a statement, with all inside it, binds in its own scope."""
    names: set[str] = set()
    todo = [node]
    while todo:
        here = todo.pop()
        if isinstance(here, ast.Name) and isinstance(here.ctx, ast.Store):
            names.add(here.id)
        elif isinstance(here, ast.alias):
            names.add((here.asname or here.name).split(".")[0])
        elif isinstance(here, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and here.name:
            names.add(here.name)
        elif isinstance(here, Definition):
            names.add(here.name)
            continue
        if isinstance(here, ast.comprehension):  # its target is a scope of its own
            todo += [here.iter, *here.ifs]
        elif not isinstance(here, ast.Lambda):
            todo += ast.iter_child_nodes(here)
    return names


def surely_bound(statement: ast.stmt) -> set[str]:
    """The names that have a value once a statement is done: of branches those that every one binds."""
    match statement:
        case ast.If():
            return _on_every_way([statement.body, statement.orelse])
        case ast.With() | ast.AsyncWith():
            return _entered(statement) | _all(statement.body)
        case ast.Try():
            tried = [*statement.body, *statement.orelse]
            ways = [tried, *(handler.body for handler in statement.handlers)]
            return _on_every_way(ways) | _all(statement.finalbody)
    if hasattr(statement, "body") and not isinstance(statement, Definition):
        return set()
    return bound_names(statement)


def _all(body: Iterable[ast.stmt]) -> set[str]:
    return set().union(*map(surely_bound, body))


def _on_every_way(ways: Iterable[Sequence[ast.stmt]]) -> set[str]:
    bound = [_all(way) for way in ways if not _leaves(way)]
    return set.intersection(*bound) if bound else set()


def _leaves(way: Sequence[ast.stmt]) -> bool:
    """Whether a branch never goes on below: then what it does not bind is not missed there."""
    return bool(way) and isinstance(way[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _entered(owner: ast.AST) -> set[str]:
    """The names that have a value as soon as a body is entered: a loop's, a ``with``'s, a handler's."""
    match owner:
        case ast.For() | ast.AsyncFor():
            return bound_names(owner.target)
        case ast.With() | ast.AsyncWith():
            held = (item.optional_vars for item in owner.items if item.optional_vars is not None)
            return set().union(*map(bound_names, held))
        case ast.ExceptHandler():
            return {owner.name} if owner.name else set()
        case ast.match_case():
            return set() if isinstance(owner.pattern, ast.MatchOr) else bound_names(owner.pattern)
    return set()


def names_at(tree: ast.Module, place: ast.stmt) -> set[str]:
    """The names that surely have a value right before ``place`` runs.

    A function runs when its module is whole, so all that the module binds is there, unless the function
    itself binds the name, and later; a class body and the module's own run as they are read.
    """
    sure: set[str] = set()  # in the scope at hand, so far
    outer: set[str] = set()  # of the functions and the module around it
    around: list[ast.AST] = [tree]
    for owner, body, at in _way_to(tree, place):
        if isinstance(owner, Function):
            outer = set().union(*map(_bound_in, around)) - _bound_in(owner)
            sure = parameters(owner)
            around.append(owner)
        elif not isinstance(owner, ast.ClassDef) and body is getattr(owner, "body", None):
            sure |= _entered(owner)
        sure |= _all(body[:at])
    return sure | outer


def _way_to(tree: ast.Module, place: ast.stmt) -> Iterator[tuple[Owner, list[ast.stmt], int]]:
    """Each body from the module's down to that which holds the statement, and the index in it."""
    todo: Owner = tree
    while True:
        owner, body, at = next(
            (owner, body, at)
            for owner, body in blocks(todo)
            for at, statement in enumerate(body)
            if statement is place or _spans(statement, place)
        )
        yield owner, body, at
        if body[at] is place:
            return
        todo = body[at]


def _spans(outer: ast.stmt, inner: ast.stmt) -> bool:
    ends = [(one.end_lineno or 0, one.end_col_offset or 0) for one in (outer, inner)]
    return (outer.lineno, outer.col_offset) < (inner.lineno, inner.col_offset) and ends[0] >= ends[1]


def binder_of(tree: ast.Module, place: ast.stmt, name: str) -> ast.stmt | None:
    """The statement that gives ``name`` its value at ``place``; None: a parameter, a loop's own name."""
    way = list(_way_to(tree, place))
    before = [line for _, body, at in way for line in body[:at] if name in surely_bound(line)]
    scopes = [body for owner, body, _ in way if isinstance(owner, ast.Module | Function)]
    anywhere = (line for body in scopes for line in body if name in bound_names(line))
    return before[-1] if before else next(anywhere, None)


def _bound_in(scope: ast.AST) -> set[str]:
    """The names of a module's, class's or function's own scope."""
    body: list[ast.stmt] = getattr(scope, "body", [])
    own = set().union(*map(bound_names, body))
    if not isinstance(scope, Function):
        return own
    elsewhere = {
        name
        for statement in body
        for node in _in_scope(statement)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    return (own | parameters(scope)) - elsewhere


def _in_scope(statement: ast.stmt) -> Iterator[ast.stmt]:
    """A statement and those inside it that are of the same scope."""
    todo = [statement]
    while todo:
        here = todo.pop()
        yield here
        if not isinstance(here, Definition):
            todo += [inner for _, body in blocks(here) for inner in body]
