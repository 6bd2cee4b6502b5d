"""What two runs differ in is named; what makes a ratio meaningless forbids it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oeactl.core.compare import changed_arguments, differences, forbidding, listed
from oeactl.core.run import Run
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import a_run, a_trial


def changed(part: str, **fields: Any) -> Run:
    """A run whose first trial differs in one part."""
    trial = a_trial()
    return a_run(**{part: msgspec.structs.replace(getattr(trial, part), **fields)})


OTHER_GPU = ({"name": "another GPU", "driver_version": "580.1"},)
OTHER_GPU_DRIVER = ({"name": "GPU", "driver_version": "570.9"},)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (changed("model", config_sha256="00" * 32), "the model"),
        (changed("model", revision="f00"), "the model"),
        (changed("host", gpus=OTHER_GPU), "the GPUs"),
        (changed("host", cpus=7), "the CPUs"),
        (changed("host", gpus=OTHER_GPU_DRIVER), "the GPU driver"),
        (changed("driver", version="0.5.19"), "the load client"),
    ],
)
def test_another_model_hardware_driver_or_client_forbids_a_comparison(other: Run, name: str) -> None:
    assert name in differences(a_run(), other)
    assert forbidding(a_run(), other) == (name,)


def test_other_prompts_forbid_it_and_other_levels_do_not() -> None:
    run = a_run()
    points = run.trials[0].points
    other_prompts = tuple(msgspec.structs.replace(point, workload_sha256="99" * 32) for point in points)
    assert forbidding(run, a_run(points=other_prompts)) == ("the prompts",)
    assert forbidding(run, a_run(points=points[:1])) == ()


def test_comparisons_of_one_seed_have_the_same_prompts_also_where_one_was_cut_short() -> None:
    plan = a_comparison(2)
    whole = Run(path="", plan=plan, trials=tuple(measured(plan, {})))
    short = msgspec.structs.replace(whole, trials=whole.trials[:2])
    assert forbidding(whole, short) == forbidding(short, whole) == ()
    others = tuple(
        msgspec.structs.replace(
            trial, points=tuple(msgspec.structs.replace(p, workload_sha256="99" * 32) for p in trial.points)
        )
        for trial in whole.trials
    )
    assert forbidding(short, msgspec.structs.replace(whole, trials=others)) == ("the prompts",)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (changed("host", name="another"), "the host"),
        (changed("engine", version="0.5.19"), "the engine's version"),
        (changed("server", environment={}), "the server's environment"),
        (changed("server", args={"tp_size": 4}), "the server's arguments: tp_size"),
    ],
)
def test_what_a_comparison_may_be_about_is_named_and_allowed(other: Run, name: str) -> None:
    assert name in differences(a_run(), other)
    assert forbidding(a_run(), other) == ()


def test_what_every_start_draws_anew_is_no_difference() -> None:
    assert changed_arguments({"random_seed": 1, "tp": 2}, {"random_seed": 2, "tp": 2}) == ()
    assert changed_arguments({"tp": 2}, {"dp": 1, "tp": 2}) == ("dp",)


def test_many_names_are_cut_short() -> None:
    assert listed(("a", "b", "c", "d", "e", "f")) == "a, b, c, d and 2 more"
    assert listed(("a",)) == "a"
