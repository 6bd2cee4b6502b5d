"""``oeactl predict``: no host is asked, and a recording beats the formula."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from oeactl.cli.app import main
from oeactl.core.routing import Usage
from oeactl.core.run import PlannedTrial, Trial
from oeactl.edges.store import ResultsFolder
from tests.support.runs import RUN_ID, a_plan, a_trial

USAGE = Usage(tokens=10, top_k=2, layers=(1,), counts=((10, 10, 0, 0),))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {}}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keep(project: Path, *trials: tuple[Trial, Usage | None]) -> None:
    """A run with these trials, and what was recorded of the experts in each."""
    store = ResultsFolder(project / "results")
    planned = tuple(
        PlannedTrial(name=trial.name, arm="A", order=trial.order, start="attached") for trial, _ in trials
    )
    store.begin(a_plan(trials=planned))
    for trial, usage in trials:
        store.begin_trial(trial)
        digest = store.save_raw(RUN_ID, msgspec.json.encode(usage)).sha256 if usage else None
        first = trial.points[0]
        assert first.experts is not None
        seen = msgspec.structs.replace(first.experts, counts_sha256=digest)
        done = msgspec.structs.replace(trial, points=(msgspec.structs.replace(first, experts=seen),))
        store.save_trial(done)


def test_it_needs_neither_host_nor_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "--experts", "256", "--top-k", "8", "--k0", "4", "--batch", "64", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert round(row["distinct"], 1) == 222.4 and [round(kept, 1) for kept in row["kept"]] == [162.6]


def test_recorded_experts_are_used_instead_of_the_formula(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every token used the same two of four experts: so does any batch."""
    keep(project, (a_trial(recipes=()), USAGE))
    assert main(["predict", "--from", "last", "--batch", "1..8", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["experts"], made["top_k"], made["k0"]) == (4, 2, [1, 2])
    assert made["source"] == f"recorded in {RUN_ID}"
    assert [row["distinct"] for row in made["rows"]] == [2.0] * 4


def test_of_a_comparison_the_pristine_arm_is_taken(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patched = msgspec.structs.replace(USAGE, counts=((0, 0, 10, 10),))
    keep(project, (a_trial(), patched), (a_trial(name="002-A", order=2, recipes=()), USAGE))
    assert main(["predict", "--from", "last", "--batch", "64", "--k0", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["distinct"] == 2.0


@pytest.mark.parametrize(
    ("recipes", "usage", "says"),
    [("patched", USAGE, "patched server"), ("pristine", None, "no usage of experts was recorded")],
)
def test_a_recording_that_shows_no_pristine_routing_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], recipes: str, usage: Usage | None, says: str
) -> None:
    keep(project, (a_trial() if recipes == "patched" else a_trial(recipes=()), usage))
    assert main(["predict", "--from", "last"]) == 2
    assert says in capsys.readouterr().err


def test_raw_rows_that_are_gone_or_changed_are_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(project, (a_trial(recipes=()), USAGE))
    (raw,) = (project / "results").rglob("*.json.gz")
    raw.write_bytes(b"not gzip")
    assert main(["predict", "--from", "last"]) == 2
    raw.unlink()
    assert main(["predict", "--from", "last"]) == 2
    assert "are not here" in capsys.readouterr().err


def test_without_a_model_it_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict"]) == 2
    assert "--experts 256 --top-k 8" in capsys.readouterr().err


def test_an_entry_of_one_s_own_is_read_strictly(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "mine.yaml").write_text("name: mine\ngpus: 1\nbandwith_bytes_per_s: 1e12\n")
    assert main(["predict", "--hardware", "mine.yaml"]) == 2
    assert "mine.yaml:3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("--from", "last", "--experts", "256"),
        ("--from", "last", "--top-k", "8"),
        ("--from", "last", "--hardware", "glm-5-nvfp4-8x-rtx-pro-6000"),
        ("--hardware", "glm-5-nvfp4-8x-rtx-pro-6000", "--experts", "128"),
    ],
)
def test_figures_of_two_models_are_not_mixed(
    project: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    keep(project, (a_trial(recipes=()), USAGE))
    assert main(["predict", *words]) == 2
    said = capsys.readouterr().err
    assert "these are of different models" in said and f"{words[2]} has" in said
