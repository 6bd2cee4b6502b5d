"""Taking off needs the journal alone, gives the exact bytes back, and knows what it found instead."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.core.host import Survey
from oeactl.core.plan import Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.revert import GoneByUpgrade, NothingToRevert, Reverting, plan_revert
from tests.support.recipes import MODULE, bound_of
from tests.support.surveys import HOLDER, after_write, sha256, survey_of

TEXT = b"x = 1\r\ny = 2"
EDIT = "- {id: note, op: insert_after, at: {statement: x = 1}, code: z = OEACTL.size}\n"


@pytest.fixture
def patched() -> Survey:
    survey = survey_of({MODULE: TEXT})
    made = make_plan(bound_of(EDIT), survey, operation="op", applied_at="", applied_by=HOLDER)
    assert isinstance(made, Planned)
    return after_write(survey, {file.path: file.after for file in made.files}, made.layers_after)


def holding(survey: Survey, data: bytes, **changes: object) -> Survey:
    state = msgspec.structs.replace(survey.files[0], data=data, sha256=sha256(data), **changes)
    return msgspec.structs.replace(survey, files=(state,))


def test_our_patch_gives_the_exact_original(patched: Survey) -> None:
    back = plan_revert(patched, recipe=None, force=False)
    assert isinstance(back, Reverting)
    (write,) = back.writes()
    assert (write.after, write.after_sha256, write.pristine_sha256) == (TEXT, sha256(TEXT), sha256(TEXT))
    assert (back.recipes, back.layers_after, back.forced) == (("trial",), (), False)


def test_twice_is_a_success_that_changes_nothing(patched: Survey) -> None:
    back = plan_revert(after_write(patched, {patched.files[0].path: TEXT}, ()), recipe=None, force=False)
    assert back == NothingToRevert()


def test_another_recipe_than_the_one_that_is_on_changes_nothing(patched: Survey) -> None:
    back = plan_revert(patched, recipe="other", force=False)
    assert isinstance(back, NothingToRevert) and not back.closes
    assert back.layers_after == patched.journal.layers


def test_the_original_found_in_place_closes_the_record(patched: Survey) -> None:
    back = plan_revert(holding(patched, TEXT), recipe=None, force=False)
    assert isinstance(back, NothingToRevert) and back.closes


def test_another_releases_own_file_is_gone_by_upgrade(patched: Survey) -> None:
    newer = b"x = 3\n"
    back = plan_revert(holding(patched, newer, record_sha256=sha256(newer)), recipe=None, force=False)
    assert back == GoneByUpgrade(recipes=("trial",), modules=(MODULE,), layers_after=())
    gone = msgspec.structs.replace(patched.files[0], missing=True, data=None)
    back = plan_revert(msgspec.structs.replace(patched, files=(gone,)), recipe=None, force=False)
    assert isinstance(back, GoneByUpgrade)


def test_a_foreign_edit_is_refused_with_the_difference_and_goes_when_forced(patched: Survey) -> None:
    data = (patched.files[0].data or b"") + b"\r\nforeign = 1\r\n"
    refusal = plan_revert(holding(patched, data), recipe=None, force=False)
    assert isinstance(refusal, Refusal)
    (reason,) = refusal.reasons
    assert reason.kind == "foreign" and "+foreign = 1" in (reason.diff or "")
    assert any("+foreign = 1" in line for line in refusal.error().details)
    forced = plan_revert(holding(patched, data), recipe=None, force=True)
    assert isinstance(forced, Reverting) and forced.forced
    assert (forced.files[0].before_sha256, forced.files[0].after) == (sha256(data), TEXT)


def test_marks_without_a_record_are_not_called_reverted(patched: Survey) -> None:
    stray = survey_of({MODULE: patched.files[0].data or b""})
    refusal = plan_revert(stray, recipe=None, force=False)
    assert isinstance(refusal, Refusal) and refusal.reasons[0].kind == "damaged"


def test_a_file_that_cannot_be_read_is_refused_even_when_forced(patched: Survey) -> None:
    state = msgspec.structs.replace(patched.files[0], data=None, sha256="", problem="Permission denied")
    for force in (False, True):
        refusal = plan_revert(msgspec.structs.replace(patched, files=(state,)), recipe=None, force=force)
        assert isinstance(refusal, Refusal) and refusal.reasons[0].what == "Permission denied"


def without_backup(survey: Survey) -> Survey:
    records = tuple(msgspec.structs.replace(record, pristine=None) for record in survey.journal.files)
    return msgspec.structs.replace(survey, journal=msgspec.structs.replace(survey.journal, files=records))


@pytest.mark.parametrize("force", [False, True])
def test_a_lost_backup_is_refused_with_the_remedy_and_nothing_is_made_up(
    patched: Survey, force: bool
) -> None:
    back = plan_revert(without_backup(patched), recipe=None, force=force)
    assert isinstance(back, Refusal)
    (reason,) = back.reasons
    assert "the backup of the original is gone" in reason.what
    assert "reinstall the engine" in (reason.hint or "")
    again = make_plan(
        bound_of(EDIT, size="5"), without_backup(patched), operation="op", applied_at="", applied_by=HOLDER
    )
    assert isinstance(again, Refusal)


def test_a_lost_backup_does_not_matter_once_the_file_is_an_original(patched: Survey) -> None:
    restored = plan_revert(without_backup(holding(patched, TEXT)), recipe=None, force=False)
    assert isinstance(restored, NothingToRevert) and restored.closes
    newer = b"x = 3\n"
    upgraded = holding(patched, newer, record_sha256=sha256(newer))
    assert isinstance(plan_revert(without_backup(upgraded), recipe=None, force=False), GoneByUpgrade)


def test_a_survey_without_the_journals_files_is_a_fault_of_the_caller(patched: Survey) -> None:
    with pytest.raises(ValueError, match="lacks"):
        plan_revert(msgspec.structs.replace(patched, files=()), recipe=None, force=False)
