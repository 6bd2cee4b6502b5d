"""Long comparisons on a real SGLang: a planted sleep regresses it, nothing is nothing, a kill is resumed.

That OEA improves it is in test_improvement.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.comparing import LOAD, PAIRS, compared, decided, verdict
from tests.e2e.conftest import Project

pytestmark = [pytest.mark.engine, pytest.mark.e2e, pytest.mark.timeout(1800)]

SLEEPY = """\
id: sleepy
revision: 1
title: A slowdown, planted
engine: {package: sglang}
proof: false
parameters:
  ms: {type: float, default: 20.0, min: 0.0, about: "milliseconds that each MoE layer sleeps a step"}
files:
  - module: sglang.srt.layers.moe.topk
    edits:
      - id: sleep
        op: body_start
        scope: [def select_experts]
        code: __import__("time").sleep(OEACTL.ms / 1000)
"""
CASE = "module: sglang.srt.layers.moe.topk\nrefuses: nothing\n"


def test_a_planted_slowdown_regresses(local: Project) -> None:
    folder = local.folder / "recipes" / "sleepy"
    (folder / "cases" / "none").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(SLEEPY)
    (folder / "cases" / "none" / "before.py").write_text("")
    (folder / "cases" / "none" / "case.yaml").write_text(CASE)
    found = verdict(decided(local, "ab", "--recipe", "sleepy"))
    assert found["says"] == "regressed", found
    assert found["effect"]["ratio"] < 0.77


def test_the_engine_against_itself_is_never_material(local: Project) -> None:
    found = verdict(compared(local, "aa"))
    assert not found["material"], found


def test_a_killed_client_is_resumed_and_the_host_ends_as_it_was(local: Project) -> None:
    original = local.hashes()
    words = ["ab", "--recipe", "oea", "--set", "k0=2", *LOAD, "--pairs", PAIRS]
    client = subprocess.Popen(
        [sys.executable, "-m", "oeactl", *words, "--project", str(local.folder)],
        env={**os.environ, "XDG_STATE_HOME": str(local.folder / "record")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_trials(local.folder, 1, client)
        time.sleep(20.0)  # in the middle of the next one
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
    kept = {path: path.read_bytes() for path in trials(local.folder)}
    document = local.oeactl("run", "resume", "last", "--yes")
    assert verdict(document)["effect"]["pairs"] == int(PAIRS)  # what it says of speed is another test's
    assert {trial["outcome"] for trial in document["trials"]} <= {"completed", "unfinished"}
    assert all(path.read_bytes() == data for path, data in kept.items())
    assert local.hashes() == original
    assert local.oeactl("status")["agrees"]


def trials(folder: Path) -> list[Path]:
    return sorted(folder.glob("results/runs/*/*/trials/*.json"))


def wait_for_trials(folder: Path, count: int, client: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + 600
    while len(trials(folder)) < count:
        assert client.poll() is None, f"it ended with {client.returncode}"
        assert time.monotonic() < limit, "no trial ended in time"
        time.sleep(1.0)
