"""Every release there is: recipe oea applies, sits where it should, goes again; and the page says so."""

from __future__ import annotations

import pytest

from tests.recipes import test_oea_plan as oea
from tests.support import compat
from tests.support.wheels import EVERY_RELEASE

CHECKS = (
    oea.test_it_applies_once_and_goes_without_a_trace,
    oea.test_the_menu_is_shrunk_right_after_the_transform_and_weighed_right_after_the_gate,
    oea.test_the_mode_is_noted_first_thing_in_attention,
    oea.test_everything_else_is_as_it_was,
)


@pytest.mark.compat
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("test_"))
@pytest.mark.parametrize("version", EVERY_RELEASE)
def test_every_release(version: str, check: object) -> None:
    check(version)  # type: ignore[operator]


@pytest.mark.compat
def test_the_page_and_the_recipes_evidence_are_of_these_releases() -> None:
    rows = compat.survey_releases(rounds=1)
    shown = [line.strip("| \n").split(" | ")[:-1] for line in compat.PAGE.read_text().splitlines()]
    told = [cells for cells in shown if cells and cells[0] in EVERY_RELEASE]
    assert told == [list(row.cells()) for row in rows], "run: make compat"
    assert compat.EVIDENCE.read_text() == compat.evidence(rows), "run: make compat"
    assert all(row.applied.startswith("yes") for row in rows), [row for row in rows if "no" in row.applied]
