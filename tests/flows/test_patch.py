"""patch: nothing before the yes, all or none after it, and whatever goes wrong is put back and said."""

from __future__ import annotations

import pytest

from oeactl.core.host import Holder, Process
from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Interrupted,
    Locked,
    Refused,
    RolledBack,
    Unreachable,
    UsageError,
)
from tests.support.site_world import (
    HOLDER,
    OTHER,
    PRISTINE,
    After,
    Operator,
    Running,
    World,
    another_recipe,
    held,
    pending,
)

CTRL_C = KeyboardInterrupt()
LOST = ConnectionLost("the connection ended before the command did", where="box")


@pytest.fixture
def ann() -> Operator:
    return Operator(World())


@pytest.fixture
def down() -> Operator:
    return Operator(World(running=False))


def as_it_was(operator: Operator, *, running: bool = True) -> None:
    """The original bytes, no record, no lease, and a server with the old code where there was one."""
    world = operator.world
    assert world.disk == PRISTINE
    assert (world.journal.layers, world.journal.files, world.journal.lease) == ((), (), None)
    assert (world.running is not None) == running
    if world.running is not None:
        assert world.running.layers == () and world.running.listens


def untouched(operator: Operator, was: Running | None) -> None:
    """Nothing was written, nothing stopped: the very same server runs."""
    as_it_was(operator, running=was is not None)
    assert operator.world.running is was


# What is asked, and before what


def test_a_running_server_is_asked_about_then_all_is_written_restarted_proven_and_the_lease_ended(
    ann: Operator,
) -> None:
    done = ann.patch()
    assert ann.world.steps == [
        "ask: Stop the server that oeactl started (pid 110) on box and start it patched?",
        *("write patch", "stop", "start", "ready", "complete"),
    ]
    assert ann.world.asked[:2] == ["survey", "state"] and ann.world.asked[-1] == "settle"
    assert (done.status, done.live, [one.overall for one in done.verdicts]) == (
        "patched",
        "restarted",
        ["taken"],
    )
    assert ann.world.journal.lease is None
    assert ann.world.running is not None and ann.world.running.layers == done.plan.layers_after  # type: ignore[union-attr]
    assert "one hard link" in done.notes


def test_a_dry_run_shows_the_plan_asks_nothing_and_writes_nothing(ann: Operator) -> None:
    was = ann.world.running
    done = ann.patch(dry_run=True)
    assert ann.world.asked == ["survey", "state", "check"]
    untouched(ann, was)
    assert len(ann.shown) == 1
    assert (done.status, done.live) == ("dry-run", "unchanged")
    assert done.notes[-1] == "would restart the server that oeactl started (pid 110)"


@pytest.mark.parametrize(
    ("server", "restart", "note"),
    [
        (True, True, "would start the server"),
        (True, False, "would not touch the server"),
        (False, True, "there is no server to restart"),
    ],
)
def test_a_dry_run_says_what_would_become_of_the_server(server: bool, restart: bool, note: str) -> None:
    operator = Operator(World(running=False), server=server)
    assert operator.patch(dry_run=True, restart=restart).notes[-1] == note


def test_a_dry_run_on_a_half_done_change_is_exit_7_and_mends_nothing(ann: Operator) -> None:
    ann.world.note(pending=pending())
    with pytest.raises(Degraded, match=r"patch of 2026-11-29.* was cut short"):
        ann.patch(dry_run=True)
    assert ann.world.asked == ["survey"]
    ann.world.note(pending=pending("clear"))  # only an empty folder is left over
    assert ann.patch(dry_run=True).status == "dry-run"


def test_where_nobody_can_be_asked_it_is_exit_2_and_nothing_is_written(ann: Operator) -> None:
    was, ann.world.answer = ann.world.running, None
    with pytest.raises(UsageError) as refused:
        ann.patch()
    assert refused.value.hint == "--yes"
    untouched(ann, was)
    assert len(ann.world.steps) == 1


