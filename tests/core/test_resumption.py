"""What is left of a sweep that was cut short, and what must be as it was to go on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oeactl.core.resumption import attempt, changed, done_levels, is_over, kept_levels
from oeactl.core.run import Run, Trial
from tests.support.runs import a_run


def run_of(*attempts: tuple[str, tuple[int, ...]], planned: int = 3) -> Run:
    """One lone sweep of ``planned`` levels: how each attempt ended, and the levels it kept."""
    run = a_run()
    (trial,), (point, *_) = run.trials, run.trials[0].points
    points = tuple(
        msgspec.structs.replace(run.plan.sweep.points[0], concurrency=1 << n) for n in range(planned)
    )
    trials = tuple(
        msgspec.structs.replace(
            trial,
            name=trial.name if number == 0 else f"{trial.name}-{number + 1}",
            outcome=outcome,
            points=tuple(
                msgspec.structs.replace(point, index=index, tail=(str(number),)) for index in levels
            ),
        )
        for number, (outcome, levels) in enumerate(attempts)
    )
    plan = msgspec.structs.replace(run.plan, sweep=msgspec.structs.replace(run.plan.sweep, points=points))
    return msgspec.structs.replace(run, plan=plan, trials=trials)


def indexes(points: tuple[Any, ...]) -> list[int]:
    return [point.index for point in points]


def test_an_interrupted_sweep_keeps_what_it_has_and_is_not_over() -> None:
    run = run_of(("interrupted", (1, 2)))
    assert indexes(done_levels(run)) == [1, 2]
    assert not is_over(run)
    assert attempt(run.plan.trials[0], run.trials) == "001-A-2"


def test_attempts_add_up() -> None:
    run = run_of(("interrupted", (1,)), ("unfinished", (2,)), ("completed", (3,)))
    assert indexes(kept_levels(run)) == [1, 2, 3]
    assert is_over(run)


def test_a_level_that_its_server_did_not_survive_is_measured_again() -> None:
    run = run_of(("server_lost", (1, 2)))
    assert indexes(done_levels(run)) == [1]
    again = run_of(("server_lost", (1, 2)), ("interrupted", (2,)))
    assert indexes(done_levels(again)) == [1, 2]
    assert [point.tail for point in kept_levels(again)] == [("0",), ("1",)]


def test_a_saturated_sweep_is_over_before_its_last_level() -> None:
    assert is_over(run_of(("completed", (1, 2))))
    assert not is_over(run_of())


@pytest.mark.parametrize(
    ("field", "change", "said"),
    [
        ("engine", {"git_commit": "f" * 40}, "the engine's version"),
        ("model", {"config_sha256": "f" * 64}, "the model"),
        ("driver", {"name": "light"}, "the load client"),
        ("server", {"args": {"tp_size": 4}}, "the server's arguments"),
        ("server", {"environment": {"NCCL_P2P_LEVEL": "PHB"}}, "the server's environment"),
    ],
)
def test_another_build_is_named(field: str, change: dict[str, Any], said: str) -> None:
    (trial,) = a_run().trials
    now: Trial = msgspec.structs.replace(
        trial, **{field: msgspec.structs.replace(getattr(trial, field), **change)}
    )
    assert any(name.startswith(said) for name in changed(trial, now))


def test_another_start_of_the_same_build_is_no_change() -> None:
    (trial,) = a_run().trials
    now = msgspec.structs.replace(trial, server=msgspec.structs.replace(trial.server, pid=9, start_ticks=9))
    assert changed(trial, now) == ()


def test_other_files_and_recipes_are_named() -> None:
    (trial,) = a_run().trials
    targets = tuple(msgspec.structs.replace(one, before_sha256="f" * 64) for one in trial.targets)
    assert changed(trial, msgspec.structs.replace(trial, targets=targets)) == ("the engine's files",)
    assert "the recipes" in changed(trial, msgspec.structs.replace(trial, recipes=()))
