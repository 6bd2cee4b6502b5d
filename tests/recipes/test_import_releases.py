"""What upstream changed between real releases, imported: the later one's very bytes, and nothing left out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from oeactl.core.import_recipe import FileChange, import_recipe
from oeactl.core.parameters import bind
from oeactl.core.plan import Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import load_recipe
from tests.support.surveys import HOLDER, survey_of
from tests.support.wheels import EVERY_RELEASE, engine_file

NAMES = ("sglang/srt/layers/moe/topk.py", "sglang/srt/layers/radix_attention.py")
QUICK = {("0.5.22", "0.5.23"), ("0.5.9", "0.5.12")}
"""A few lines, and three releases at once: 84 edits. ``make compat`` imports every step there was."""
PAIRS = [
    pytest.param(*pair, marks=pytest.mark.network if pair in QUICK else pytest.mark.compat)
    for pair in sorted(
        {*pairwise(EVERY_RELEASE), ("0.5.9", "0.5.12")}, key=lambda pair: EVERY_RELEASE.index(pair[0])
    )
]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_release_is_made_of_the_one_before_and_of_no_other_by_mistake(old: str, new: str) -> None:
    given = [
        FileChange(path=name, before=engine_file(old, name), after=engine_file(new, name)) for name in NAMES
    ]
    given = [change for change in given if change.before != change.after]
    if not given:
        return
    made = import_recipe("next", given, title="t", summary="s", package="sglang", version=old)
    assert made.left == ()
    bound = bind(load_recipe(made.files), {}, {})

    def plan(version: str) -> object:
        sources = {
            change.path.removesuffix(".py").replace("/", "."): engine_file(version, change.path)
            for change in given
        }
        survey = survey_of(sources, version=version)
        return make_plan(bound, survey, operation="o", applied_at="", applied_by=HOLDER)

    there = plan(old)
    assert isinstance(there, Planned) and there.listed
    assert [file.after for file in there.files] == [change.after for change in given]
    assert isinstance(plan(new), Refusal), "it has the change already"
