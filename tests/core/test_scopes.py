"""Which names surely have a value at a place: told from source, by the rules that Python runs it by."""

from __future__ import annotations

import ast
import textwrap

import pytest

from oeactl.core.scopes import binder_of, bound_names, names_at

NAMES = set("abcdefgh")


def at_here(text: str) -> tuple[ast.Module, ast.stmt]:
    """A module, and in it the statement ``HERE``."""
    tree = ast.parse(textwrap.dedent(text))
    (place,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name) and node.value.id == "HERE"
    )
    return tree, place


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a = 1\nHERE\nb = 2", "a"),
        ("a = 1\ndef f(c):\n    d = 1\n    HERE\n    e = 1\nb = 2", "abcd"),
        ("a = 1\ndef f():\n    HERE\n    a = 2", ""),
        ("a = 1\ndef f():\n    global a\n    HERE\n    a = 2", "a"),
        ("a = 1\nclass C:\n    b = 1\n    HERE\n    c = 1\nd = 1", "ab"),
        ("class C:\n    b = 1\n    def f(c):\n        HERE\nd = 1", "cd"),
        ("def f(a):\n    def g(b):\n        HERE\n    c = 1", "abc"),
        ("def f(a):\n    def g(b):\n        HERE\n        a = 1", "b"),
        ("for a in b:\n    c = 1\n    HERE\n    d = 1", "ac"),
        ("for a in b:\n    c = 1\nHERE", ""),
        ("for a in b: pass\nelse:\n    HERE", ""),
        ("with x as a:\n    b = 1\nHERE", "ab"),
        ("try:\n    a = 1\nexcept E as b:\n    HERE", "b"),
        ("try:\n    import a\nexcept E:\n    a = None\nHERE", "a"),
        ("try:\n    import a\nexcept E:\n    pass\nHERE", ""),
        ("try:\n    a = 1\nexcept E:\n    raise\nelse:\n    b = 1\nfinally:\n    c = 1\nHERE", "abc"),
        ("if x:\n    a = b = 1\nelse:\n    a = 1\nHERE", "a"),
        ("if x:\n    a = 1\n    HERE", "a"),
        ("if x:\n    a = 1\nelif y:\n    HERE", ""),
        ("match x:\n    case [a, b]:\n        HERE", "ab"),
        ("match x:\n    case [a, 1] | [1, a]:\n        HERE", ""),
        ("def f(a, /, b, *c, d, **e):\n    HERE", "abcde"),
    ],
)
def test_a_name_is_there_or_it_may_not_be(text: str, bound: str) -> None:
    tree, place = at_here(text)
    found = names_at(tree, place) & (NAMES - {name for name in "f" if f"def {name}" in text})
    assert found - {"g"} == set(bound)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\ndef f():\n    a = 2\n    a = 3\n    HERE", 4),
        ("def f():\n    HERE\nif x:\n    a = 1\n", 3),
        ("def f(a):\n    HERE", None),
        ("for a in b:\n    HERE", 1),
    ],
)
def test_the_statement_that_binds_a_name_is_the_last_one_before(text: str, line: int | None) -> None:
    found = binder_of(*at_here(text), "a")
    assert (found and found.lineno) == line


def test_a_comprehensions_names_are_its_own() -> None:
    assert bound_names(ast.parse("a = [b for b in c if (d := b)]").body[0]) == {"a", "d"}
    assert bound_names(ast.parse("import a.b, c as d\nfrom e import f").body[0]) == {"a", "d"}
