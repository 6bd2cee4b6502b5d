"""A recipe that cannot be right does not load, and says where and what was meant; parameters likewise."""

from __future__ import annotations

import json

import pytest

from oeactl.core.cases import run_cases
from oeactl.core.parameters import bind
from oeactl.core.recipe import describe, load_recipe
from oeactl.errors import Refused, UsageError
from tests.support.recipes import CASES, recipe_of

GOOD = """\
id: trial
revision: 2
title: A test
engine: {package: sglang, versions: ">=0.4"}
parameters:
  size: {type: int, default: 4, min: 1, max: 64, about: how many}
  most: {type: int, default: 8}
  rate: {type: float, default: 1}
  mode: {type: str, default: a, choices: [a, b]}
  fast: {type: bool, default: false}
facts:
  top: {keys: [num_top, text_config.num_top]}
  groups: {keys: [n_group], default: 1}
rules:
  - {check: size <= most, message: "size {size} is more than most {most}"}
  - {check: size <= top, message: "size is {size}, the model has {top}"}
guards:
  - {check: groups <= 1, message: "the model has {groups} groups"}
files:
  - module: sglang.a
    edits:
      - id: note
        op: insert_after
        at: {statement: x = 1}
        code: y = OEACTL.size
"""
CASE = {"cases/one/before.py": b"x = 1\n", "cases/one/after.py": b""}


def load(text: str, **files: bytes) -> object:
    return load_recipe({"recipe.yaml": text.encode(), **CASES, **files}, "recipes/trial")


def fault(text: str, **files: bytes) -> UsageError:
    with pytest.raises(UsageError) as wrong:
        load(text, **files)
    return wrong.value


@pytest.mark.parametrize(
    ("old", "new", "line", "what", "hint"),
    [
        ("title:", "titel:", 3, "unknown key 'titel'", "did you mean 'title'?"),
        ("revision: 2", "revision: two", 2, "must be an integer", None),
        ("insert_after", "insert_afer", 23, "no operation 'insert_afer'", "did you mean 'insert_after'?"),
        ("at: {statement", "at: {statment", 24, "unknown key 'statment'", "did you mean 'statement'?"),
        ("x = 1}", "x ==}", 24, "not a pattern", None),
        ("OEACTL.size", "OEACTL.sise", 25, "OEACTL.sise, which the recipe does not declare", "OEACTL.size"),
        ("y = OEACTL.size", "OEACTL.size = 1", 25, "no value can stand for OEACTL.size", None),
        ("y = OEACTL.size", "y = OEACTL", 25, "OEACTL is no value", None),
        ("y = OEACTL.size", "y = (", 25, "not Python", None),
        ("        code: y", "        snippet: snippets/a.py\n        code: y", 22, "either 'code' or", None),
        ("size <= most", "size <= mots", 15, "'mots' is neither a parameter nor a fact", "'most'?"),
        ("size <= most", "size.bit_length() < 3", 15, "no condition", None),
        ('">=0.4"', '"from 0.4"', 4, "'from 0.4' is no version range", None),
        ("default: 4", "default: 0", 6, "default of size must be at least 1", None),
        ("default: a,", "default: c,", 9, "default of mode must be one of a, b", None),
        ("id: trial", "id: Trial", 1, "an id is lower-case", None),
        ("module: sglang.a", "module: sglang/a.py", 20, "'sglang/a.py' is no module", None),
        ("module: sglang.a", "module: vllm.a", 20, "'vllm.a' is not in sglang", None),
        ("at: {statement: x = 1}", "at: {depth: top}", 24, "an anchor names one of", None),
        ("{statement: x = 1}", "{statement: x, binds: y}", 24, "an anchor asks for one thing", None),
    ],
)
def test_a_faulty_recipe_names_the_line_and_what_was_meant(
    old: str, new: str, line: int, what: str, hint: str | None
) -> None:
    assert old in GOOD
    wrong = fault(GOOD.replace(old, new, 1))
    assert wrong.where == f"recipes/trial/recipe.yaml:{line}"
    assert what in wrong.what
    assert hint is None or hint in (wrong.hint or "")


def test_a_recipe_without_cases_does_not_load() -> None:
    with pytest.raises(UsageError, match="has no cases"):
        load_recipe({"recipe.yaml": GOOD.encode()})


def test_two_edits_of_one_name_and_an_unknown_snippet_are_refused() -> None:
    twice = "- {id: a, op: append, code: x = 1}\n- {id: a, op: append, code: x = 2}\n"
    with pytest.raises(UsageError, match="two edits are called 'a'"):
        recipe_of(twice)
    with pytest.raises(UsageError, match=r"no file 'snippets/b\.py'") as wrong:
        recipe_of("- {id: a, op: append, snippet: snippets/b.py}\n", files={"snippets/c.py": b"x = 1"})
    assert wrong.value.hint == "did you mean 'snippets/c.py'?"
    with pytest.raises(UsageError, match="builds on 'b', which does not come before"):
        recipe_of("- {id: a, op: append, code: x = 1, builds_on: [b]}\n")


