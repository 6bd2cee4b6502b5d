"""A comparison as people read it: the verdict with its interval first, failures named, no empty claim."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from oeactl.core.experiment import Failure, Foreseen
from oeactl.core.results import analyse
from oeactl.core.routing import ExpertsSeen
from oeactl.core.run import Arm, Run, Trial
from oeactl.render.experiment import (
    conclusion_document,
    conclusion_view,
    duration,
    plan_document,
    plan_view,
)
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import AT, OEA

ARMS = (Arm(name="A"), Arm(name="B", recipes=(OEA,)))


def shown(made: Any, width: int = 120) -> str:
    from rich.console import Console

    screen = Console(width=width, color_system=None)
    with screen.capture() as captured:
        screen.print(made)
    return captured.get()


def a_concluded(ratio: float = 1.2, *, failure: Failure | None = None, **design: Any) -> Run:
    plan = msgspec.structs.replace(a_comparison(**design), arms=ARMS)
    trials: list[Trial] = measured(plan, {"B": ratio})
    if failure is not None:
        last = next(t for t in reversed(trials) if t.arm == "B")
        broken = msgspec.structs.replace(last, outcome="failed", points=(), failure=failure)
        trials = [broken if t is last else t for t in trials]
    return Run(
        path="/results/run", plan=plan, trials=tuple(trials), analysis=analyse(plan, tuple(trials), AT)
    )


def test_the_verdict_comes_first_with_ratio_interval_margin_and_ground() -> None:
    text = shown(conclusion_view(a_concluded(), width=120, left="pristine, the server up"))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:2] == ["A  pristine", "B  oea (k0=2, min_tokens=2)"]
    assert lines[2].startswith("B against A: improved, 1.199 times the tok/s (1.188 to 1.211")
    assert "material at a margin of 3%" in lines[2] and "at 95.0%" in lines[2]
    assert "the mean over levels 4, 16, 4 pairs, paired" in lines[3]
    assert "left: pristine, the server up" in lines
    assert lines[-1] == "/results/run"


def test_every_level_has_its_ratio_and_whether_it_is_shown() -> None:
    lines = shown(conclusion_view(a_concluded(), width=120)).splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("level"))
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["4", "16"]
    assert all(line.rstrip().endswith("yes") for line in lines[head + 1 : head + 3])


def test_what_is_not_shown_is_never_called_no_difference() -> None:
    text = shown(conclusion_view(a_concluded(1.001), width=120)).lower()
    assert "equivalent within 3%" in text
    unclear = a_concluded(1.01, margin=0.001, pairs=2)
    text = shown(conclusion_view(unclear, width=120)).lower()
    assert "inconclusive" in text and "four times out of five" in text
    assert "no difference" not in text and "significant" not in text


def test_a_trial_that_failed_is_a_row_with_its_first_error() -> None:
    failure = Failure(kind="not started", what="the server's process ended", first_error="CUDA out of memory")
    run = a_concluded(failure=failure)
    text = shown(conclusion_view(run, width=120))
    assert "not started: CUDA out of memory" in text
    (row,) = [line for line in text.splitlines() if line.startswith("007-B ") and "CUDA" not in line]
    assert row.rstrip().endswith("not started")


def test_a_run_cut_short_names_the_trials_that_were_not_taken() -> None:
    run = a_concluded()
    run = msgspec.structs.replace(run, trials=run.trials[:5])
    assert "not taken: 006-" in shown(conclusion_view(run, width=120))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_tables_fit_the_terminal(width: int) -> None:
    text = shown(conclusion_view(a_concluded(), width=width), width)
    assert all(len(line) <= width for line in text.splitlines())
    plan = a_concluded().plan
    text = shown(plan_view(plan, Foreseen(), width=width), width)
    assert all(len(line) <= width for line in text.splitlines())


def test_a_plan_lists_the_trials_in_order_what_they_take_and_what_they_could_see() -> None:
    plan = a_concluded().plan
    foreseen = Foreseen(trial_s=720.0, trial_s_from="past trials here", gpus=8, notes=("unlisted",))
    text = shown(plan_view(plan, foreseen, width=140), 140)
    rows = [line.split()[0] for line in text.splitlines() if line[:3].isdigit()]
    assert rows == [trial.name for trial in plan.trials]
    assert "8 restarts, about 1 h 36 min, 12.8 GPU hours (12 min each, past trials here)" in text
    assert "3.1% if restarts vary by 1.0%" in text and "oeactl aa" in text
    assert "paired analysis, alpha 0.05, margin 3%, seed 5; the host is left pristine" in text
    assert "unlisted" in text
    document = plan_document(plan, foreseen)
    assert (document["restarts"], document["total_s"]) == (8, 5760.0)
    assert json.dumps(document)


def test_what_is_not_known_is_said_and_no_time_made_up() -> None:
    plan = a_concluded().plan
    text = shown(plan_view(plan, Foreseen(), width=140), 140)
    assert "not known yet" in text and "GPU hours" not in text
    assert plan_document(plan, Foreseen())["total_s"] is None


def test_known_noise_gives_one_figure() -> None:
    plan = a_concluded(known_sd=0.01).plan
    text = shown(plan_view(plan, Foreseen(), width=140), 140)
    assert "sees a difference of 3.1% four times out of five: restarts varied by 1.0% in past runs" in text


def test_the_document_is_the_run_as_its_files_hold_it() -> None:
    document = conclusion_document(a_concluded(), "pristine")
    assert document["analysis"]["verdicts"][0]["says"] == "improved"
    assert document["left"] == "pristine"
    assert json.dumps(document)


@pytest.mark.parametrize(
    ("seconds", "text"), [(45, "45 s"), (720, "12 min"), (5760, "1 h 36 min"), (7200, "2 h 0 min")]
)
def test_times_are_told_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_experts_stand_beside_the_level_where_they_were_looked_at() -> None:
    run = a_concluded(experts=True)
    seen = {"A": 42.1, "B": 13.7}
    trials = tuple(
        msgspec.structs.replace(
            trial,
            points=tuple(
                msgspec.structs.replace(
                    point,
                    experts=ExpertsSeen(outcome="measured", requests=4, distinct_mean=seen[trial.arm]),
                )
                for point in trial.points
            ),
        )
        for trial in run.trials
    )
    text = shown(conclusion_view(msgspec.structs.replace(run, trials=trials), width=140))
    assert text.count("experts") == 2 and "42.1" in text and "13.7" in text
    assert "experts" not in shown(conclusion_view(a_concluded(), width=140))
