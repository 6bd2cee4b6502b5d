"""A server in a systemd unit, by a stand-in for systemctl: begun, watched by its main process, ended."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.agent.units import quoted
from oeactl.edges.servers.systemd import SystemdServer
from oeactl.errors import Refused, UsageError
from oeactl.ports import Failed, Ready
from tests.support.serving import STANDIN, Standin, Told, agent, free_port

SYSTEMCTL = Path(__file__).parents[1] / "support" / "standin_systemctl.py"
UNIT = "glm5.service"


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    """A host with a systemctl and a unit that serves. A wrapper tells its folder: few variables pass."""
    units, program = tmp_path / "units", tmp_path / "bin" / "systemctl"
    units.mkdir()
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexport STANDIN_UNITS={units}\nexec {sys.executable} {SYSTEMCTL} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    one = Standin(tmp_path, free_port())
    write_unit(one)
    yield one
    one.clear()


def write_unit(standin: Standin, *args: str, restart: str = "no") -> None:
    units = standin.folder / "units"
    command = " ".join([sys.executable, str(STANDIN), "--port", str(standin.port), *args])
    (units / UNIT).write_text(
        f"[Service]\nExecStart={command}\nEnvironment=OWN=unit\nWorkingDirectory={standin.folder}\nRestart={restart}\n"
    )


def server(standin: Standin, **more: Any) -> SystemdServer:
    fields: dict[str, Any] = {
        "unit": UNIT,
        "units_dir": str(standin.folder / "units" / "run"),
        "root": lambda: str(standin.folder / "sglang"),
        "state_dir": str(standin.state_dir),
        "url": standin.url,
        "log": str(standin.log),
        "ready_timeout_s": 90.0,
        "stop_timeout_s": 10.0,
        "grace_s": 0.5,
    }
    return SystemdServer(agent(), **{**fields, **more})


def bring_up(one: SystemdServer, standin: Standin, **launch: Any) -> Ready | Failed:
    wanted = msgspec.structs.replace(standin.launch(), argv=(), **launch)
    return one.await_ready(one.start(wanted), wanted, Told())


def variables(pid: int) -> dict[str, str]:
    items = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(item.split("=", 1) for item in items)


def drop_ins(standin: Standin) -> list[Path]:
    return [path for path in (standin.folder / "units" / "run").rglob("*") if path.is_file()]


def test_it_is_begun_and_ended_by_systemctl_and_the_unit_is_as_it_was(standin: Standin) -> None:
    write_unit(standin, "--workers", "plain,plain")
    one = server(standin)
    outcome = bring_up(one, standin)
    assert isinstance(outcome, Ready), outcome
    state = one.state()
    assert state.recorded == state.listener == outcome.process and not state.foreign
    assert [worker.role for worker in state.workers] == ["tp0", "tp1"]
    assert {proof.pid for proof in one.proofs()} == {worker.pid for worker in state.workers}
    found = variables(outcome.process.pid)
    assert found["OWN"] == "unit" and found["HF_TOKEN"] == "hf_in_the_environment"
    (drop_in,) = drop_ins(standin)
    assert drop_in.stat().st_mode & 0o777 == 0o600
    assert "ExecStart" not in drop_in.read_text()
    assert "The server is fired up" in "".join(one.log_lines(50))
    one.stop(Told())
    assert standin.pids() == [] and drop_ins(standin) == []
    assert one.state().recorded is None


def test_what_a_recipe_adds_to_the_launch_replaces_the_command_until_the_stop(standin: Standin) -> None:
    argv = (str(STANDIN), "--port", str(standin.port))
    one = server(standin, argv=argv)
    wanted = standin.launch("--slow-start", "0", env={"ADDED": 'a "b" %h $X \\n'})
    outcome = one.await_ready(one.start(wanted), wanted, Told())
    assert isinstance(outcome, Ready), outcome
    words = Path(f"/proc/{outcome.process.pid}/cmdline").read_text().rstrip("\0").split("\0")
    assert words == [sys.executable, *wanted.argv]
    assert variables(outcome.process.pid)["ADDED"] == 'a "b" %h $X \\n'
    one.stop(Told())
    assert drop_ins(standin) == []


def test_a_unit_that_restarts_for_ever_is_seen_after_one_failure(standin: Standin) -> None:
    write_unit(standin, "--slow-start", "2.5", "--die", "oom", restart="always")
    one = server(standin)
    outcome = bring_up(one, standin)
    assert isinstance(outcome, Failed) and outcome.kind == "loop"
    assert "something starts it again" in outcome.why
    assert "CUDA out of memory" in (outcome.first_error or "")
    assert standin.log.read_text().count("server_args=") <= 3
    one.stop(Told())
    begun = standin.log.read_text().count("server_args=")
    assert standin.pids() == []
    time.sleep(1.0)
    assert standin.log.read_text().count("server_args=") == begun


def test_a_death_without_a_restart_is_a_plain_failure(standin: Standin) -> None:
    write_unit(standin, "--slow-start", "2.5", "--die", "argument")
    outcome = bring_up(server(standin), standin)
    assert isinstance(outcome, Failed) and outcome.kind is None
    assert "the server's process ended" in outcome.why


def test_a_unit_that_is_not_there_is_a_usage_error(standin: Standin) -> None:
    with pytest.raises(UsageError, match=r"systemd has no unit other\.service \(not-found\)"):
        server(standin, unit="other.service").start(standin.launch())
    assert drop_ins(standin) == []


def test_a_unit_that_ends_at_once_is_refused(standin: Standin) -> None:
    (standin.folder / "units" / UNIT).write_text("[Service]\nExecStart=/bin/false\n")
    with pytest.raises(Refused, match=r"the main process of glm5\.service ended at once"):
        for _ in range(3):
            server(standin).start(msgspec.structs.replace(standin.launch(), argv=()))


def test_words_are_quoted_as_unit_files_want_them() -> None:
    assert quoted('a"b\\c%d') == '"a\\"b\\\\c%%d"'
    assert quoted("$HOME", "$") == '"$$HOME"'
    assert quoted("$HOME") == '"$HOME"'
