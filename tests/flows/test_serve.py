"""start, stop, restart: asked about first, one operator at a time, proven where something is on disk."""

from __future__ import annotations

import pytest

from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Interrupted,
    Locked,
    OeactlError,
    Refused,
    Unreachable,
    UsageError,
)
from tests.support.site_world import After, Operator, World, held, patched, pending

CTRL_C = KeyboardInterrupt()
LOST = ConnectionLost("the connection ended before the command did", where="box")


@pytest.fixture
def ann() -> Operator:
    return Operator(World())


@pytest.fixture
def down() -> Operator:
    return Operator(World(running=False))


def test_start_waits_for_an_answer_and_ends_its_lease(down: Operator) -> None:
    done = down.start()
    assert (done.status, done.seconds, done.verdicts) == ("started", 1200.0, ())
    assert down.world.steps == ["start", "ready", "complete"]
    assert down.world.journal.lease is None


def test_start_proves_what_is_on_disk() -> None:
    operator = patched(running=False)
    (verdict,) = operator.start().verdicts
    assert verdict.overall == "taken"


def test_a_second_start_changes_nothing_and_says_when_it_does_not_answer_yet(ann: Operator) -> None:
    assert ann.start().status == "running already"
    assert ann.world.steps == []
    ann.world.healthy = False
    assert ann.start().notes == ("it does not answer yet (HTTP 503): oeactl logs -f --host box",)


def test_start_on_a_port_that_another_server_holds_is_refused(down: Operator) -> None:
    down.world.running = down.world.begin(ours=False)
    with pytest.raises(Refused):
        down.start()
    assert down.world.running is not None and down.world.journal.lease is None


def test_a_server_that_does_not_come_up_is_exit_4_with_its_last_words(down: Operator) -> None:
    down.world.breaks = lambda layers: True
    with pytest.raises(Unreachable, match="did not come up: the server's process ended") as failed:
        down.start()
    assert failed.value.exit_code == 4
    assert failed.value.details[-1] == "first error: ValueError: patched badly"
    assert failed.value.hint == "oeactl logs --host box"
    assert down.world.journal.lease is None


def test_a_recipe_on_disk_that_is_not_active_is_exit_7_and_the_server_stays() -> None:
    operator = patched(running=False)
    operator.world.shows = "loaded"
    with pytest.raises(Degraded, match="the server is up, and trial is not yet proven") as bypassed:
        operator.start()
    assert "flashinfer_trtllm" in (bypassed.value.hint or "")
    assert operator.world.running is not None


def test_stop_asks_and_stops(ann: Operator) -> None:
    assert ann.stop().status == "stopped"
    assert ann.world.steps == ["ask: Stop the server that oeactl started (pid 110) on box?", "stop"]
    assert ann.world.running is None and ann.world.journal.lease is None


def test_stop_where_nothing_runs_is_a_success_that_asks_nothing(down: Operator) -> None:
    assert down.stop().status == "was not running"
    assert down.world.steps == []


def test_restart_asks_stops_starts_and_proves() -> None:
    operator = patched()
    done = operator.restart()
    assert (done.status, [one.overall for one in done.verdicts]) == ("restarted", ["taken"])
    assert operator.world.steps[0].endswith("(pid 120) on box and start it again?")
    assert operator.world.steps[1:] == ["stop", "start", "ready", "complete"]


def test_restart_of_what_is_down_is_a_start(down: Operator) -> None:
    assert down.restart().status == "started"
    assert down.world.steps == ["start", "ready", "complete"]


@pytest.mark.parametrize("verb", ["stop", "restart"])
@pytest.mark.parametrize("answer", [None, False])
def test_without_a_yes_nothing_is_stopped(ann: Operator, verb: str, answer: bool | None) -> None:
    was, ann.world.answer = ann.world.running, answer
    with pytest.raises(UsageError if answer is None else Interrupted):
        getattr(ann, verb)()
    assert ann.world.running is was and ann.world.journal.lease is None
    assert len(ann.world.steps) == 1


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_while_somebody_benches_or_patches_nothing_is_started_or_stopped(verb: str) -> None:
    operator = Operator(World(running=verb != "start"))
    held(operator)
    with pytest.raises(Locked, match="bob@desk is at work on this engine: bench"):
        getattr(operator, verb)()
    assert operator.world.steps == []


@pytest.mark.parametrize("verb", ["start", "restart"])
def test_a_half_done_change_is_put_in_order_before_it_is_started(verb: str) -> None:
    operator = Operator(World(running=verb != "start"))
    operator.world.note(pending=pending())
    getattr(operator, verb)()
    assert operator.world.steps[0] == "recover"


def test_a_host_that_cannot_be_looked_at_keeps_its_server(ann: Operator) -> None:
    ann.world.meets("survey", UsageError("there is no sglang here"))
    with pytest.raises(UsageError):
        ann.restart()
    assert ann.world.steps == []


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
@pytest.mark.parametrize("error", [CTRL_C, After(CTRL_C), LOST, After(LOST)])
@pytest.mark.parametrize("step", ["stop", "start", "ready", "complete"])
def test_however_it_is_cut_short_no_lease_is_left(verb: str, error: BaseException | After, step: str) -> None:
    operator = Operator(World(running=verb != "start"))
    if step not in {"start": "start ready complete", "stop": "stop"}.get(verb, step).split():
        return
    operator.world.meets(step, error)
    with pytest.raises(OeactlError) as ended:
        getattr(operator, verb)()
    assert ended.value.exit_code in (130, 7)
    if isinstance(ended.value, Interrupted):
        assert ended.value.hint == "oeactl status --host box; oeactl stop --host box"
    assert operator.world.journal.lease is None


def test_a_host_without_a_server_entry_is_a_usage_error() -> None:
    bare = Operator(World(running=False), server=False)
    for verb in (bare.start, bare.stop, bare.restart):
        with pytest.raises(UsageError, match=r"no server in hosts\.yaml") as refused:
            verb()
        assert refused.value.hint == "add hosts.box.server"


@pytest.mark.parametrize("command", ["restart", "patch", "dry run", "revert"])
def test_a_mistake_in_hosts_yaml_is_found_before_anything_is_asked_written_or_stopped(command: str) -> None:
    operator = patched() if command == "revert" else Operator(World())
    was, disk = operator.world.running, operator.world.disk
    mistake = UsageError("the folder /nowhere does not exist", hint="correct server.cwd in hosts.yaml")
    operator.world.meets("check", mistake)
    with pytest.raises(UsageError, match="could not be started again, so nothing was touched") as failed:
        {
            "restart": operator.restart,
            "patch": operator.patch,
            "dry run": lambda: operator.patch(dry_run=True),
            "revert": operator.revert,
        }[command]()
    assert operator.world.steps == []
    assert operator.world.running is was and operator.world.disk == disk
    assert operator.world.journal.lease is None
    assert ("--no-restart" in (failed.value.hint or "")) is (command == "revert")


def test_files_are_reverted_whatever_the_server_needs_where_none_is_restarted() -> None:
    for operator in (patched(), patched(running=False)):
        operator.world.meets("check", UsageError("no"))
        assert operator.revert(restart=operator.world.running is None).status == "reverted"
