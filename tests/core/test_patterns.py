"""A pattern matches by structure: layout does not count, everything else does."""

from __future__ import annotations

import ast

import pytest

from oeactl.core import patterns


def fits(pattern: str, text: str) -> bool:
    return patterns.matches(patterns.expression(pattern), ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("f('a', b)", 'f(\n    "a",  # first\n    b,\n)'),
        ("f(x=1, y=2)", "f(y=2, x=1)"),
        ("f(...)", "f()"),
        ("f(...)", "f(1, *a, x=2, **k)"),
        ("f(..., x=1)", "f(a, y=2, x=1)"),
        ("f(a, ..., z)", "f(a, b, c, z)"),
        ("a.b(...).c", "(a.b(1)\n.c)"),
        ("{'k': ...}", '{"k": [1, 2]}'),
        ("(a)", "a"),
        ("a + ...", "a + b * c"),
        ("u'x'", "'x'"),
    ],
)
def test_what_is_alike_matches(pattern: str, text: str) -> None:
    assert fits(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("f(x=1)", "f(x=1, y=2)"),
        ("f(x=1)", "f(x=2)"),
        ("f(..., x=1)", "f(a)"),
        ("f(a)", "f(a, b)"),
        ("f(a, ...)", "f(b)"),
        ("1", "True"),
        ("1", "1.0"),
        ("a + b", "b + a"),
        ("a.f(...)", "f(1)"),
        ("'x'", "b'x'"),
    ],
)
def test_what_differs_does_not(pattern: str, text: str) -> None:
    assert not fits(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "taken"),
    [
        ("a, b = f(...)", "(a, b) = f(1)", 1),
        ("a = 1\nb = 2", "a = 1\nb = 2\nc = 3", 2),
        ("a = 1\n...\nc = 3", "a = 1\nb = 2\nc = 3\nd = 4", 3),
        ("if x: ...", "if x:\n    a\n    b\nelse:\n    c", 1),
        ("if x: a", "if x:\n    a\nelse:\n    c", None),
        ("for a in b: ...", "for a in b:\n    pass\nelse:\n    pass", 1),
        ("a = 1", "a: int = 1", None),
    ],
)
def test_statements_match_in_runs(pattern: str, text: str, taken: int | None) -> None:
    assert patterns.leading(patterns.statements(pattern), ast.parse(text).body) == taken


@pytest.mark.parametrize("text", ["...", "a = 1\n...", ""])
def test_a_pattern_of_everything_is_none(text: str) -> None:
    with pytest.raises(SyntaxError):
        patterns.statements(text)


@pytest.mark.parametrize("text", ["...", "a = 1", "a; b", "a)("])
def test_an_expression_pattern_is_one_expression(text: str) -> None:
    with pytest.raises(SyntaxError):
        patterns.expression(text)