def test_a_fault_in_a_snippet_is_named_in_the_snippet() -> None:
    files = {"snippets/b.py": b"x = 1\ny = OEACTL.nothing\n"}
    with pytest.raises(UsageError) as wrong:
        recipe_of("- {id: a, op: append, snippet: snippets/b.py}\n", files=files)
    assert wrong.value.where == "snippets/b.py:2"


def test_values_are_read_from_text_by_type() -> None:
    sets = {"size": "6", "rate": "0.5", "mode": "b", "fast": "yes"}
    bound = bind(load(GOOD), sets, {"num_top": 8})  # type: ignore[arg-type]
    assert bound.parameters == {"size": 6, "most": 8, "rate": 0.5, "mode": "b", "fast": True}
    assert bound.notes == ()


@pytest.mark.parametrize(
    ("sets", "what"),
    [
        ({"sise": "4"}, "no parameter 'sise'"),
        ({"size": "x"}, "size must be int, not 'x'"),
        ({"size": "1.5"}, "size must be int"),
        ({"size": "0"}, "size must be at least 1, not 0"),
        ({"size": "65"}, "size must be at most 64"),
        ({"rate": "nan"}, "rate must be a finite number"),
        ({"mode": "c"}, "mode must be one of a, b"),
        ({"fast": "maybe"}, "fast must be bool"),
        ({"size": "9"}, "size 9 is more than most 8"),
        ({"size": "7"}, "size is 7, the model has 6"),
    ],
)
def test_a_wrong_value_is_the_users_error(sets: dict[str, str], what: str) -> None:
    with pytest.raises(UsageError) as wrong:
        bind(load(GOOD), sets, {"text_config": {"num_top": 6}})  # type: ignore[arg-type]
    assert what in wrong.value.what
    assert wrong.value.where is not None and wrong.value.where.startswith("--set ")


def test_a_rule_that_cannot_be_decided_is_said_not_passed() -> None:
    for config in ({}, {"other": 1}, {"num_top": "eight"}):
        notes = bind(load(GOOD), {}, config).notes  # type: ignore[arg-type]
        assert any(note.startswith("not checked: size <= top") for note in notes)


def test_a_guard_of_the_model_refuses_and_its_default_holds_where_the_model_is_known() -> None:
    with pytest.raises(Refused, match="the model has 8 groups"):
        bind(load(GOOD), {}, {"n_group": 8, "num_top": 8})  # type: ignore[arg-type]
    assert bind(load(GOOD), {}, {"num_top": 8}).notes == ()  # type: ignore[arg-type]
    assert any("groups <= 1" in note for note in bind(load(GOOD), {}, {}).notes)  # type: ignore[arg-type]


def test_a_recipe_describes_itself_in_json() -> None:
    told = json.loads(json.dumps(describe(load(GOOD))))  # type: ignore[arg-type]
    assert told["parameters"]["size"]["default"] == 4
    assert told["files"][0]["edits"][0]["op"] == "insert_after"
    assert told["cases"] == ["none"]


def test_cases_pass_fail_with_a_difference_and_refuse() -> None:
    begin, end = b"# >>> oeactl trial r1 a sha256:" + b"0" * 64 + b"\n", b"# <<< oeactl trial a\n"
    files = {
        "cases/good/before.py": b"x = 1\n",
        "cases/good/after.py": b"x = 1\n" + begin + b"y = 4\n" + end,
        "cases/folded/before.py": b"x = 1\n",
        "cases/folded/case.yaml": b"fold: true\n",
        "cases/folded/after.py": b"x = 1\n" + begin + end,
        "cases/set/before.py": b"x = 1\n",
        "cases/set/case.yaml": b"set: {size: '8'}\n",
        "cases/set/after.py": b"x = 1\n",
        "cases/refused/before.py": b"",
        "cases/refused/case.yaml": b"refuses: matches 0 places\n",
        "cases/unrefused/before.py": b"x = 1\n",
        "cases/unrefused/case.yaml": b"refuses: matches 0 places\n",
    }
    edit = "- {id: a, op: insert_after, at: {statement: x = 1}, code: y = OEACTL.size}\n"
    results = {result.name: result for result in run_cases(recipe_of(edit, cases=files))}
    assert {name for name, result in results.items() if result.ok} == {"good", "folded", "refused"}
    assert "+y = 8" in results["set"].diff
    files = {"cases/other/before.py": b"", "cases/other/case.yaml": b"refuses: other words\n"}
    (other,) = run_cases(recipe_of(edit, cases=files))
    assert other.why.splitlines()[0] == "it is refused, and expected was these words of it: other words"
    (bare,) = run_cases(recipe_of(edit, cases={"cases/a/before.py": b"", "cases/a/after.py": b""}))
    assert bare.why.startswith("it is refused, and expected was no refusal\nbefore.py: [a] statement")


def test_a_case_must_say_what_it_expects() -> None:
    edit = "- {id: a, op: append, code: y = 1}\n"
    with pytest.raises(UsageError, match=r"needs before\.py"):
        recipe_of(edit, cases={"cases/a/before.py": b""})
    with pytest.raises(UsageError, match=r"a case is before\.py and after\.py"):
        recipe_of(edit, cases={"cases/a/source.py": b""})
    with pytest.raises(UsageError, match="two files 'before'"):
        recipe_of(edit, cases={"cases/a/before.py": b"", "cases/a/before.txt": b""})