def test_a_no_changes_nothing(ann: Operator) -> None:
    was, ann.world.answer = ann.world.running, False
    with pytest.raises(Interrupted, match="nothing was changed"):
        ann.patch()
    untouched(ann, was)
    assert len(ann.world.steps) == 1


def test_a_server_that_oeactl_did_not_start_is_asked_about_as_such_and_stopped(down: Operator) -> None:
    down.world.running = down.world.begin(ours=False)
    down.patch()
    question = next(line for line in down.world.asked if line.startswith("ask"))
    assert "a server that oeactl did not start (pid 110, python -m sglang.launch_server)" in question
    assert "stop foreign" in down.world.asked


def test_two_servers_on_one_port_are_refused_before_anything_is_asked_or_written(ann: Operator) -> None:
    ann.world.intruder = Process(pid=900, start_ticks=1, boot_id="b", title="vllm serve")
    with pytest.raises(Refused, match=r"two servers .*pid 110.*pid 900, vllm serve"):
        ann.patch()
    assert ann.world.steps == []


@pytest.mark.parametrize(("size", "message"), [("0", "at least 1"), ("x", "must be int")])
def test_a_wrong_value_is_said_before_the_host_is_looked_at(ann: Operator, size: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ann.patch(size)  # type: ignore[arg-type]
    assert ann.world.asked == []


# What is there already


def test_twice_is_once(ann: Operator) -> None:
    ann.patch()
    server, bytes_ = ann.world.running, ann.world.disk
    ann.world.asked.clear()
    again = ann.patch()
    assert (again.status, again.live, again.notes) == ("already applied", "unchanged", ())
    assert ann.world.asked == ["survey", "state"]
    assert (ann.world.running, ann.world.disk) == (server, bytes_)


def test_applied_already_says_when_the_server_does_not_run_it(ann: Operator) -> None:
    ann.patch(restart=False)
    again = ann.patch()
    assert again.status == "already applied"
    assert again.notes == (
        "trial is not active: the worker showed no patched code: "
        "the server was started before the patch: oeactl restart",
    )
    ann.world.running = None
    assert ann.patch().notes == ("no server runs: oeactl start --host box",)


def test_other_parameters_are_changed_in_place_and_taken_back_to_the_ones_before(ann: Operator) -> None:
    ann.patch(4)
    four = ann.world.disk
    assert ann.patch(5).status == "patched"
    assert ann.world.disk != four
    assert [layer.parameters for layer in ann.world.journal.layers] == [{"size": 5}]
    five = ann.world.disk
    ann.world.breaks = lambda layers: any(layer.parameters == {"size": 6} for layer in layers)
    with pytest.raises(RolledBack) as failed:
        ann.patch(6)
    assert "the files are as they were" in failed.value.what
    assert ann.world.disk == five
    assert [layer.parameters for layer in ann.world.journal.layers] == [{"size": 5}]
    assert ann.world.running is not None and ann.world.running.layers == ann.world.journal.layers


def test_a_second_recipe_is_put_on_top_and_both_are_proven(ann: Operator) -> None:
    ann.patch()
    done = ann.patch(recipe=another_recipe())
    assert [one.recipe for one in done.verdicts] == ["trial", "other"]
    assert all(one.proven for one in done.verdicts)


def test_a_cut_short_change_is_put_in_order_first_and_told(ann: Operator) -> None:
    ann.world.note(pending=pending())
    assert ann.patch().status == "patched"
    assert ann.world.asked[:3] == ["survey", "recover", "survey"]
    assert ann.told.notes == ["undid the patch that was cut short"]


def test_somebody_elses_lease_is_exit_5_before_anything_is_asked_or_written(ann: Operator) -> None:
    was = ann.world.running
    held(ann)
    with pytest.raises(Locked, match="bob@desk is at work on this engine: bench") as locked:
        ann.patch()
    assert "2026-11-30 02:14:00 UTC" in locked.value.details[0]
    assert ann.world.asked == ["survey"]
    assert ann.world.running is was and ann.world.disk == PRISTINE
    assert ann.shown == []


def test_a_lease_taken_meanwhile_is_exit_5_and_stays_theirs(ann: Operator) -> None:
    was = ann.world.running
    ann.world.meets("write", Locked("bob is at work", where="box"))
    with pytest.raises(Locked):
        ann.patch()
    untouched(ann, was)


def test_the_lease_of_a_command_of_ones_own_that_was_killed_does_not_lock_one_out(ann: Operator) -> None:
    held(ann, Holder(user=HOLDER.user, host=HOLDER.host, pid=4), "patch trial")
    assert ann.patch().status == "patched"
    assert ann.told.notes == ["ended the lease of your patch trial, which no longer runs"]
    ann.world.alive.add(5)
    held(ann, Holder(user=HOLDER.user, host=HOLDER.host, pid=5), "bench")
    with pytest.raises(Locked):
        ann.patch(5)


# The server


def test_a_server_that_is_down_is_started_and_proven_without_a_question(down: Operator) -> None:
    done = down.patch()
    assert (done.live, [one.overall for one in done.verdicts]) == ("started", ["taken"])
    assert not [line for line in down.world.asked if line.startswith(("ask", "stop"))]


def test_without_a_restart_it_is_on_disk_only_and_this_is_said(ann: Operator) -> None:
    was = ann.world.running
    done = ann.patch(restart=False)
    assert (done.status, done.live, done.verdicts) == ("patched", "old code", ())
    assert "the import probe was skipped: it runs before a restart" in done.notes
    assert ann.world.asked == ["survey", "write patch"]
    assert ann.world.running is was and ann.world.journal.lease is None


def test_a_host_without_a_server_is_patched_on_disk() -> None:
    bare = Operator(World(running=False), server=False)
    assert bare.patch().live == "no server"
    assert bare.world.journal.layers


def test_a_captured_branch_counts_as_proven_and_is_named(ann: Operator) -> None:
    ann.world.shows = "capture"
    (verdict,) = ann.patch().verdicts
    assert verdict.proven and verdict.overall == "captured"
    assert "captured the patched branch into its CUDA graphs" in verdict.summary


def test_a_compiled_branch_is_kept_and_not_measured(ann: Operator) -> None:
    ann.world.shows = "compiled"
    done = ann.patch()
    (verdict,) = done.verdicts
    assert (done.status, verdict.overall, verdict.proven) == ("patched", "compiled", False)
    assert "not measured" in verdict.summary


def test_the_lease_is_renewed_through_a_long_wait(ann: Operator) -> None:
    until: list[float] = []
    ann.world.breaks = lambda layers: until.append(ann.world.journal.lease.until - ann.world.time) or False  # type: ignore[union-attr, func-returns-value]
    ann.patch()  # twenty minutes of loading, longer than the lease
    assert "lease" in ann.world.asked
    assert until[0] > 0


# What goes wrong: put back, and said


def test_a_server_that_does_not_come_up_is_put_back_and_its_last_words_are_shown(ann: Operator) -> None:
    ann.world.breaks = bool
    with pytest.raises(RolledBack) as failed:
        ann.patch()
    as_it_was(ann)
    error = failed.value
    assert error.what == (
        "the server's process ended; the files are as they were, and the server is back and healthy with them"
    )
    assert error.details == (
        "loading",
        "ValueError: patched badly",
        "first error: ValueError: patched badly",
    )
    assert error.hint == "oeactl logs --host box"
    assert ann.world.asked[-1] == "settle"


def test_a_server_that_was_down_is_down_again(down: Operator) -> None:
    down.world.breaks = bool
    with pytest.raises(RolledBack, match="the server is down as it was"):
        down.patch()
    as_it_was(down, running=False)


@pytest.mark.parametrize(
    ("shows", "workers", "said", "hint"),
    [
        (None, True, "the worker showed no patched code", "PYTHONPATH"),
        ("loaded", True, "no decode went through its branch, though it was made to", "flashinfer_trtllm"),
        ("eager", False, "no worker process of the server is to be seen", "oeactl logs --host box"),
    ],
)
def test_a_proof_that_is_absent_bypassed_or_unseen_is_put_back(
    ann: Operator, shows: str | None, workers: bool, said: str, hint: str
) -> None:
    ann.world.shows, ann.world.workers = shows, workers
    with pytest.raises(RolledBack, match=said) as failed:
        ann.patch()
    as_it_was(ann)
    assert failed.value.details[0] == "last words of the log"
    assert hint in (failed.value.hint or "")


def test_completions_that_fail_are_put_back(ann: Operator) -> None:
    ann.world.refuses = bool
    with pytest.raises(RolledBack, match="8 of 8 warm-up completions failed: HTTP 500: no kernel image"):
        ann.patch()
    as_it_was(ann)


def test_a_refused_probe_is_exit_3_and_the_running_server_is_not_touched(ann: Operator) -> None:
    was = ann.world.running
    ann.world.probe = Refused("it does not import", where="box:/x", details=("ImportError",))
    with pytest.raises(Refused, match="does not import") as refused:
        ann.patch()
    assert refused.value.exit_code == 3 and refused.value.details == ("ImportError",)
    untouched(ann, was)
    assert not [line for line in ann.world.asked if line in ("stop", "start")]


def test_a_host_that_cannot_be_reached_for_the_write_is_exit_4_and_nothing_else_is_tried(
    ann: Operator,
) -> None:
    was = ann.world.running
    ann.world.meets("write", Unreachable("nothing listens", where="box"))
    with pytest.raises(Unreachable) as gone:
        ann.patch()
    assert gone.value.exit_code == 4
    assert ann.world.asked[-1] == "write patch"
    untouched(ann, was)


@pytest.mark.parametrize("cut", [LOST, After(LOST)])
def test_a_connection_lost_during_the_write_is_settled_by_the_journal(
    ann: Operator, cut: ConnectionLost | After
) -> None:
    was = ann.world.running
    ann.world.meets("write", cut)
    with pytest.raises(RolledBack, match=r"the connection to the host broke; .* the server was not touched"):
        ann.patch()
    untouched(ann, was)


@pytest.mark.parametrize("step", ["stop", "start", "ready", "state", "complete"])
@pytest.mark.parametrize("late", [False, True])
def test_a_connection_lost_later_is_put_back_over_a_new_one(ann: Operator, step: str, late: bool) -> None:
    ann.world.meets(step, *([None] if step == "state" else []), After(LOST) if late else LOST)
    with pytest.raises(RolledBack):
        ann.patch()
    as_it_was(ann)


@pytest.mark.parametrize("step", ["write", "stop", "start", "ready", "complete", "settle"])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("running", [False, True])
def test_a_ctrl_c_at_any_step_puts_everything_back(step: str, late: bool, running: bool) -> None:
    operator = Operator(World(running=running))
    if step == "stop" and not running:
        return
    operator.world.meets(step, After(CTRL_C) if late else CTRL_C)
    with pytest.raises(Interrupted, match="interrupted; the files are as they were") as ended:
        operator.patch()
    assert ended.value.exit_code == 130
    as_it_was(operator, running=running)


@pytest.mark.parametrize("step", ["survey", "state", "ask"])
def test_a_ctrl_c_before_the_write_changes_nothing(ann: Operator, step: str) -> None:
    was = ann.world.running
    ann.world.meets(step, CTRL_C)
    with pytest.raises(KeyboardInterrupt):
        ann.patch()
    untouched(ann, was)
    assert "write patch" not in ann.world.steps


def test_a_ctrl_c_while_the_old_server_is_ending_does_not_take_it_for_well(ann: Operator) -> None:
    """It still listens when one looks, and is gone a moment later."""
    ann.world.meets("stop", CTRL_C)
    with pytest.raises(Interrupted):
        ann.patch()
    assert ann.world.steps[-4:] == ["stop", "start", "ready", "complete"]
    as_it_was(ann)


@pytest.mark.parametrize("step", ["survey", "write", "stop", "start", "ready", "complete"])
@pytest.mark.parametrize("late", [False, True])
def test_a_second_ctrl_c_while_putting_back_does_not_leave_it_half_done(
    ann: Operator, step: str, late: bool
) -> None:
    second = After(CTRL_C) if late else CTRL_C
    if step == "complete":
        ann.world.meets("complete", CTRL_C, second)
    else:
        ann.world.meets("complete", CTRL_C)
        ann.world.meets(step, None, second)
    with pytest.raises(Interrupted):
        ann.patch()
    assert len(ann.told.warnings) == 1 and "Ctrl-C again" in ann.told.warnings[0]
    as_it_was(ann)


def test_a_third_ctrl_c_leaves_it_and_says_how_to_go_on(ann: Operator) -> None:
    ann.world.meets("ready", CTRL_C)
    ann.world.meets("survey", None, CTRL_C, CTRL_C)
    with pytest.raises(Degraded) as left:
        ann.patch()
    assert left.value.exit_code == 7
    assert left.value.what == "interrupted; putting the files back failed too: interrupted"
    assert "  oeactl revert --host box" in left.value.details
    assert any("/state/RESTORE.txt" in line for line in left.value.details)
    assert ann.world.journal.lease is None  # or the commands just named would be locked out


def test_files_that_cannot_be_put_back_are_exit_7_with_the_commands_and_the_first_cause(
    ann: Operator,
) -> None:
    ann.world.breaks = bool
    ann.world.meets("write", None, Refused("somebody changed it", where="box:/x", details=("theirs",)))
    with pytest.raises(Degraded) as left:
        ann.patch()
    assert left.value.what == (
        "the server's process ended; putting the files back failed too: somebody changed it"
    )
    assert left.value.hint == "oeactl revert --host box"
    assert left.value.details[0] == "theirs"
    assert left.value.details[1:4] == (
        "to put the host back by hand:",
        "  oeactl revert --host box",
        "  oeactl start --host box",
    )
    assert ann.world.journal.lease is None


def test_a_server_that_fails_with_the_old_code_too_is_not_blamed_on_the_change(ann: Operator) -> None:
    ann.world.breaks = lambda layers: True
    with pytest.raises(Degraded) as left:
        ann.patch()
    assert "the server does not come up with them either" in left.value.what
    assert "may not be to blame" in left.value.what
    assert left.value.details[:3] == (
        "loading",
        "ValueError: patched badly",
        "first error: ValueError: patched badly",
    )
    assert "  oeactl restart --host box" in left.value.details
    assert ann.world.disk == PRISTINE and ann.world.journal.lease is None


def test_a_host_that_is_gone_while_putting_back_is_exit_7(ann: Operator) -> None:
    gone = Unreachable("nothing listens", where="box")
    ann.world.meets("ready", LOST)
    ann.world.meets("survey", None, gone)
    ann.world.meets("settle", gone)
    with pytest.raises(Degraded, match="putting the files back failed too: nothing listens"):
        ann.patch()
    assert "the lease on box ends by itself" in ann.told.warnings[0]


def test_a_bug_of_ours_in_the_middle_puts_everything_back_too(ann: Operator) -> None:
    ann.world.meets("ready", KeyError("surprise"))
    with pytest.raises(KeyError):
        ann.patch()
    as_it_was(ann)


def test_a_patch_that_is_proven_stands_though_its_lease_could_not_be_ended(ann: Operator) -> None:
    ann.world.meets("settle", LOST)
    assert ann.patch().status == "patched"
    assert "ends by itself" in ann.told.warnings[0]


def test_the_lease_is_long_gone_by_the_time_another_may_come(ann: Operator) -> None:
    ann.patch()
    bob = Operator(ann.world, holder=OTHER)
    assert bob.patch(5).status == "patched"
