"""status: disk, journal and live tell one story (0), or they do not and each trouble has its remedy (7)."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.core.host import Process
from oeactl.core.outcomes import Status
from tests.support.site_world import (
    MODULE,
    PRISTINE,
    Operator,
    World,
    another_recipe,
    held,
    patched,
    pending,
)
from tests.support.surveys import file_state, sha256


@pytest.fixture
def ann() -> Operator:
    """A host that is patched, its server running and proven."""
    return patched()


def trouble(status: Status) -> tuple[str, str]:
    """The only one."""
    assert not status.agrees
    (one,) = status.troubles
    return one.what, one.remedy


def states(status: Status) -> list[str]:
    return [file.state for file in status.files]


def test_a_pristine_host_agrees_with_its_server_up_or_down() -> None:
    for running in (True, False):
        status = Operator(World(running=running)).status()
        assert status.agrees and states(status) == ["pristine"]


def test_a_patched_and_proven_host_agrees(ann: Operator) -> None:
    status = ann.status()
    assert status.agrees and states(status) == ["patched"]
    assert [one.overall for one in status.verdicts] == ["taken"]


def test_it_only_looks_and_asks_for_health_once(ann: Operator) -> None:
    ann.status()
    assert ann.world.asked == ["survey", "health"]


def test_captured_agrees_and_compiled_agrees_with_a_note(ann: Operator) -> None:
    ann.world.shows = "capture"
    ann.world.show()
    assert ann.status().agrees
    ann.world.shows = "compiled"
    ann.world.show()
    status = ann.status()
    assert status.agrees
    assert "not measured" in status.notes[0] and "oeactl bench" in status.notes[0]


def test_patched_and_no_decode_yet_is_not_yet_proven(ann: Operator) -> None:
    ann.world.shows = "loaded"
    ann.world.show()
    what, remedy = trouble(ann.status())
    assert what.startswith("trial is not yet proven: the worker loaded the patched file")
    assert "decode traffic" in remedy


def test_patched_after_the_server_started_is_told_to_restart() -> None:
    operator = Operator(World())
    operator.patch(restart=False)
    what, remedy = trouble(operator.status())
    assert what == "trial is not active: the worker showed no patched code"
    assert remedy == "the server was started before the patch: oeactl restart"


def test_no_worker_to_be_seen_is_not_proven(ann: Operator) -> None:
    ann.world.workers = False
    status = ann.status()
    assert [one.overall for one in status.verdicts] == ["unseen"]
    assert "no worker process" in trouble(status)[0]


def test_patched_and_down(ann: Operator) -> None:
    ann.world.running = None
    assert trouble(ann.status()) == (
        "trial is on disk and no server runs",
        "oeactl start --host box, or oeactl revert --host box",
    )


def test_pristine_files_and_a_server_that_still_runs_the_patch(ann: Operator) -> None:
    ann.revert(restart=False)
    assert trouble(ann.status()) == (
        "trial is not on disk, and the running server still runs it",
        "oeactl restart --host box",
    )


def test_one_recipe_reverted_and_still_running_beside_one_that_stays(ann: Operator) -> None:
    ann.patch(recipe=another_recipe())
    ann.revert("trial", restart=False)
    assert trouble(ann.status())[0] == "trial is not on disk, and the running server still runs it"


def test_a_server_that_is_not_well(ann: Operator) -> None:
    ann.world.healthy = False
    what, remedy = trouble(ann.status())
    assert what == "the server is not well: HTTP 503"
    assert "oeactl logs" in remedy


def test_a_server_that_loads_is_waited_for_and_not_told_to_be_restarted_at_once(ann: Operator) -> None:
    ann.world.running = ann.world.begin(listens=False)
    what, remedy = trouble(ann.status())
    assert "does not listen yet" in what
    assert remedy.startswith("oeactl logs --host box -f")


def test_another_server_on_the_port(ann: Operator) -> None:
    ann.world.intruder = Process(pid=900, start_ticks=1, boot_id="b", title="vllm serve")
    assert "another server holds the port" in trouble(ann.status())[0]


def test_a_foreign_edit(ann: Operator) -> None:
    ann.world.edit(b"x = 2\n")
    status = ann.status()
    assert states(status) == ["foreign edit"]
    assert "someone else changed this file" in trouble(status)[0]
    assert "--force" in trouble(status)[1]


def test_originals_put_back_by_hand(ann: Operator) -> None:
    ann.world.edit(PRISTINE)
    status = ann.status()
    assert states(status) == ["original"]
    assert "is the original again, and the journal says patched" in trouble(status)[0]


def test_an_upgraded_engine_is_not_called_a_foreign_edit(ann: Operator) -> None:
    ann.world.edit(b"x = 3\n", record_sha256=sha256(b"x = 3\n"))
    status = ann.status()
    assert states(status) == ["upgraded"]
    assert "the engine was upgraded" in trouble(status)[0]
    assert "--force" not in trouble(status)[1]


def test_a_file_that_is_gone(ann: Operator) -> None:
    (file,) = ann.world.survey.files
    gone = msgspec.structs.replace(file, missing=True, data=None)
    ann.world.survey = msgspec.structs.replace(ann.world.survey, files=(gone,))
    assert states(ann.status()) == ["missing"]
    assert "is gone, and the journal says patched" in trouble(ann.status())[0]


def test_a_lost_backup_is_told_before_it_is_needed(ann: Operator) -> None:
    (record,) = ann.world.journal.files
    ann.world.note(files=(msgspec.structs.replace(record, pristine=None),))
    what, remedy = trouble(ann.status())
    assert what.endswith("the backup of the original is gone or damaged")
    assert "reinstall the engine" in remedy


def test_our_marks_without_a_record_are_not_called_pristine(ann: Operator) -> None:
    ann.world.note(layers=(), files=())
    ann.world.running = None
    status = ann.status()
    assert states(status) == ["damaged"]
    assert "no record of them" in trouble(status)[0]


def test_somebody_elses_change_of_a_release_s_file_is_shown_and_no_trouble() -> None:
    operator = Operator(World())
    operator.world.edit(PRISTINE + b"# ours\n", record_sha256=sha256(PRISTINE))
    status = operator.status()
    assert status.agrees and states(status) == ["modified, not by oeactl"]


def test_a_module_that_this_engine_does_not_have_is_no_trouble() -> None:
    operator = Operator(World())
    missing = msgspec.structs.replace(file_state(MODULE, b""), missing=True, data=None)
    operator.world.survey = msgspec.structs.replace(operator.world.survey, files=(missing,))
    status = operator.status()
    assert status.agrees and status.files == ()


def test_a_change_that_was_cut_short_and_a_leftover_folder_that_is_nothing(ann: Operator) -> None:
    ann.world.note(pending=pending())
    what, remedy = trouble(ann.status())
    assert what == "a patch of 2026-11-29T00:00:00+00:00 was cut short"
    assert remedy.startswith("oeactl revert --host box")
    ann.world.note(pending=pending("clear"))
    assert ann.status().agrees


def test_troubles_while_somebody_is_at_work_say_so(ann: Operator) -> None:
    held(ann, what="patch other")
    assert ann.status().notes == ()
    ann.world.running = None
    assert ann.status().notes == ("bob@desk is at work here (patch other): this may be on its way",)


def test_a_host_without_a_server_is_judged_by_its_disk() -> None:
    bare = Operator(World(running=False), server=False)
    bare.patch()
    status = bare.status()
    assert status.agrees and status.server is None and status.verdicts == ()
