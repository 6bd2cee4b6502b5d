"""A bundle: all of a run in one archive, and enough for a stranger to measure it again from that alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from oeactl.cli.app import main
from oeactl.core.bundle import hosts_of, manifest_of
from oeactl.core.change import ChangedFile
from oeactl.core.difference import write_difference
from oeactl.core.provenance import LaunchRecord
from oeactl.core.redact import REDACTED
from oeactl.core.run import Run
from oeactl.edges.bundle import own_requirements
from oeactl.edges.store import ResultsFolder
from tests.support.engine_tree import ROUTER, sha256
from tests.support.report_world import a_change, a_rich_comparison
from tests.support.served import Served, served
from tests.support.stranger import run_again

RECIPE = f"""\
id: fewer
revision: 1
title: Fewer
engine: {{package: sglang}}
computes: other
parameters: {{flushes: {{type: int, default: 0, min: 0}}}}
launch: {{args: [--busy-flushes, "{{flushes}}"]}}
files:
  - module: {ROUTER}
    edits:
      - {{id: note, op: append, code: MODE = OEACTL.flushes}}
"""
CASE = f"module: {ROUTER}\n"
LOAD = ("-c", "2", "--requests", "10", "--input-len", "8", "--output-len", "4", "--seed", "7")
CLIENT = ("--driver", "light", "--dataset", "natural")


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    monkeypatch.chdir(tmp_path)
    one = served(tmp_path / "project", capsys)
    folder = one.folder / "recipes" / "fewer"
    (folder / "cases" / "one").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "cases" / "one" / "case.yaml").write_text(CASE)
    (folder / "cases" / "one" / "before.py").write_text("x = 1\n")
    (folder / "cases" / "one" / "after.py").write_text("x = 1\n")
    yield one
    one.standin.clear()


def bench(place: Served) -> dict[str, Any]:
    """Measure; a level may be void on a machine that is busy with other tests."""
    main(["bench", *LOAD, *CLIENT, "--json", "--project", str(place.folder)])
    document: dict[str, Any] = json.loads(place.capsys.readouterr().out)
    assert document["trials"][0]["outcome"] == "completed", document
    return document


def opened(archive: Path, into: Path) -> Path:
    """The bundle's one folder."""
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    (folder,) = into.iterdir()
    return folder


def test_a_stranger_measures_it_again_from_the_bundle_alone(place: Served, tmp_path: Path) -> None:
    original = place.tree.path(ROUTER).read_bytes()
    place.oeactl("patch", "--recipe", "fewer", "--set", "flushes=1", "--yes", "--no-restart")
    place.oeactl("start")
    first = bench(place)
    patched = place.tree.path(ROUTER).read_bytes()
    place.oeactl("results", "bundle", "last", "--out", "b.tar.gz")
    bundle = opened(Path("b.tar.gz"), tmp_path / "elsewhere")
    place.oeactl("revert", "--yes")
    place.oeactl("stop", "--yes")
    assert place.tree.path(ROUTER).read_bytes() == original
    forgotten(place)
    again = run_again(bundle, timeout_s=200)
    assert again.returncode in (0, 8), again.stdout + again.stderr
    assert place.tree.path(ROUTER).read_bytes() == original
    paths = sorted((bundle / "results" / "runs").glob("*/*/trials/*.json"))
    old, new = (json.loads(path.read_text()) for path in paths)
    assert first["plan"]["run_id"] == old["run_id"] != new["run_id"]
    assert old["server"]["launch"] == new["server"]["launch"]
    assert [(one["recipe"], one["digest"]) for one in old["recipes"]] == [
        (one["recipe"], one["digest"]) for one in new["recipes"]
    ]
    assert [one["workload_sha256"] for one in old["points"]] == [
        one["workload_sha256"] for one in new["points"]
    ]
    assert old["targets"][0]["after_sha256"] == sha256(patched)
    assert old["targets"][0] in new["targets"]


def forgotten(place: Served) -> None:
    """Nothing of the project is there any more but the server's program and its engine."""
    shutil.rmtree(place.folder / "recipes")
    shutil.rmtree(place.folder / "results")
    (place.folder / "hosts.yaml").unlink()


BEFORE, AFTER = b"x = 1\n", b"x = 1\ny = 2\n"
NAME = "sglang/srt/layers/moe/topk.py"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one made-up comparison, whose raw rows are there; its run's folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.yaml").write_text("{}")
    run = a_rich_comparison(pairs=2)
    change = a_change(
        files=(ChangedFile(path=NAME, before_sha256=sha256(BEFORE), after_sha256=sha256(AFTER)),),
        diff=write_difference(NAME, BEFORE, AFTER).decode(),
    )
    store = ResultsFolder(tmp_path / "results")
    folder = Path(store.begin(run.plan, (change,)))
    for trial in run.trials:
        store.save_trial(msgspec.structs.replace(trial, points=trial.points[:1]))
    assert run.analysis is not None
    store.save_analysis(run.analysis)
    (folder / "raw").mkdir()
    for sha in store.files(store.load("last"))[1]:
        (folder / "raw" / f"{sha}.json.gz").write_bytes(b"rows")
    return folder


