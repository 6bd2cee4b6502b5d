"""Recipes upon recipes, one recipe over several files: each on and off in any order, whole or not at all."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from oeactl.core.afterwards import afterwards
from oeactl.core.host import Survey
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import AlreadyApplied, Plan, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import load_recipe
from oeactl.core.revert import Reverting, plan_revert
from tests.support.surveys import HOLDER, file_state, path_of, survey_of

FILES = {"sglang.a": b"x = 1\n", "sglang.b": b"x = 1\r\ny = 2", "sglang.c": b"\tx = 1\n".lstrip()}
RECIPE = """\
id: {id}
revision: 1
title: t
engine: {{package: sglang}}
parameters: {{size: {{type: int, default: 4}}}}
files:
{files}
"""
FILE = """\
  - module: {module}
    edits: [{{id: note, op: insert_after, at: {{statement: x = 1}}, code: {id} = OEACTL.size}}]
"""
CASES = {"cases/a/before.py": b"", "cases/a/case.yaml": b"module: sglang.a\nrefuses: matches 0\n"}


def bound(id: str, modules: str = "abc", **sets: str) -> Bound:
    files = "".join(FILE.format(module=f"sglang.{name}", id=id) for name in modules)
    case = {path: data.replace(b"sglang.a", f"sglang.{modules[0]}".encode()) for path, data in CASES.items()}
    return bind(load_recipe({"recipe.yaml": RECIPE.format(id=id, files=files).encode(), **case}), sets, {})


def host() -> Survey:
    return survey_of(FILES)


def plan(one: Bound, survey: Survey) -> Plan:
    return make_plan(one, survey, operation="o", applied_at="", applied_by=HOLDER)


def on(one: Bound, survey: Survey) -> Survey:
    made = plan(one, survey)
    assert isinstance(made, Planned), made
    return afterwards(survey, made.files, made.layers_after)


def off(recipe: str | None, survey: Survey) -> Survey:
    back = plan_revert(survey, recipe=recipe, force=False)
    assert isinstance(back, Reverting), back
    return afterwards(survey, back.files, back.layers_after)


def disk(survey: Survey) -> dict[str, bytes | None]:
    return {state.module: state.data for state in survey.files}


def test_one_recipe_on_three_files_is_one_thing() -> None:
    patched = on(bound("one"), host())
    assert all(b"one = 4" in (data or b"") for data in disk(patched).values())
    assert isinstance(plan(bound("one"), patched), AlreadyApplied)
    assert disk(off(None, patched)) == FILES
    changed = on(bound("one", size="9"), patched)
    assert all(b"one = 9" in (data or b"") for data in disk(changed).values())
    assert disk(off("one", changed)) == FILES


@pytest.mark.parametrize("lost", FILES)
def test_where_one_of_three_places_is_gone_none_is_changed(lost: str) -> None:
    made = plan(bound("one"), survey_of({**FILES, lost: b"z = 1\n"}))
    assert isinstance(made, Refusal)
    assert [reason.where for reason in made.reasons] == [path_of(lost)], "and only that one is named"


def test_a_file_of_three_that_somebody_put_back_is_half_a_recipe() -> None:
    patched = on(bound("one"), host())
    states = (file_state("sglang.a", FILES["sglang.a"]), *patched.files[1:])
    made = plan(bound("one"), msgspec.structs.replace(patched, files=states))
    assert isinstance(made, Refusal)
    assert "only half applied" in made.reasons[0].what and made.reasons[0].hint == "oeactl revert"


ORDERS = list(itertools.permutations(["one", "two", "three"]))


@pytest.mark.parametrize("away", ORDERS, ids=" ".join)
def test_three_recipes_on_shared_files_go_in_any_order(away: tuple[str, ...]) -> None:
    """What stays is always as if the others had never been there."""
    recipes = {"one": bound("one", "abc"), "two": bound("two", "ab"), "three": bound("three", "bc")}
    survey = host()
    for recipe in recipes.values():
        survey = on(recipe, survey)
    left = dict(recipes)
    for name in away:
        survey = off(name, survey)
        del left[name]
        alone = host()
        for recipe in left.values():
            alone = on(recipe, alone)
        assert disk(survey) == disk(alone)
    assert disk(survey) == FILES and survey.journal.layers == ()


def test_parameters_of_the_lower_recipe_change_in_place_under_the_upper() -> None:
    survey = on(bound("two", "ab"), on(bound("one"), host()))
    survey = on(bound("one", size="7"), survey)
    assert [layer.recipe for layer in survey.journal.layers] == ["one", "two"]
    assert disk(survey) == disk(on(bound("two", "ab"), on(bound("one", size="7"), host())))
    assert disk(off("one", survey)) == disk(on(bound("two", "ab"), host()))
