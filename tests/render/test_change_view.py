"""What a person reads of a patch, a revert, a server and a status; what a program does."""

from __future__ import annotations

import json

import msgspec
import pytest

from oeactl.core.outcomes import OnRecord
from oeactl.render.change import (
    named,
    patched_document,
    patched_lines,
    planned_lines,
    reverted_document,
    reverted_lines,
    served_lines,
)
from oeactl.render.status import status_document, status_lines
from tests.support.site_world import PATH, Operator, World, another_recipe, held, patched

ELSEWHERE = OnRecord(
    host="lab",
    address="10.0.0.2",
    project="/home/ann/oea",
    recipe="oea",
    digest="d" * 64,
    at="2026-11-29T08:00:00+00:00",
)


@pytest.fixture
def ann() -> Operator:
    return Operator(World())


def test_a_dry_run_shows_both_hashes_the_difference_and_what_would_restart(ann: Operator) -> None:
    done = ann.patch(dry_run=True)
    (plan,) = ann.shown
    shown = planned_lines(plan, ann.world.survey, whole=True).plain
    for words in ("trial r1", "size=4", "+3 -0", PATH, "+y = 4", *(f.after_sha256 for f in plan.files)):
        assert words in shown
    assert "@@" not in planned_lines(plan, ann.world.survey, whole=False).plain
    assert "git commit" not in shown
    fork = msgspec.structs.replace(
        ann.world.survey.engine, version="0.0.0", git_commit="c" * 40, git_dirty_sha256="d" * 64
    )
    told = planned_lines(plan, msgspec.structs.replace(ann.world.survey, engine=fork), whole=False).plain
    assert f"git commit {'c' * 40}, with local changes dddddddddddd" in told
    said = patched_lines(done, "box").splitlines()
    assert said[0] == "dry run on box: nothing was written"
    assert said[-1] == "  note: would restart the server that oeactl started (pid 110)"


def test_what_a_recipe_adds_to_the_launch_is_shown(ann: Operator) -> None:
    ann.patch(dry_run=True)
    (plan,) = ann.shown
    layer = msgspec.structs.replace(plan.layer, args=("--max", "8"), env={"A": "b [c]"}, parameters={})
    told = planned_lines(
        msgspec.structs.replace(plan, layer=layer, parameters={}), ann.world.survey, whole=False
    ).plain.splitlines()
    assert told[1] == f"trial r1  plan {plan.digest[:12]}"
    assert told[-1] == "  the server is started with --max 8 'A=b [c]'"
    assert named(layer) == "trial" and named(plan.layer) == "trial (size=4)"


def test_a_patch_says_what_is_on_disk_what_became_of_the_server_and_the_proof(ann: Operator) -> None:
    said = patched_lines(ann.patch(), "box").splitlines()
    assert said[:4] == [
        "patched box: trial r1 (size=4)",
        "  server restarted",
        "  proof: trial is active: the worker went through the patched branch in decode",
        "    tp0 (pid 121) went through the patched branch in decode",
    ]
    again = patched_lines(ann.patch(), "box").splitlines()
    assert again[0] == "already applied on box: trial r1 (size=4); nothing was written"
    assert again[1].startswith("  proof: trial is active")


def test_a_compiled_branch_is_called_not_measured(ann: Operator) -> None:
    ann.world.shows = "compiled"
    assert "  not measured: trial is compiled in" in patched_lines(ann.patch(), "box")


def test_on_disk_only_names_the_next_command(ann: Operator) -> None:
    said = patched_lines(ann.patch(restart=False), "box")
    assert "a running server still runs the old code; oeactl restart --host box" in said
    said = reverted_lines(ann.revert(restart=False), "box", ())
    assert "a running server keeps the patched code; oeactl restart --host box" in said


def test_a_revert_ends_with_the_other_hosts_that_are_still_patched() -> None:
    said = reverted_lines(patched().revert(), "box", [ELSEWHERE]).splitlines()
    assert said[:3] == [
        "reverted box: trial; the original bytes are back",
        f"  {PATH}",
        "  server restarted, and it answers",
    ]
    assert said[-2:] == [
        "still patched, by the record here:",
        "  lab: oea, since 2026-11-29T08:00:00+00:00 (/home/ann/oea)",
    ]


def test_nothing_to_revert_says_why() -> None:
    operator = patched()
    assert reverted_lines(operator.revert("other"), "box", ()).splitlines() == [
        "nothing to revert on box: that recipe is not on it",
        "  stays applied: trial (size=4)",
    ]
    operator.revert()
    assert reverted_lines(operator.revert(), "box", ()) == (
        "nothing to revert on box: every file is the original"
    )


def test_one_of_two_recipes_names_the_one_that_stays_and_its_proof() -> None:
    operator = patched()
    operator.patch(recipe=another_recipe())
    said = reverted_lines(operator.revert("trial"), "box", ())
    assert said.splitlines()[0] == "reverted box: trial", "and its file is not the original: another is on it"
    assert "stays applied: other (size=4)" in said and "proof: other is active" in said


def test_a_server_says_its_pid_how_long_it_took_and_what_is_worth_a_note(ann: Operator) -> None:
    assert served_lines(ann.restart(), "box") == "restarted on box, pid 120; it answered after 1200 s"
    ann.world.healthy = False
    assert served_lines(ann.start(), "box").splitlines()[1].startswith("  note: it does not answer yet")
    ann.stop()
    assert served_lines(ann.stop(), "box") == "was not running on box"


def test_a_status_that_agrees_says_so_last_and_one_that_does_not_ends_with_what_to_do() -> None:
    operator = patched()
    held(operator)
    well = status_lines(operator.status()).plain.splitlines()
    assert well[-1].split() == ["so", "disk,", "journal", "and", "live", "agree"]
    assert any("bench by bob@desk (pid 7)" in line for line in well)
    operator.world.running = None
    troubled = status_lines(operator.status()).plain.splitlines()
    assert troubled[-1].strip() == "→ oeactl start --host box, or oeactl revert --host box"


def test_documents_are_json_and_hold_no_file_contents() -> None:
    operator = patched()
    documents = [
        patched_document(operator.patch(5)),
        status_document(operator.status()),
        reverted_document(operator.revert(), [ELSEWHERE]),
    ]
    for document in documents:
        text = msgspec.json.encode(document)
        assert json.loads(text)
        assert b"ZGVmIGYo" not in text  # def f( in base64
    assert documents[0]["files"][0]["before_sha256"] != documents[0]["files"][0]["pristine_sha256"]