def packed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["results", "bundle", *words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.usefixtures("kept")
def test_its_difference_applies_by_hand_and_every_sum_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed(capsys, "last", "--out", "b.tar.gz")
    bundle = opened(Path("b.tar.gz"), tmp_path / "elsewhere")
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=bundle, check=True)
    target = tmp_path / "by-hand" / NAME
    target.parent.mkdir(parents=True)
    target.write_bytes(BEFORE)
    script = (
        f"sha256sum -c {bundle}/changes/B.before.sha256 && patch -p1 < {bundle}/changes/B.diff"
        f" && sha256sum -c {bundle}/changes/B.after.sha256"
    )
    subprocess.run(["sh", "-c", script], cwd=tmp_path / "by-hand", check=True, capture_output=True)
    manifest = json.loads((bundle / "bundle.json").read_text())
    assert manifest["model"]["revision"] == "unpinned"
    assert manifest["arms"][1]["launch"]["argv"][:2] == ["-m", "sglang.launch_server"]
    assert manifest["command"][:2] == ["oeactl", "ab"]
    readme = (bundle / "README.md").read_text()
    assert "revision unpinned" in readme and "changes/B.diff" in readme and "not here" not in readme
    assert {"report.html", "report.md", "hosts.yaml", "run-again.sh", "recipes", "tool"} <= {
        path.name for path in bundle.iterdir()
    }


def test_the_same_run_gives_the_same_bytes_and_what_is_lost_is_named(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = packed(capsys)
    once = Path(first["file"]).read_bytes()
    assert first["raw_lost"] == []
    assert Path(packed(capsys, "last", "--out", "b.tar.gz")["file"]).read_bytes() == once
    shutil.rmtree(kept / "raw")
    assert main(["results", "bundle"]) == 0
    assert "without 2 raw files, which are not on this machine" in capsys.readouterr().out
    packed(capsys, "--out", "no/such/folder/b.tar.gz", code=2)


def begun_by(run: Run, launch: LaunchRecord) -> Run:
    replace = msgspec.structs.replace
    trials = tuple(replace(t, server=replace(t.server, launch=launch)) for t in run.trials)
    return replace(run, trials=trials)


def test_a_secret_of_the_launch_is_left_out_and_named_and_taken_from_a_variable_elsewhere() -> None:
    run = a_rich_comparison(pairs=2)
    argv = ("-m", "x", "--api-key", REDACTED, f"--hf-token={REDACTED}", "--port", "1")
    launch = LaunchRecord(manager="process", python="python3", argv=argv)
    begun = begun_by(run, launch)
    assert manifest_of(begun, ())["secrets_left_out"] == ["--api-key", "--hf-token"]
    server = yaml.safe_load(hosts_of(begun))["hosts"]["@local"]["server"]
    assert server["argv"] == ["-m", "x", "--api-key", "${API_KEY}", "--hf-token=${HF_TOKEN}", "--port", "1"]


def test_a_server_of_its_owner_s_commands_is_begun_and_ended_by_them_elsewhere_too() -> None:
    argv, stop, status = ("systemctl", "start", "x"), ("systemctl", "stop", "x"), ("systemctl", "status", "x")
    launch = LaunchRecord(manager="commands", python="python3", argv=argv, stop=stop, status=status)
    hosts = yaml.safe_load(hosts_of(begun_by(a_rich_comparison(pairs=2), launch)))
    server = hosts["hosts"]["@local"]["server"]
    assert [server[key] for key in ("manager", "start", "stop", "status")] == [
        "commands",
        *map(list, (argv, stop, status)),
    ]


def test_an_image_without_a_digest_is_called_unpinned_and_no_image_is_none() -> None:
    run = a_rich_comparison(pairs=2)
    assert manifest_of(run, ())["image"] == {"name": None, "digest": None}
    launch = LaunchRecord(manager="docker", python="python3", argv=(), image="lmsysorg/sglang:v0.5.20")
    manifest = manifest_of(begun_by(run, launch), ())
    assert manifest["image"] == {"name": "lmsysorg/sglang:v0.5.20", "digest": "unpinned"}


def test_what_oeactl_needs_is_told_as_installed_or_as_the_bundle_says_that_it_runs_from(
    tmp_path: Path,
) -> None:
    needed = own_requirements()
    assert f"msgspec=={msgspec.__version__}" in needed
    assert all("==" in one for one in needed) and not any("duckdb" in one for one in needed)
    (tmp_path / "requirements.txt").write_text("".join(f"{one}\n" for one in needed))
    assert own_requirements("no-such-distribution", tmp_path) == needed
