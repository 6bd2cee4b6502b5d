"""A module that drifted from its recipe is never edited in the wrong place: counted, on our own sources."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from oeactl.core.host import Survey
from oeactl.core.import_recipe import FileChange, import_recipe
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import Plan, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import load_recipe
from tests.core.test_importing import BEFORE, KINDS
from tests.support.drift import beside_the_same, drifted, foreign, named
from tests.support.surveys import HOLDER, after_write, sha256, survey_of

MODULE = "sglang.a"
DATA = BEFORE.encode()


def recipe_of_kind(kind: str) -> Bound:
    """The recipe that an import makes of one kind of change by hand."""
    old, new, _ = KINDS[kind]
    change = FileChange(path="sglang/a.py", before=DATA, after=BEFORE.replace(old, new).encode())
    made = import_recipe("mine", [change], title="t", summary="s", package="sglang", version=None)
    marked = made.files["recipe.yaml"].replace(b"marks: false\n", b"")
    return bind(load_recipe({**made.files, "recipe.yaml": marked}), {}, {})


def plan(bound: Bound, survey: Survey) -> Plan:
    return make_plan(bound, survey, operation="o", applied_at="", applied_by=HOLDER)


def test_no_drift_at_any_place_of_any_kind_is_missed_in_silence() -> None:
    """Every kind of change by hand, its place broken in every way that keeps the module Python."""
    missed, unnamed, astray, count = [], [], [], Counter[str]()
    layouts = (DATA, DATA.replace(b"\n", b"\r\n"), DATA.replace(b"    ", b"\t"))
    for kind in KINDS:
        bound = recipe_of_kind(kind)
        fits = plan(bound, survey_of({MODULE: DATA}))
        assert isinstance(fits, Planned)
        for one in (one for data in layouts for one in drifted(bound.recipe.files[0], None, data)):
            made = plan(bound, survey_of({MODULE: one.data}))
            count["refused" if isinstance(made, Refusal) else "applied"] += 1
            if one.must_refuse and not isinstance(made, Refusal):
                missed.append(f"{kind}: {one.name}")
            if isinstance(made, Planned) and not beside_the_same(fits, made):
                astray.append(f"{kind}: {one.name}")
            if isinstance(made, Refusal):
                unnamed += [
                    f"{kind}: {one.name}: {reason.what}" for reason in made.reasons if not named(reason)
                ]
    assert missed == []
    assert unnamed == []
    assert astray == []
    assert count["refused"] >= 300 and count.total() >= 400, count


@pytest.mark.parametrize("kind", ["a guard in a loop", "an item of a set", "a parameter", "a condition"])
def test_a_hand_on_a_patched_file_is_seen_wherever_it_lies(kind: str) -> None:
    """With the journal's record: our block changed, cut, unmarked; a line put into it or beside it."""
    bound = recipe_of_kind(kind)
    survey = survey_of({MODULE: DATA})
    made = plan(bound, survey)
    assert isinstance(made, Planned)
    patched = after_write(survey, {file.path: file.after for file in made.files}, made.layers_after)
    count = 0
    for data in foreign(DATA, made.files[0].after):
        state = msgspec.structs.replace(patched.files[0], data=data, sha256=sha256(data))
        found = plan(bound, msgspec.structs.replace(patched, files=(state,)))
        assert isinstance(found, Refusal), data
        assert {reason.kind for reason in found.reasons} == {"foreign"}
        assert all(reason.diff for reason in found.reasons)
        count += 1
    assert count >= 3


def test_half_of_a_recipe_is_refused_with_and_without_its_record() -> None:
    bound = recipe_of_kind("a guard in a loop")
    made = plan(bound, survey_of({MODULE: DATA}))
    assert isinstance(made, Planned)
    found = plan(bound, survey_of({MODULE: made.files[0].after}))
    assert isinstance(found, Refusal) and found.reasons[0].kind == "damaged", "marks, and no record of them"


def test_what_upstream_fixed_is_told_apart_from_drift() -> None:
    bound = recipe_of_kind("a field")
    fixed = BEFORE.replace('    b: str = "x"\n', '    b: str = "x"\n    c: bool = True\n').encode()
    found = plan(bound, survey_of({MODULE: fixed}))
    assert isinstance(found, Refusal) and found.upstreamed
