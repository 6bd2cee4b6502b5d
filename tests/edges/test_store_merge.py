"""Branches that each add runs merge without conflict; whatever a merge may leave is named, not raised."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from oeactl.core.results import analyse
from oeactl.edges.store import ResultsFolder
from oeactl.errors import UsageError
from tests.support.runs import AT, a_plan, a_trial


def git(folder: Path, *words: str) -> str:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def add_run(folder: Path, run_id: str) -> None:
    store = ResultsFolder(folder / "results")
    plan = a_plan(run_id=run_id)
    trial = a_trial(run_id=run_id)
    store.begin(plan)
    store.begin_trial(trial)
    store.save_trial(trial)
    store.save_analysis(analyse(plan, (trial,), AT))


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """A repository in which two branches each added two runs, one of them in the same second, and merged."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    add_run(tmp_path, "20261130T021500Z-oea-00000000")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    for branch, names in (
        ("ann", ("20261130T031500Z-oea-1f3a9c2e", "20261130T040000Z-oea-11111111")),
        ("bob", ("20261130T031500Z-oea-9c2e1f3a", "20261201T040000Z-ab-22222222")),
    ):
        git(tmp_path, "checkout", "--quiet", "-b", branch, "main")
        for name in names:
            add_run(tmp_path, name)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "-m", branch)
    git(tmp_path, "merge", "--quiet", "-m", "both", "ann")
    return tmp_path


def test_branches_that_each_add_runs_merge_without_conflict(merged: Path) -> None:
    assert git(merged, "status", "--porcelain") == ""
    listing = ResultsFolder(merged / "results").list()
    assert listing.skipped == ()
    assert len(listing.runs) == 5
    assert all(run.trials and run.analysis for run in listing.runs)


def test_a_run_that_is_there_twice_is_taken_once_and_the_copy_named(merged: Path) -> None:
    first, *others = ResultsFolder(merged / "results").list().runs
    shutil.copytree(first.path, merged / "results" / "runs" / "2027" / first.plan.run_id)
    listing = ResultsFolder(merged / "results").list()
    assert [run.path for run in listing.runs] == [first.path, *(run.path for run in others)]
    (skipped,) = listing.skipped
    assert skipped.why == f"the same run is in {first.path}"
    with pytest.raises(UsageError, match="fits 2 runs"):
        ResultsFolder(merged / "results").load(first.plan.run_id)


def test_merge_markers_truncation_nan_and_copies_are_named_and_the_rest_is_read(merged: Path) -> None:
    runs = {run.plan.run_id: Path(run.path) for run in ResultsFolder(merged / "results").list().runs}
    marked, cut, nan, copied, _ = runs.values()
    text = (marked / "plan.json").read_text()
    (marked / "plan.json").write_text(f"<<<<<<< ann\n{text}=======\n{text}>>>>>>> bob\n")
    trial = cut / "trials" / "001-A.json"
    trial.write_bytes(trial.read_bytes()[:-200])
    trial = nan / "trials" / "001-A.json"
    trial.write_text(trial.read_text().replace('"clock_offset_s": 0.012', '"clock_offset_s": NaN'))
    copied.joinpath("trials", "002-A.json").write_bytes(copied.joinpath("trials", "001-A.json").read_bytes())
    listing = ResultsFolder(merged / "results").list()
    assert len(listing.runs) == 4
    whys = [one.why for one in (*listing.skipped, *(one for run in listing.runs for one in run.skipped))]
    assert len(whys) == 4
    assert all("\n" not in why for why in whys)
    assert msgspec.to_builtins(listing)
