"""Python written as a pattern, and whether a piece of syntax fits it.

A pattern is Python source. Quotes, white space, parentheses and trailing commas do not count, nor does
the order of keyword arguments. ``...`` stands for any one expression; in a list of arguments, items or
statements for any number of them: ``route(...)``, ``route(..., layer=x)``, ``if ready: ...`` (whatever
its body and its ``else`` are).

Owns: reading and matching patterns. Refuses: to search; anchors do. Depth of recursion is the pattern's.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from oeactl.core.source import balanced, parse_module

_UNSEEN = {"ctx", "kind", "type_comment", "type_params"}
_REST = ("orelse", "handlers", "finalbody")


def statements(text: str) -> tuple[ast.stmt, ...]:
    """Read a pattern of one or more statements. Raises SyntaxError."""
    found = tuple(parse_module(text).body)
    if not found or is_any(found[0]) or is_any(found[-1]):
        raise SyntaxError("a pattern begins and ends with a statement that is not '...'")
    return found


def expression(text: str) -> ast.expr:
    """Read a pattern of one expression. Raises SyntaxError."""
    if not balanced(text):
        raise SyntaxError("the brackets do not match")
    found = parse_module(f"(\n{text}\n)").body
    if len(found) != 1 or not isinstance(found[0], ast.Expr):
        raise SyntaxError("the pattern is not one expression")
    if is_any(found[0].value):
        raise SyntaxError("the pattern would match everything")
    return found[0].value


def is_any(node: object) -> bool:
    """Whether a pattern's node is ``...`` (as an expression, a statement or a starred item)."""
    if isinstance(node, ast.Expr | ast.Starred):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


def matches(pattern: object, node: object) -> bool:
    """Whether ``node`` (a node, a list of nodes, or a plain field) has the pattern's structure."""
    if isinstance(pattern, ast.expr) and is_any(pattern):
        return isinstance(node, ast.expr)
    if isinstance(pattern, list):
        return isinstance(node, list) and _run(pattern, node, whole=True) is not None
    if not isinstance(pattern, ast.AST):
        return type(pattern) is type(node) and pattern == node
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        return _calls(pattern, node)
    unseen = _UNSEEN | (set(_free_rest(pattern)) if isinstance(pattern, ast.stmt) else set())
    return all(
        matches(getattr(pattern, name, None), getattr(node, name, None))
        for name in pattern._fields
        if name not in unseen
    )


def leading(pattern: Sequence[ast.stmt], nodes: Sequence[ast.stmt]) -> int | None:
    """How many of ``nodes``, from the first on, the pattern takes; None when it does not fit there."""
    return _run(pattern, nodes, whole=False)


def _run(pattern: Sequence[object], nodes: Sequence[object], *, whole: bool) -> int | None:
    if not pattern:
        return 0 if not whole or not nodes else None
    if is_any(pattern[0]):
        for skipped in range(len(nodes) + 1):
            taken = _run(pattern[1:], nodes[skipped:], whole=whole)
            if taken is not None:
                return skipped + taken
        return None
    if not nodes or not matches(pattern[0], nodes[0]):
        return None
    taken = _run(pattern[1:], nodes[1:], whole=whole)
    return None if taken is None else taken + 1


def _calls(pattern: ast.Call, node: ast.Call) -> bool:
    if not matches(pattern.func, node.func) or not matches(pattern.args, node.args):
        return False
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    asked = {keyword.arg: keyword.value for keyword in pattern.keywords}
    if not any(is_any(argument) for argument in pattern.args) and len(node.keywords) != len(pattern.keywords):
        return False
    return all(name in given and matches(value, given[name]) for name, value in asked.items())


def _free_rest(pattern: ast.stmt) -> tuple[str, ...]:
    body = getattr(pattern, "body", None)
    if not isinstance(body, list) or len(body) != 1 or not is_any(body[0]):
        return ()
    return tuple(name for name in _REST if not getattr(pattern, name, None))
