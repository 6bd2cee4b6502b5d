"""``oeactl history``: told from results alone, on stdout; the warning on stderr."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from oeactl.cli.app import main
from oeactl.cli.common import Call
from oeactl.cli.comparing import warn_of_baseline
from oeactl.core.history import history
from oeactl.edges.store import ResultsFolder
from oeactl.render.history import history_view
from tests.cli.test_experiment import document, keep, project
from tests.core.test_history import USUAL, days
from tests.support.runs import a_trial

__all__ = ["project"]


def recorded(project: Path, *rates: float) -> None:
    newer = msgspec.structs.replace(a_trial().engine, version="0.5.21")
    for run in days(*rates, engine=newer):
        keep(project, run.plan, *run.trials)


def test_a_day_outside_the_band_is_warned_of_with_its_suspects(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(project, *USUAL, 300.0)
    assert main(["history", "--host", "@local"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == "tiny, sglang client, random-ids, levels 4,16 of 64/32 tokens"
    assert lines[1].split() == ["began", "tok/s", "trials", "run"]
    assert lines[2].split()[:3] == ["2026-12-01", "02:15", "400.0"] and lines[2].count("·") == 30
    assert "has left the band" in lines[-2] and "engine version: 0.5.20 -> 0.5.21" in lines[-1]
    assert "300.0 tok/s, is below the band" in said.err and "engine version" in said.err
    (series,) = document(capsys, "history --host @local")["series"]
    assert series["left"] and [one["what"] for one in series["suspects"]] == ["engine version"]


def test_on_a_narrow_terminal_rate_and_run_stay_and_no_row_breaks(project: Path) -> None:
    recorded(project, *USUAL, 300.0)
    found = history(ResultsFolder(project / "results").list().runs, "@local")
    for width in (100, 60, 50):
        stream = io.StringIO()
        Console(file=stream, width=width, highlight=False).print(history_view(found, width=width))
        rows = [line.split() for line in stream.getvalue().splitlines() if "Z-" in line]
        assert len(rows) == len(USUAL) + 1
        assert "300.0" in rows[-1] and rows[-1][-1] == found[0].baselines[-1].run_id


def test_a_usual_day_warns_of_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(project, *USUAL, 402.0)
    assert main(["history", "--host", "@local"]) == 0
    said = capsys.readouterr()
    assert "is within the band" in said.out and said.err == ""


def test_without_baselines_it_is_said_how_to_get_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(project, days(400.0)[0].plan)
    assert main(["history", "--host", "@local"]) == 2
    assert "oeactl aa" in capsys.readouterr().err
    assert main(["history", "--host", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_comparison_warns_when_it_ends_if_its_own_baseline_is_no_usual_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(project, *USUAL, 300.0)
    store = ResultsFolder(project / "results")
    usual, newest = store.list().runs[-2:]
    call = Call(project=project, json=False, verbose=False, debug=False)
    warn_of_baseline(call, store, newest)
    assert "is below the band" in capsys.readouterr().err
    warn_of_baseline(call, store, usual)
    assert capsys.readouterr().err == ""
