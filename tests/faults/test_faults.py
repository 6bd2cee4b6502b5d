"""Whatever happens at whatever step of a patch or a revert, nothing is lost and nothing is half done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.table import KINDS, ground, jobs, meet_all, missing, page

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
SHARE = 11


def _all_well(every: int, workers: int) -> None:
    with ground(ssh=False) as here:
        wanted = jobs(here, every)
    assert len(wanted) > 10
    found = meet_all(wanted, workers)
    assert len(found) == len(wanted)
    assert not any(one.complaints for one in found), page(found)


@pytest.mark.sshd
def test_a_share_of_the_steps_under_every_fault() -> None:
    _all_well(SHARE, workers=3)


@pytest.mark.e2e
@pytest.mark.timeout(3600)
def test_every_step_under_every_fault() -> None:
    _all_well(1, workers=3)


def test_the_page_shows_the_steps_that_the_code_has_and_all_green() -> None:
    text = PAGE.read_text()
    with ground(ssh=False) as here:
        for kind in KINDS:
            section = text.partition(f"### {kind}\n")[2].partition("\n\n### ")[0]
            rows = re.findall(r"^\| (\d+) ([^|]+?) \|", section, re.MULTILINE)
            steps = [(str(step["number"]), step["name"]) for step in here.steps(kind)]
            assert rows == steps, "make it again: python -m tests.faults.table --write docs/faults.md"
    assert " 0 not as it must be." in text
    assert "**!**" not in text


def test_a_fault_that_cannot_be_met_here_says_what_it_needs() -> None:
    from tests.faults.faults import FAULTS

    assert all(why is None or why.startswith("needs ") for why in map(missing, FAULTS))
