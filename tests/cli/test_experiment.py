"""``ab``, ``aa``, ``scan``, ``run resume``, and what ``results`` makes of them: words, refusals, files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.cli.app import main
from oeactl.cli.common import Call
from oeactl.cli.comparing import ended
from oeactl.cli.experiment import _combinations
from oeactl.core.results import analyse
from oeactl.core.run import Plan, Trial
from oeactl.edges.store import ResultsFolder
from oeactl.errors import UsageError, VoidMeasurement
from oeactl.flows.experiment import Concluded
from tests.core.test_attachments import PRINTED
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import AT, a_plan, a_trial

HOSTS = """
default_host: closed
hosts:
  closed:
    address: 127.0.0.1
    port: 9
    user: nobody
    engine: {{python: /usr/bin/python3}}
    server: {{argv: [-m, sglang.launch_server], log: /log}}
  "@local":
    engine: {{python: {python}, root: {root}}}
"""
FIRST, SECOND, THIRD = (f"20261130T02150{n}Z-oea-0000000{n}" for n in (1, 2, 3))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yaml").write_text(HOSTS.format(python=sys.executable, root=tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    return tmp_path


def keep(project: Path, plan: Plan, *trials: Trial) -> None:
    store = ResultsFolder(project / "results")
    store.begin(plan)
    for trial in trials:
        store.save_trial(msgspec.structs.replace(trial, run_id=plan.run_id))
    store.save_analysis(analyse(plan, trials, AT))


@pytest.fixture
def kept(project: Path) -> Path:
    """Two benches of different models, then a comparison."""
    other = msgspec.structs.replace(a_trial().model, config_sha256="00" * 32)
    keep(project, a_plan(run_id=FIRST), a_trial())
    keep(project, a_plan(run_id=SECOND), a_trial(model=other))
    plan = msgspec.structs.replace(a_comparison(), run_id=THIRD)
    keep(project, plan, *measured(plan, {"B": 1.2}))
    return project


def document(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*line.split(), "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("ab --pairs x", 2, ["'x' is not a number of pairs", "--pairs 4, or 3..6"]),
        ("ab --pairs 4..6", 2, ["'4..6'", "--pairs"]),
        ("ab --pairs 1", 2, ["one pair allows no interval"]),
        ("ab --pairs 3..12", 2, ["no plan of looks up to 12 pairs"]),
        ("ab --pairs 2 --analysis regression", 2, ["six restarts"]),
        ("ab --analysis bayes", 2, ["'bayes' is neither paired nor regression"]),
        ("ab --leave asis", 2, ["'asis' is neither pristine nor patched"]),
        ("ab --margin 0", 2, ["'0' is not a margin"]),
        ("ab --margin much", 2, ["'much' is not a margin"]),
        ("ab --budget 3h --pairs 4", 2, ["--budget makes the number of pairs"]),
        ("ab --budget soon", 2, ["duration", "--budget"]),
        ("ab --budget 3h", 2, ["what one trial takes is not known", "--trial-takes 12m"]),
        ("ab --budget 1h --trial-takes 12m", 2, ["the budget holds no two pairs", "--budget 84m"]),
        ("ab --caches warm", 2, ["'warm' is neither keep nor wipe"]),
        ("ab --trial-takes soon", 2, ["duration", "--trial-takes"]),
        ("ab --driver curl", 2, ["--driver curl is not known"]),
        ("ab --driver light --dataset hosts.yaml", 2, ["JSON"]),
        ("ab --concurrency 0", 2, ["--concurrency"]),
        ("ab --set k0=0", 2, ["k0 must be at least 1"]),
        ("ab --recipe oae", 2, ["did you mean 'oea'?"]),
        ("ab --plan-only", 4, ["127.0.0.1:9"]),
        ("aa", 4, ["127.0.0.1:9"]),
        ("aa --host @local", 2, ["no server", "hosts.@local.server"]),
        ("scan", 2, ["nothing to scan"]),
        ("scan --set k0=2", 2, ["two arms"]),
        ("run resume last", 2, ["there are no runs"]),
    ],
)
def test_a_wrong_word_is_named(
    line: str, code: int, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == code
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: ")
    for words in said:
        assert words in message


def test_every_combination_is_an_arm_and_the_last_word_changes_fastest() -> None:
    found = _combinations(("--set", ["k0=2,4"]), ("--arg", ["--mem=a,b"]), ("--env", ["X=0"]))
    assert found == [
        {"--set": {"k0": k0}, "--arg": {"mem": mem}, "--env": {"X": "0"}}
        for k0 in ("2", "4")
        for mem in ("a", "b")
    ]
    with pytest.raises(UsageError, match="nothing to scan"):
        _combinations(("--set", []))


def test_runs_of_another_model_are_compared_only_when_told(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", "compare", FIRST, SECOND]) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert "they differ in the model" in message and "--anyway" in message
    assert main(["results", "compare", FIRST, SECOND, "--anyway"]) == 0
    assert "they differ in the model" in capsys.readouterr().out


def test_a_comparison_is_shown_by_its_verdict(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "show", THIRD]) == 0
    assert "B against A: improved" in capsys.readouterr().out
    assert document(capsys, f"results show {THIRD}")["analysis"]["verdicts"][0]["says"] == "improved"


def test_a_report_goes_to_stdout_or_a_file(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "report", THIRD, "--format", "pr"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("## oea: B improved")
    assert main(["results", "report", THIRD, "--out", "report.md"]) == 0
    assert (kept / "report.md").read_text() == out
    assert main(["results", "report", FIRST]) == 2
    assert main(["results", "report", THIRD, "--out", "no/such/folder.md"]) == 2


@pytest.mark.parametrize("json", [False, True])
def test_a_comparison_ends_with_its_reports_in_its_folder(
    kept: Path, json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that did not end well; its exit code stays."""
    store = ResultsFolder(kept / "results")
    concluded = Concluded(run=store.load(THIRD), left="pristine", error=VoidMeasurement("one trial is void"))
    call = Call(project=kept, json=json, verbose=False, debug=False)
    if json:
        assert ended(call, store, concluded) == 8
        assert call.document["error"]["what"] == "one trial is void" and call.document["left"] == "pristine"
    else:
        with pytest.raises(VoidMeasurement):
            ended(call, store, concluded)
        assert "report.html there" in capsys.readouterr().out
    folder = Path(concluded.run.path)
    assert "B is faster than A" in (folder / "report.html").read_text()
    assert "attach" in (folder / "report.md").read_text()
    (kept / "gsm8k.txt").write_text(PRINTED)
    assert main(["results", "attach", THIRD, "gsm8k.txt"]) == 0
    assert "0.9120" in (folder / "report.md").read_text()
    assert not list(folder.glob(".*"))


def test_a_bench_that_is_over_is_shown_again(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, f"run resume {FIRST}")["plan"]["run_id"] == FIRST
