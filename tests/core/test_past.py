"""What past runs tell of the next: the noise of the original engine alone."""

from __future__ import annotations

from math import log, sqrt

import msgspec
import pytest

from oeactl.core.past import gpus_used, known_sd
from oeactl.core.run import Arm, Run
from tests.core.test_verdicts import a_comparison, measured
from tests.support.runs import SWEEP


def run_of(*arms: Arm, ratio: float) -> Run:
    plan = a_comparison(2)
    plan = msgspec.structs.replace(plan, arms=arms)
    return Run(path="", plan=plan, trials=tuple(measured(plan, {"B": ratio}, spread=1.0)))


def noise(run: Run) -> float | None:
    trial = run.trials[0]
    return known_sd(
        [run],
        trial.host.name,
        SWEEP,
        engine=trial.engine.version,
        model_sha256=trial.model.config_sha256,
    )


def test_an_arm_that_only_the_launch_makes_faster_is_no_noise() -> None:
    run = run_of(Arm(name="A"), Arm(name="B", args=("--max-running-requests", "64")), ratio=1.5)
    rates = [t.points[0].measurement for t in run.trials if t.arm == "A"]
    one, two = (log(rate.output_tokens_per_s) for rate in rates if rate)
    assert noise(run) == pytest.approx(abs(one - two) / sqrt(2))


def test_both_arms_of_an_aa_tell_the_noise_and_changed_arms_tell_none() -> None:
    both = noise(run_of(Arm(name="A"), Arm(name="B"), ratio=1.0))
    assert both is not None and 0 < both < 0.02
    assert noise(run_of(Arm(name="A", env={"X": "0"}), Arm(name="B", env={"X": "1"}), ratio=1.0)) is None


def test_the_gpus_of_the_newest_trial_that_tells_them_count() -> None:
    def using(gpus: int | None) -> Run:
        run = run_of(Arm(name="A"), Arm(name="B"), ratio=1.0)
        trials = [
            msgspec.structs.replace(t, server=msgspec.structs.replace(t.server, gpus=gpus))
            for t in run.trials
        ]
        return msgspec.structs.replace(run, trials=tuple(trials))

    runs = [using(8), using(4), using(None)]
    name = runs[0].trials[0].host.name
    assert gpus_used(runs, name) == 4
    assert gpus_used(runs, "another") is None and gpus_used([], name) is None
