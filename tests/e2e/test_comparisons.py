"""Whole comparisons against a stand-in server: real commands, agent, processes, load client; no engine.

What is real here and made up in tests/flows: command lines that a server refuses, a process that dies under
load, caches on a disk, signals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import Served, served

pytestmark = pytest.mark.e2e

LOAD = (
    "--driver",
    "light",
    "--dataset",
    "natural",
    "-c",
    "2",
    "--requests",
    "8",
    "--input-len",
    "8",
    "--output-len",
    "6",
    "--yes",
)


@pytest.fixture
def box(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "record"))
    one = served(tmp_path, capsys)
    yield one
    one.standin.clear()


def scan(box: Served, *words: str, code: int = 0) -> Any:
    return box.oeactl("scan", *LOAD, *words, code=code)


def test_of_four_arms_one_with_a_bad_flag_and_one_that_crashes_two_are_measured_and_two_classified(
    box: Served,
) -> None:
    document = scan(box, "--arg", "itl-ms=80,40,much,-1", "--pairs", "2", "--no-warm", code=8)
    measured = {t["arm"] for t in document["trials"] if any(point["valid"] for point in t["points"])}
    assert measured == {"A", "B"}
    failures = {t["arm"]: t["failure"] for t in document["trials"] if t["failure"]}
    assert failures["C"]["kind"] == "not started"
    assert "invalid float value: 'much'" in failures["C"]["first_error"]
    assert failures["D"]["kind"] == "lost under load"
    assert "CUDA out of memory" in failures["D"]["first_error"]
    verdicts = {one["arm"]: one for one in document["analysis"]["verdicts"]}
    assert 1.5 < verdicts["B"]["effect"]["ratio"] < 2.5
    assert (verdicts["C"]["says"], verdicts["D"]["says"]) == ("void", "void")
    assert document["left"] == "pristine, the server up" or document["left"].endswith(
        "the server down as it was"
    )


def test_a_first_start_with_empty_caches_never_becomes_a_verdict(box: Served, tmp_path: Path) -> None:
    """It is three times slower; the second arm finds the kernels that the first one compiled."""
    caches = {"TRITON_CACHE_DIR": str(tmp_path / "triton-cache"), "TMPDIR": str(tmp_path)}
    (tmp_path / "triton-cache").mkdir()
    env = {"PYTHONPATH": str(box.tree.site), "HOME": str(tmp_path), **caches}
    box.write(box.entry("--compiles-ms", "80", env=env))
    document = scan(box, "--arg", "itl-ms=40,40.0", "--pairs", "2", "--no-warm", "--margin", "10%")
    cold = [[cache["files"] for cache in t["caches"]["before"]] for t in document["trials"]]
    assert cold == [[0], [9], [9], [9]]
    (found,) = document["analysis"]["verdicts"]
    assert found["says"] in ("equivalent", "inconclusive") and found["effect"]["pairs"] == 1
    assert found["reasons"][0].startswith("pair 1 is left out: cold compilation caches: 001-")
    assert 0.8 < found["effect"]["ratio"] < 1.25

    document = scan(box, "--arg", "itl-ms=40,40.0", "--pairs", "2", "--caches", "wipe", "--margin", "10%")
    assert [[cache["files"] for cache in t["caches"]["before"]] for t in document["trials"]] == [[0]] * 4
    assert document["analysis"]["verdicts"][0]["effect"]["pairs"] == 2


def test_a_plan_shows_how_the_arms_are_begun_differently_and_does_nothing(box: Served) -> None:
    words = ("--arg", "itl-ms=80,40", "--env", "NCCL_ALGO=Ring", "--budget", "1h", "--trial-takes", "2m")
    document = scan(box, *words, "--plan-only")
    assert document["launch"] == [{"name": "--itl-ms", "values": ["80", "40"]}]
    assert document["plan"]["design"]["pairs"] == 13
    assert not (box.folder / "results").exists()
