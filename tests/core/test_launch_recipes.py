"""A recipe may add to the server's launch: its words, its variables, and never another recipe's."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.core.cases import run_cases
from oeactl.core.host import Survey
from oeactl.core.launch import additions, conflict
from oeactl.core.parameters import bind
from oeactl.core.plan import AlreadyApplied, Plan, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import Recipe, load_recipe
from oeactl.core.recipe_document import LaunchDocument
from oeactl.core.revert import Reverting, plan_revert
from oeactl.errors import UsageError
from tests.support.surveys import HOLDER, after_write, survey_of

LAUNCH = """\
id: {id}
revision: 1
title: Fewer requests at once
engine: {{package: sglang}}
parameters: {{most: {{type: int, default: 64, min: 1}}, fast: {{type: bool, default: true}}}}
launch: {{args: ["--max-running-requests", "{{most}}", "--json={{\\"a\\": 1}}"], env: {{FAST: "{{fast}}"}}}}
"""
CASE = b"""\
set: {most: '8'}
launch: {args: ["--max-running-requests", "8", "--json={\\"a\\": 1}"], env: {FAST: 'true'}}
"""


def recipe(id: str = "lean", text: str = LAUNCH, case: bytes = CASE) -> Recipe:
    return load_recipe({"recipe.yaml": text.format(id=id).encode(), "cases/eight/case.yaml": case})


def plan(one: Recipe, survey: Survey, **sets: str) -> Plan:
    return make_plan(bind(one, sets, {}), survey, operation="op", applied_at="2026-01-01", applied_by=HOLDER)


def test_it_is_a_layer_without_files_that_goes_on_once_and_off_again() -> None:
    survey = survey_of({})
    made = plan(recipe(), survey)
    assert isinstance(made, Planned)
    assert (made.files, made.layer.edits, made.imports) == ((), {}, ())
    assert made.layer.args == ("--max-running-requests", "64", '--json={"a": 1}')
    assert made.layer.env == {"FAST": "true"}
    later = after_write(survey, {}, made.layers_after)
    assert isinstance(plan(recipe(), later), AlreadyApplied)
    other = plan(recipe(), later, most="9")
    assert isinstance(other, Planned) and other.replaces and other.layer.args[1] == "9"
    back = plan_revert(later, recipe="lean", force=False)
    assert isinstance(back, Reverting) and back.layers_after == ()


def test_two_recipes_that_set_the_same_option_or_variable_are_refused() -> None:
    survey = survey_of({})
    first = plan(recipe(), survey)
    assert isinstance(first, Planned)
    later = after_write(survey, {}, first.layers_after)
    second = plan(recipe("leaner"), later)
    assert isinstance(second, Refusal)
    assert second.reasons[0].what == "recipes lean and leaner both set --json"
    assert second.reasons[0].hint == "oeactl revert --recipe lean"
    layer = msgspec.structs.replace(first.layer, args=("--tp=8", "x"), env={})
    assert conflict(layer, msgspec.structs.replace(layer, args=("--tp", "4"))) == "--tp"
    assert conflict(layer, msgspec.structs.replace(layer, args=("x", "-v"))) is None
    env = msgspec.structs.replace(layer, args=(), env={"A": "1"})
    assert conflict(env, msgspec.structs.replace(env, env={"A": "1", "B": ""})) == "A"


def test_braces_that_name_no_parameter_are_refused_and_other_braces_stay() -> None:
    launch = LaunchDocument(args=("{a}{b}", '{"a": {b}}', "{}", "{A}"), env={})
    assert additions(launch, {"a": 1, "b": False})[0] == ("1false", '{"a": false}', "{}", "{A}")
    with pytest.raises(UsageError, match=r"the launch uses \{mots\}, which is no parameter") as wrong:
        recipe(text=LAUNCH.replace("{{most}}", "{{mots}}"))
    assert (wrong.value.where, wrong.value.hint) == ("recipe.yaml:6", "did you mean {most}?")


def test_a_case_of_the_launch_passes_fails_and_refuses() -> None:
    (good,) = run_cases(recipe())
    assert good.ok
    (bad,) = run_cases(recipe(case=CASE.replace(b"'8'", b"'7'")))
    assert not bad.ok and "adds ['--max-running-requests', '7'" in bad.why
    refusing = b"launch: {}\nset: {most: '0'}\nrefuses: most must be at least 1\n"
    assert run_cases(recipe(case=refusing))[0].ok
    assert not run_cases(recipe(case=refusing.replace(b"'0'", b"'1'")))[0].ok
    with pytest.raises(UsageError, match="it has no files"):
        load_recipe(
            {
                "recipe.yaml": LAUNCH.format(id="x").encode(),
                "cases/a/case.yaml": CASE,
                "cases/a/before.py": b"",
            }
        )
    with pytest.raises(UsageError, match="has no cases, and is not used without"):
        load_recipe({"recipe.yaml": LAUNCH.format(id="x").encode()})
