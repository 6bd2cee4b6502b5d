"""``oeactl results attach``: another tool's figures beside a run, and shown with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oeactl.cli.app import main
from oeactl.edges.store import ResultsFolder
from tests.core.test_attachments import PRINTED
from tests.support.runs import a_plan, a_trial


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {}}\n")
    (tmp_path / "gsm8k.txt").write_text(PRINTED)
    store = ResultsFolder(tmp_path / "results")
    store.begin(a_plan())
    store.begin_trial(a_trial())
    store.save_trial(a_trial())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("project")
def test_what_was_attached_is_shown_with_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "show", "last"]) == 0
    assert "quality: not measured" in capsys.readouterr().out
    assert main(["results", "attach", "last", "gsm8k.txt"]) == 0
    assert "sglang gsm8k, gsm8k.txt: gsm8k accuracy 0.9120" in capsys.readouterr().out
    assert main(["results", "show", "last", "--json"]) == 0
    (attachment,) = json.loads(capsys.readouterr().out)["attachments"]
    assert attachment["tool"] == "sglang gsm8k"


@pytest.mark.usefixtures("project")
def test_a_file_is_attached_once_and_one_that_is_not_there_never(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "attach", "last", "gsm8k.txt"]) == 0
    assert main(["results", "attach", "last", "gsm8k.txt"]) == 2
    assert main(["results", "attach", "last", "nothing.json"]) == 2
    err = capsys.readouterr().err
    assert "attached already" in err and "cannot be read" in err
