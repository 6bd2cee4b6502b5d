"""A server that its owner starts and stops by commands: found by its port, never taken for an older one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.core.host import Process
from oeactl.edges.servers.commands import CommandsServer
from oeactl.errors import Refused
from oeactl.ports import Failed, Ready
from tests.support.serving import STANDIN, Standin, Told, agent, free_port


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[Standin]:
    one = Standin(tmp_path, free_port())
    one.log.parent.mkdir()
    yield one
    one.clear()


def server(
    standin: Standin, *args: str, stop: str = "kill $(cat pid)", status: str = "", **more: Any
) -> CommandsServer:
    run = shlex.join([sys.executable, str(STANDIN), "--port", str(standin.port), *args])
    start = f"{run} >> {standin.log} 2>&1 & echo $! > pid"
    fields: dict[str, Any] = {
        "start": ("sh", "-c", start),
        "stop": ("sh", "-c", stop),
        "status": ("sh", "-c", status) if status else (),
        "cwd": str(standin.folder),
        "root": lambda: str(standin.folder / "sglang"),
        "state_dir": str(standin.state_dir),
        "url": standin.url,
        "log": str(standin.log),
        "ready_timeout_s": 90.0,
        "stop_timeout_s": 3.0,
        "grace_s": 0.5,
    }
    return CommandsServer(agent(), **{**fields, **more})


def bring_up(one: CommandsServer, standin: Standin) -> Ready | Failed:
    launch = standin.launch()
    return one.await_ready(one.start(launch), launch, Told())


def test_it_is_found_by_its_port_and_stopped_by_its_command(standin: Standin) -> None:
    one = server(standin, "--workers", "plain", "--slow-start", "0.5")
    outcome = bring_up(one, standin)
    assert isinstance(outcome, Ready), outcome
    assert outcome.process.pid == int((standin.folder / "pid").read_text())
    state = one.state()
    assert state.recorded == state.listener == outcome.process
    assert [worker.role for worker in state.workers] == ["tp0"]
    assert {proof.pid for proof in one.proofs()} == {worker.pid for worker in state.workers}
    one.stop(Told())
    assert standin.pids() == []


def test_what_the_stop_command_leaves_is_ended_all_the_same(standin: Standin) -> None:
    one = server(standin, "--workers", "plain,daemon", stop="kill -9 $(cat pid)")
    assert isinstance(bring_up(one, standin), Ready)
    one.stop(Told())
    assert standin.pids() == []


def test_a_start_command_that_fails_is_refused_with_its_last_words(standin: Standin) -> None:
    with pytest.raises(Refused, match="the start command ended with 4") as caught:
        server(standin, start=("sh", "-c", "echo no such unit; exit 4")).start(standin.launch())
    assert caught.value.details == ("no such unit",)


def test_a_stop_command_that_fails_is_refused_while_the_server_runs(standin: Standin) -> None:
    one = server(standin, stop="echo not permitted; exit 5")
    assert isinstance(bring_up(one, standin), Ready)
    with pytest.raises(Refused, match="the stop command ended with 5"):
        one.stop(Told())
    assert one.state().listener is not None


def test_a_status_that_says_no_ends_the_wait(standin: Standin) -> None:
    one = server(standin, start=("true",), status="exit 3")
    outcome = bring_up(one, standin)
    assert isinstance(outcome, Failed)
    assert "status command says it does not run" in outcome.why


def test_a_server_older_than_the_start_command_is_not_ours(standin: Standin) -> None:
    first = server(standin)
    assert isinstance(bring_up(first, standin), Ready)
    later = Process(
        pid=0, start_ticks=10**12, boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    )
    outcome = first.await_ready(later, standin.launch(), Told())
    assert isinstance(outcome, Failed)
    assert "answered by another server" in outcome.why


def test_nothing_runs_and_status_agrees_so_no_command_is_run(standin: Standin) -> None:
    told = Told()
    server(standin, stop="touch ran", status="exit 3").stop(told)
    assert told.notes == ["no server was running"]
    assert not (standin.folder / "ran").exists()
