"""``oeactl results import``: other clients' files become a run that is shown and listed like any."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from oeactl.cli.app import main

DATA = Path(__file__).parents[1] / "edges" / "data"
LINE, VLLM = DATA / "sglang_0.5.20_line.jsonl", DATA / "vllm_0.33.0_result.json"
AIPERF = DATA / "profile_export_aiperf.json"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for file in (LINE, VLLM, AIPERF):
        shutil.copy(file, tmp_path)
    return tmp_path


def done(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_file_becomes_a_run_with_its_client_named(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    document = done(capsys, "results", "import", VLLM.name, "--label", "night")
    assert document["plan"]["what"] == "import" and document["plan"]["run_id"].split("-")[1] == "night"
    (trial,) = document["trials"]
    assert trial["driver"]["name"] == "vllm bench serve"
    (point,) = trial["points"]
    assert point["valid"] and point["workload_sha256"] is None and point["raw"]["sha256"]
    assert document["plan"]["imported"][0]["name"] == VLLM.name
    assert len(list(here.glob("results/runs/*/*/raw/*.gz"))) == 1
    assert main(["results", "show", "last"]) == 0
    shown = capsys.readouterr().out
    assert "as it runs on vllm" in shown and "not measured: " in shown
    listed = done(capsys, "results", "list")
    assert [run["what"] for run in listed["runs"]] == ["import"]


def test_files_of_one_client_are_levels_of_one_run(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    other = json.loads((here / VLLM.name).read_text())
    (here / "c8.json").write_text(json.dumps({**other, "max_concurrency": 8}))
    document = done(capsys, "results", "import", VLLM.name, "c8.json")
    assert [point["concurrency"] for point in document["plan"]["sweep"]["points"]] == [4, 8]
    refused = done(capsys, "results", "import", VLLM.name, LINE.name, code=2)
    assert refused["error"]["what"].startswith("another client than in")


def test_a_run_nobody_knows_the_prompts_of_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    done(capsys, "results", "import", AIPERF.name, "--label", "one")
    done(capsys, "results", "import", AIPERF.name, "--label", "two")
    refused = done(capsys, "results", "compare", "one", "two", code=3)
    assert "the prompts" in refused["error"]["what"]


def test_what_is_no_result_is_refused_and_nothing_is_kept(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    (here / "bad.json").write_text('{"a": 1}\n')
    for name, said in (("bad.json", "not a result"), ("none.json", "cannot be read")):
        assert said in done(capsys, "results", "import", VLLM.name, name, code=2)["error"]["what"]
    assert not (here / "results").exists()
