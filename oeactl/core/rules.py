"""Conditions over parameters and facts, written as small Python expressions: ``k0 <= top_k``.

Owns: reading and deciding them, with a third answer for what is not known. Refuses: calls, attributes,
anything that is not names, constants, arithmetic, comparison, ``and``, ``or``, ``not``, ``in``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

UNKNOWN = object()
"""The value of a name that is not known; a condition over it is not decided."""

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}


def names(text: str) -> frozenset[str]:
    """The names a condition reads. Raises SyntaxError for anything it may not hold."""
    tree = ast.parse(text, mode="eval").body
    allowed = (
        ast.Name,
        ast.Load,
        ast.Constant,
        ast.BoolOp,
        ast.boolop,
        ast.UnaryOp,
        ast.Not,
        ast.USub,
        ast.BinOp,
        ast.Compare,
        ast.Tuple,
    )
    for node in ast.walk(tree):
        if not isinstance(node, allowed) and type(node) not in _BINARY:
            raise SyntaxError(f"a condition holds no {type(node).__name__}")
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def decide(text: str, values: Mapping[str, object]) -> bool | None:
    """Whether the condition holds; None when a name that matters is UNKNOWN.

    Raises TypeError when values cannot be compared.
    """
    found = _value(ast.parse(text, mode="eval").body, values)
    return None if found is UNKNOWN else bool(found)


def _value(node: ast.expr, values: Mapping[str, object]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return values[node.id]
        case ast.Tuple():
            items = [_value(item, values) for item in node.elts]
            return UNKNOWN if UNKNOWN in items else tuple(items)
        case ast.UnaryOp():
            inner = _value(node.operand, values)
            if inner is UNKNOWN:
                return UNKNOWN
            return not inner if isinstance(node.op, ast.Not) else -inner
        case ast.BoolOp():
            return _joined([_value(item, values) for item in node.values], stop=isinstance(node.op, ast.Or))
        case ast.BinOp():
            return _applied(node.op, _value(node.left, values), _value(node.right, values))
        case ast.Compare():
            sides = [_value(side, values) for side in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
            return _joined([_applied(op, left, right) for op, left, right in pairs], stop=False)
    raise TypeError(type(node).__name__)


def _applied(op: ast.AST, left: Any, right: Any) -> Any:
    return UNKNOWN if left is UNKNOWN or right is UNKNOWN else _BINARY[type(op)](left, right)


def _joined(values: list[Any], *, stop: bool) -> Any:
    """``or`` with stop=True, ``and`` with False: one deciding value is enough, an unknown one is not."""
    for value in values:
        if value is not UNKNOWN and bool(value) is stop:
            return stop
    return UNKNOWN if any(value is UNKNOWN for value in values) else not stop
