"""unlock: tells whose lease it is, ends it by force and a yes, and never by accident."""

from __future__ import annotations

import pytest

from oeactl.errors import Interrupted, Locked, UsageError
from oeactl.flows.unlock import unlock
from tests.support.site_world import Operator, World, held


@pytest.fixture
def ann() -> Operator:
    return Operator(World())


def test_a_host_that_is_not_locked_is_a_success(ann: Operator) -> None:
    assert unlock(ann.site, force=True).status == "was not locked"


def test_without_force_it_says_who_where_since_and_until_and_changes_nothing(ann: Operator) -> None:
    held(ann)
    with pytest.raises(Locked) as caught:
        unlock(ann.site, force=False)
    error = caught.value
    assert error.exit_code == 5
    assert "bob@desk is at work on this engine: bench" in error.what
    assert error.where == "box"
    assert "since 2026-11-30" in error.details[0]
    assert "at most until 2026-11-30" in error.details[0]
    assert "oeactl unlock --force --host box" in str(error.hint)
    assert ann.world.journal.lease is not None


@pytest.mark.parametrize("answer", [None, False])
def test_force_needs_a_yes(ann: Operator, answer: bool | None) -> None:
    held(ann)
    ann.world.answer = answer
    with pytest.raises(UsageError if answer is None else Interrupted):
        unlock(ann.site, force=True)
    assert ann.world.journal.lease is not None


def test_force_ends_it_and_then_one_can_work(ann: Operator) -> None:
    held(ann)
    outcome = unlock(ann.site, force=True)
    assert outcome.status == "unlocked"
    assert outcome.lease is not None and outcome.lease.what == "bench"
    assert ann.world.journal.lease is None
    assert ann.patch().status == "patched"
