"""Whole commands on a small engine and a stand-in server: asked, cut short, done twice, followed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.cli.app import main
from tests.support import sshd
from tests.support.served import Served, served

RECIPE = """
id: few
revision: 1
title: A test
engine: {package: sglang}
parameters:
  size: {type: int, default: 4, min: 1, max: 64}
files:
  - module: sglang.srt.layers.moe.topk
    edits:
      - {id: size, op: define_before, at: {definition: def route, depth: top}, code: SIZE = OEACTL.size}
"""
BACK = "putting everything back"
CASE = {"before.py": "", "case.yaml": "refuses: matches\nmodule: sglang.srt.layers.moe.topk\n"}


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "record"))
    recipe = tmp_path / "recipes" / "few"
    (recipe / "cases" / "one").mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(RECIPE)
    for name, text in CASE.items():
        (recipe / "cases" / "one" / name).write_text(text)
    one = served(tmp_path, capsys)
    yield one
    one.standin.clear()


def interrupted(place: Served, *words: str, at: str, held: Path | None = None) -> tuple[int, list[str]]:
    """Run a command, press Ctrl-C once a line has ``at`` in it: its exit code, and every line.

    held: keeps the server from answering until then.
    """
    argv = [sys.executable, "-m", "oeactl", *words, "--project", str(place.folder)]
    lines = []
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as command:
        assert command.stdout is not None
        for line in command.stdout:
            lines.append(line.rstrip())
            if at in line and at:
                os.kill(command.pid, signal.SIGINT)
                at = ""
            elif held and BACK in line:
                held.unlink(missing_ok=True)
    return command.returncode, lines


def test_start_and_stop_are_each_done_once(place: Served) -> None:
    begun = place.oeactl("start")
    assert begun["status"] == "started"
    assert place.oeactl("start") == {
        "status": "running already",
        "pid": begun["pid"],
        "seconds": None,
        "verdicts": [],
        "notes": [],
    }
    refused = place.oeactl("stop", code=2)
    assert "--yes" in refused["error"]["hint"]
    assert place.standin.pids()
    assert place.oeactl("stop", "--yes")["status"] == "stopped"
    assert place.standin.pids() == []
    assert place.oeactl("stop", "--yes")["status"] == "was not running"


def test_a_patch_that_is_interrupted_is_taken_back_and_the_old_server_answers(place: Served) -> None:
    held = place.folder / "held"
    place.write(place.entry("--held", str(held)))
    place.oeactl("start")
    before = place.tree.contents()
    held.touch()
    words = ("patch", "--recipe", "few", "--yes")
    code, lines = interrupted(place, *words, at="waiting until it answers", held=held)
    assert code == 130
    assert "the server is back and healthy with them" in lines[-1]
    assert place.tree.contents() == before
    status = place.oeactl("status")
    assert status["agrees"] and status["server"]["healthy"] and status["lease"] is None


@pytest.mark.sshd
def test_a_patch_whose_connection_breaks_is_taken_back_over_a_new_one(place: Served, tmp_path: Path) -> None:
    with sshd.running(tmp_path / "ssh") as running:
        reach = {"address": "127.0.0.1", "port": running.port, "ssh_config": running.ssh_config}
        held = tmp_path / "held"
        place.write(lab={**place.entry("--held", str(held)), **reach})
        place.oeactl("start", "--host", "lab")
        before = place.tree.contents()
        held.touch()
        argv = ["patch", "--recipe", "few", "--yes", "-v", "--host", "lab", "--project", str(place.folder)]
        with subprocess.Popen(
            [sys.executable, "-m", "oeactl", *argv],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as command:
            assert command.stderr is not None
            lines: list[str] = []
            for line in command.stderr:
                if "loading weights" in line and held.exists():
                    running.signal_children(signal.SIGKILL)
                elif BACK in line:
                    held.unlink(missing_ok=True)
                lines.append(line)
        assert command.returncode == 6, lines
        assert "the connection to the host broke; the files are as they were" in lines[-1]
        assert place.tree.contents() == before
        status = place.oeactl("status", "--host", "lab")
        assert status["agrees"] and status["server"]["healthy"] and status["lease"] is None


def test_the_lease_of_a_patch_that_was_killed_does_not_lock_its_owner_out(place: Served) -> None:
    place.write(place.entry("--slow-start", "30"))
    argv = ["patch", "--recipe", "few", "--project", str(place.folder)]
    with subprocess.Popen(
        [sys.executable, "-m", "oeactl", *argv], stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stderr is not None
        assert any("waiting until it answers" in line for line in command.stderr)
        command.kill()
    assert place.oeactl("status", code=7)["lease"]["what"] == "patch few"
    assert place.oeactl("revert", "--no-restart")["status"] == "reverted"
    assert place.oeactl("status", code=7)["lease"] is None


def test_a_log_that_is_not_there_is_said_and_one_that_is_followed_ends_quietly(place: Served) -> None:
    assert main(["logs", "--project", str(place.folder)]) == 0
    out, err = place.capsys.readouterr()
    assert out == "" and f"there is nothing in {place.standin.log} on @local" in err
    assert place.oeactl("logs") == {"lines": []}
    place.standin.log.parent.mkdir(exist_ok=True)
    place.standin.log.write_text("first\nsecond\n")
    assert interrupted(place, "logs", "-f", "-n", "1", at="second") == (130, ["second"])


def test_a_mistake_in_hosts_yaml_does_not_take_a_running_server_down(place: Served) -> None:
    place.oeactl("start")
    running = place.standin.pids()
    for key, mistake in (("log", "/proc/1/server.log"), ("argv", ["/no/launch.py"]), ("cwd", "/no/folder")):
        place.write(place.entry(**{key: mistake}))
        for command in (["restart", "--yes"], ["patch", "--recipe", "few", "--yes"]):
            error = place.oeactl(*command, code=2)["error"]
            assert key == "cwd" or f"correct server.{key} in hosts.yaml" in error["hint"]
            assert "/no/" in str(error) or "/proc/1/" in str(error)
    assert place.standin.pids() == running
    place.write()
    assert place.oeactl("status")["files"][0]["state"] == "pristine"
