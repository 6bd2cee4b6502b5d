"""What becomes of a server is noticed: a worker or leader that ends, a start that loops or clashes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import until
from tests.support.served import Served, served
from tests.support.serving import STANDIN


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    one = served(tmp_path, capsys)
    yield one
    one.standin.clear()


def gone(pid: int) -> None:
    """End it, and wait until it is over."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid))


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_one_worker_of_two_that_ends_is_named_while_the_leader_answers(place: Served) -> None:
    place.write(place.entry("--workers", "plain,plain"))
    place.oeactl("start")
    assert place.oeactl("status")["agrees"]
    first, second = place.oeactl("status")["server"]["workers"]
    gone(second["pid"])
    found = place.oeactl("status", code=7)
    assert found["server"]["healthy"] is True
    assert [worker["pid"] for worker in found["server"]["workers"]] == [first["pid"]]
    (trouble,) = found["troubles"]
    assert trouble["what"] == f"tp1 of the server (pid {second['pid']}) ended, and the rest goes on"
    assert "oeactl restart" in trouble["remedy"]
    place.oeactl("restart", "--yes")
    assert place.oeactl("status")["agrees"]


def test_a_leader_that_died_is_told_with_the_first_error_of_its_log(place: Served) -> None:
    pid = place.oeactl("start")["pid"]
    with place.standin.log.open("a") as log:
        log.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    gone(pid)
    found = place.oeactl("status", code=7)
    (trouble,) = found["troubles"]
    assert f"(pid {pid}) ended, and oeactl did not stop it: torch.OutOfMemoryError" in trouble["what"]
    assert "oeactl start" in trouble["remedy"]
    place.oeactl("start")
    assert place.oeactl("status")["agrees"]


def test_a_server_that_oeactl_stopped_is_no_trouble(place: Served) -> None:
    place.oeactl("start")
    place.oeactl("stop", "--yes")
    found = place.oeactl("status")
    assert found["agrees"] and found["server"]["lost"] == []


def test_a_port_of_the_engines_own_that_clashes_is_tried_once_more(place: Served, tmp_path: Path) -> None:
    place.write(place.entry("--die", "port", "--die-once", str(tmp_path / "died")))
    assert place.oeactl("start")["status"] == "started"
    assert (tmp_path / "died").exists()
    assert place.standin.log.read_text().count("--- oeactl start") == 2


def test_a_second_clash_is_the_end_of_it(place: Served) -> None:
    place.write(place.entry("--die", "port"))
    error = place.oeactl("start", code=4)["error"]
    assert any("address already in use" in line for line in error["details"])
    assert place.standin.log.read_text().count("--- oeactl start") == 2


def test_a_restart_policy_that_loops_is_stopped_after_one_failure(place: Served, tmp_path: Path) -> None:
    log, pid = place.standin.log, tmp_path / "pid"
    log.parent.mkdir()
    run = f"{sys.executable} {STANDIN} --port {place.standin.port} --die oom"
    loop = f"(while :; do {run}; sleep 3; done) >>{log} 2>&1 & echo $! >{pid}"
    stop = ["sh", "-c", f"kill $(cat {pid})"]
    place.write(place.entry(manager="commands", argv=None, start=["sh", "-c", loop], stop=stop))
    error = place.oeactl("start", code=4)["error"]
    assert "it failed, and something starts it again" in error["what"]
    assert any("CUDA out of memory" in line for line in error["details"])
    assert place.standin.pids() == []
    assert log.read_text().count("server_args=") <= 3  # noticed at the second; one more may have begun
    until(lambda: is_over(int(pid.read_text())))


def test_a_canary_finds_a_server_that_answers_once_and_then_no_more(place: Served) -> None:
    place.write(place.entry("--fail-after", "20"))
    place.oeactl("start")
    place.oeactl("stop", "--yes")
    place.write(place.entry("--fail-after", "20", canary=40))
    error = place.oeactl("start", code=4)["error"]
    assert "of 40 canary completions failed: HTTP 500" in error["what"]
    place.oeactl("stop", "--yes")
    place.write(place.entry(canary=40))
    place.oeactl("start")
