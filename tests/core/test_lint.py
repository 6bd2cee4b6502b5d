"""Lint says all that is wrong at once, and what a reviewer would ask, each at its line."""

from __future__ import annotations

import pytest

from oeactl.core.cases import run_cases
from oeactl.core.lint import lint
from oeactl.core.recipe import load_recipe
from oeactl.core.skeleton import skeleton
from oeactl.errors import UsageError

GOOD = skeleton("mine", "sglang.a")


def said(**changes: bytes | None) -> list[str]:
    """What lint says of the skeleton with files changed (``cases__x__before`` is cases/x/before.py)."""
    files = dict(GOOD)
    for name, data in changes.items():
        path = {"recipe": "recipe.yaml", "evidence": "tested.json"}.get(name, name.replace("__", "/") + ".py")
        files.pop(path, None)
        if data is not None:
            files[path] = data
    return [f"{found.where}: {found.level}: {found.what}" for found in lint(files, "recipes/mine")]


def edited(old: str, new: str) -> bytes:
    text = GOOD["recipe.yaml"].decode()
    assert text.count(old) == 1
    return text.replace(old, new).encode()


def test_a_new_recipe_loads_passes_its_cases_and_leaves_nothing_to_say() -> None:
    assert [result.ok for result in run_cases(load_recipe(GOOD))] == [True, True]
    assert said() == []
    with pytest.raises(UsageError, match="an id is lower-case letters"):
        skeleton("Mine", "sglang.a")


def test_every_fault_is_said_at_once_with_its_line() -> None:
    text = edited("default: 1, min: 0", "default: -1, min: 0").decode()
    text = text.replace("statement: total = sum(values)", "statement: total = sum(")
    text += "rules: [{check: lvl < 3, message: too much}]\nwhole_files: [{path: sglang/a.json, source: a}]\n"
    assert said(recipe=text.encode(), cases__scaled__after=None) == [
        "recipes/mine/recipe.yaml:10: error: default of level must be at least 0, not -1",
        "recipes/mine/recipe.yaml:26: error: 'lvl' is neither a parameter nor a fact",
        "recipes/mine/recipe.yaml:27: error: there is no file 'a' in the recipe's folder",
        "recipes/mine/cases/place-gone/case.yaml: error: case place-gone does not say which of the recipe's"
        " files it is",
        "recipes/mine/recipe.yaml:23: error: not a pattern: '(' was never closed",
    ]
    assert said(recipe=b"id: [") == [
        "recipes/mine/recipe.yaml:1: error: not valid YAML: expected the node content, but found"
        " '<stream end>'"
    ]
    assert said(recipe=None) == ["recipes/mine/: error: a recipe's folder holds a recipe.yaml"]
    assert said(evidence=b"[]")[0].startswith("recipes/mine/tested.json: error: not what a test wrote")


def test_a_case_that_fails_is_an_error_and_so_is_what_an_import_left_out() -> None:
    assert said(cases__scaled__after=b"") == [
        "recipes/mine/cases/scaled: error: case scaled fails: another text came out"
    ]
    unfinished = GOOD["recipe.yaml"] + b"unanchored:\n  - 'a.py:3: a comment'\n"
    assert said(recipe=unfinished) == [
        "recipes/mine/recipe.yaml:27: error: left out by the import: a.py:3: a comment"
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        (', versions: ">=0"', "", 7, "no version range"),
        (', about: "say what it sets"', "", 10, "parameter level does not say what it is"),
        ("level: {type", "other: {type: int, default: 1, about: x}\n  level: {type", 10, "used by no code"),
        ("  require:  ", "  x_require:  ", 14, "unknown key"),
        ("\nfiles:", "\nfacts: {top: {keys: [a]}}\nfiles:", 12, "fact top is used by no rule or guard"),
        ("\nfiles:", "\nlaunch: {args: [--x]}\nfiles:", 12, "no case of the launch"),
        (
            "      symbols: [scale]\n      parameters: {scale: [values]}\n",
            "      {}\n",
            13,
            "nothing is required",
        ),
    ],
)
def test_what_a_reviewer_would_ask_is_a_warning(old: str, new: str, line: int, what: str) -> None:
    found = said(recipe=edited(old, new))
    assert any(f"recipe.yaml:{line}: " in one and what in one for one in found), found


def test_files_that_nothing_uses_and_cases_that_are_not_there_are_said() -> None:
    assert said(snippets__old=b"x = 1\n") == [
        "recipes/mine/snippets/old.py: warning: nothing in the recipe uses this file"
    ]
    files = {path: data for path, data in GOOD.items() if "place-gone" not in path}
    (found,) = lint(files, "m")
    assert found.what == "no case in which it refuses"


def test_a_variant_that_no_case_takes_is_said() -> None:
    text = GOOD["recipe.yaml"] + (
        b"    variants:\n"
        b"      - {id: old, when: {absent: [nothing]}, edits: [{id: a, op: append, code: y = 1}]}\n"
        b"      - {id: new, when: {symbols: [nothing]}, edits: [{id: a, op: append, code: y = 2}]}\n"
    )
    found = said(recipe=text)
    assert "recipes/mine/recipe.yaml:28: warning: no case takes variant 'new'" in found
    assert not any("variant 'old'" in one for one in found)
