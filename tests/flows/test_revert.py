"""revert: the original bytes from the host's own record; the server replaced; twice is once."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Interrupted,
    Locked,
    Refused,
    UsageError,
)
from tests.support.site_world import (
    PRISTINE,
    After,
    Operator,
    World,
    another_recipe,
    held,
    patched,
    pending,
)
from tests.support.surveys import sha256

CTRL_C = KeyboardInterrupt()
LOST = ConnectionLost("the connection ended before the command did", where="box")


@pytest.fixture
def ann() -> Operator:
    """A host that is patched, its server running and proven."""
    return patched()


def test_the_original_bytes_come_back_the_server_is_replaced_and_answers(ann: Operator) -> None:
    done = ann.revert()
    assert ann.world.steps == [
        "ask: Stop the server that oeactl started (pid 120) on box and start it with the original files?",
        *("write revert", "stop", "start", "ready", "complete"),
    ]
    assert (done.status, done.recipes, done.live, done.left) == ("reverted", ("trial",), "restarted", ())
    assert ann.world.disk == PRISTINE
    assert (ann.world.journal.layers, ann.world.journal.files, ann.world.journal.lease) == ((), (), None)
    assert ann.restored == 1


def test_twice_is_a_success_that_changes_nothing(ann: Operator) -> None:
    ann.revert()
    server = ann.world.running
    ann.world.asked.clear()
    done = ann.revert()
    assert (done.status, done.notes) == ("nothing to revert", ())
    assert ann.world.steps == [] and ann.world.running is server


def test_one_recipe_of_two_goes_and_the_other_is_proven_again(ann: Operator) -> None:
    ann.patch(recipe=another_recipe())
    ann.world.asked.clear()
    done = ann.revert("trial")
    assert (done.recipes, [layer.recipe for layer in done.left]) == (("trial",), ["other"])
    assert [(one.recipe, one.overall) for one in done.verdicts] == [("other", "taken")]
    assert "and start it with what is left?" in ann.world.steps[0]


def test_what_stays_and_is_not_active_is_exit_7(ann: Operator) -> None:
    ann.patch(recipe=another_recipe())
    ann.world.shows = None
    with pytest.raises(Degraded, match="the server is back, and other is not active"):
        ann.revert("trial")
    assert ann.world.journal.lease is None


def test_a_recipe_that_is_not_on_changes_nothing(ann: Operator) -> None:
    done = ann.revert("other")
    assert done.status == "nothing to revert"
    assert [layer.recipe for layer in done.left] == ["trial"]
    assert ann.world.steps == []


def test_where_nobody_can_be_asked_it_is_exit_2_and_nothing_is_written(ann: Operator) -> None:
    ann.world.answer = None
    before = ann.world.survey
    with pytest.raises(UsageError):
        ann.revert()
    assert ann.world.survey == before and len(ann.world.steps) == 1


def test_a_no_changes_nothing(ann: Operator) -> None:
    ann.world.answer = False
    before = ann.world.survey
    with pytest.raises(Interrupted, match="nothing was changed"):
        ann.revert()
    assert ann.world.survey == before and ann.restored == 0


def test_somebody_elses_lease_is_exit_5_before_anything_is_asked(ann: Operator) -> None:
    held(ann)
    with pytest.raises(Locked, match="bob@desk"):
        ann.revert()
    assert ann.world.steps == []


def test_a_server_that_is_down_stays_down_and_nobody_is_asked() -> None:
    operator = patched(running=False)
    done = operator.revert()
    assert (done.status, done.live) == ("reverted", "down")
    assert operator.world.steps == ["write revert"]
    assert operator.world.running is None and operator.world.disk == PRISTINE


def test_without_a_restart_only_the_disk_changes_and_the_next_revert_says_what_runs(ann: Operator) -> None:
    server = ann.world.running
    assert ann.revert(restart=False).live == "old code"
    assert ann.world.steps == ["write revert"] and ann.world.running is server
    again = ann.revert()
    assert again.status == "nothing to revert"
    assert again.notes == ("the running server still runs trial: oeactl restart --host box",)


def test_a_host_without_a_server_is_reverted_on_disk() -> None:
    bare = Operator(World(running=False), server=False)
    bare.patch()
    assert bare.revert().live == "no server"
    assert bare.revert().status == "nothing to revert"


def test_a_foreign_edit_is_refused_with_the_difference_and_force_keeps_a_copy(ann: Operator) -> None:
    ann.world.edit(b"x = 2\n")
    with pytest.raises(Refused, match="someone else changed this file") as refused:
        ann.revert()
    assert "--force" in (refused.value.hint or "")
    assert any("x = 2" in line for line in refused.value.details)
    assert ann.world.steps == []
    assert ann.revert(force=True).status == "reverted"
    assert "kept a copy" in ann.world.asked
    assert ann.world.disk == PRISTINE


def test_an_upgraded_engine_closes_the_record_and_nothing_else(ann: Operator) -> None:
    newer = b"x = 3\n"
    ann.world.edit(newer, record_sha256=sha256(newer))
    server = ann.world.running
    done = ann.revert()
    assert (done.status, done.recipes) == ("gone by upgrade", ("trial",))
    assert done.notes == ("the running server still runs trial: oeactl restart --host box",)
    assert ann.world.steps == ["write revert"]
    assert (ann.world.disk, ann.world.running, ann.world.journal.layers) == (newer, server, ())
    assert ann.restored == 1


def test_originals_that_somebody_put_back_close_the_record(ann: Operator) -> None:
    ann.world.edit(PRISTINE)
    done = ann.revert()
    assert (done.status, done.recipes) == ("nothing to revert", ("trial",))
    assert "the journal's record is closed" in done.notes
    assert ann.world.journal.layers == ()


def test_a_cut_short_change_is_put_in_order_first_and_told(ann: Operator) -> None:
    ann.world.note(pending=pending("revert"))
    ann.revert()
    assert ann.world.steps[0] == "recover"
    assert ann.told.notes == ["undid the revert that was cut short"]


def test_force_goes_over_a_file_that_stops_the_recovery(ann: Operator) -> None:
    ann.world.note(pending=pending())
    ann.world.meets("recover", Refused("somebody changed a file since", where="box:/x"))
    with pytest.raises(Refused):
        ann.revert()
    assert ann.revert(force=True).status == "reverted"
    assert "recover --force" in ann.world.steps


def test_a_server_that_does_not_come_up_is_exit_7_with_its_last_words_and_the_originals_stay(
    ann: Operator,
) -> None:
    ann.world.breaks = lambda layers: True
    with pytest.raises(Degraded, match="the original files are in place, and the server does not") as left:
        ann.revert()
    assert left.value.details[-1] == "first error: ValueError: patched badly"
    assert left.value.hint == "oeactl logs --host box; then oeactl start --host box"
    assert ann.world.disk == PRISTINE and ann.world.journal.lease is None
    assert ann.restored == 1  # the record here must not call it patched


@pytest.mark.parametrize("step", ["stop", "start", "ready", "complete"])
@pytest.mark.parametrize("late", [False, True])
def test_a_ctrl_c_after_the_write_leaves_the_originals_and_says_what_is_left_to_do(
    ann: Operator, step: str, late: bool
) -> None:
    ann.world.meets(step, After(CTRL_C) if late else CTRL_C)
    with pytest.raises(Interrupted, match="the original bytes are back") as ended:
        ann.revert()
    assert (ended.value.exit_code, ended.value.hint) == (130, "oeactl restart --host box")
    assert ann.world.disk == PRISTINE and ann.world.journal.lease is None
    assert ann.restored == 1


@pytest.mark.parametrize("late", [False, True])
def test_a_ctrl_c_during_the_write_is_all_or_none(ann: Operator, late: bool) -> None:
    ann.world.meets("write", After(CTRL_C) if late else CTRL_C)
    with pytest.raises(Interrupted, match="all of them are, or none") as ended:
        ann.revert()
    assert ended.value.hint == "oeactl revert --host box"
    assert ann.world.journal.lease is None
    ann.revert()
    assert ann.world.disk == PRISTINE


@pytest.mark.parametrize("step", ["write", "stop", "start", "ready", "complete"])
@pytest.mark.parametrize("late", [False, True])
def test_a_lost_connection_is_exit_7_and_the_same_command_goes_on(
    ann: Operator, step: str, late: bool
) -> None:
    ann.world.meets(step, After(LOST) if late else LOST)
    with pytest.raises(ConnectionLost) as lost:
        ann.revert()
    assert lost.value.exit_code == 7
    assert ann.world.journal.lease is None
    ann.revert()
    assert ann.world.disk == PRISTINE and ann.world.journal == msgspec.structs.replace(
        ann.world.journal, layers=(), files=(), lease=None, pending=None
    )
