"""The formulas hold what they promise over thousands of made-up experiments, and fail towards silence."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from oeactl.core import stats
from tests.support import simulation

PAIRS = (3, 4, 6, 10)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("analysis", ["paired", "regression"])
@pytest.mark.parametrize("drift", simulation.DRIFTS)
@pytest.mark.parametrize("pairs", PAIRS)
def test_the_95_percent_interval_holds_the_truth_whatever_drifts(
    pairs: int, drift: str, analysis: str
) -> None:
    held = simulation.coverage(pairs, drift, analysis=analysis)
    assert held >= 0.94
    if drift == "none":
        assert held <= 0.965


def test_taken_one_arm_after_the_other_the_interval_would_fail_under_drift() -> None:
    y = simulation.logs(20_000, 6, "linear", seed=1)
    mean, se = stats.paired_fit(y[:, 6:] - y[:, :6])
    assert (np.abs(mean) <= stats.critical(5, 0.05) * se).mean() < 0.3


@pytest.mark.parametrize("pairs", [3, 6])
def test_six_levels_corrected_err_as_one_and_uncorrected_as_many(pairs: int) -> None:
    assert simulation.family_error(6, pairs, corrected=True) <= 0.055
    assert simulation.family_error(6, pairs, corrected=False) > 0.2


@pytest.mark.parametrize("arms", [3, 4, 8])
def test_many_arms_against_one_err_as_one(arms: int) -> None:
    assert simulation.arms_error(arms, 4, corrected=True) <= 0.055
    assert simulation.arms_error(arms, 4, corrected=False) > 0.08


@pytest.mark.parametrize("pairs", [4, 5, 6, 7, 8, 9, 10])
def test_looking_after_every_pair_errs_as_one_look(pairs: int) -> None:
    alpha = stats.look_alpha(pairs)
    assert alpha is not None
    assert simulation.looking_error(pairs, alpha) <= 0.055


def test_looking_at_five_percent_each_time_would_err_twice_as_often() -> None:
    assert simulation.looking_error(6, 0.05) > 0.1


@pytest.mark.parametrize("pairs", [1, 2, 3, 11])
def test_there_is_no_plan_of_looks_outside_what_was_simulated(pairs: int) -> None:
    assert stats.look_alpha(pairs) is None


@pytest.mark.parametrize(
    ("pairs", "percents"),
    [
        (3, (2.3, 4.7, 9.7, 14.9)),
        (4, (1.5, 3.1, 6.2, 9.4)),
        (6, (1.0, 2.0, 4.1, 6.3)),
        (10, (0.7, 1.4, 2.9, 4.3)),
    ],
)
def test_the_smallest_effect_is_what_the_noncentral_t_says(pairs: int, percents: tuple[float, ...]) -> None:
    for trial_sd, percent in zip((0.005, 0.01, 0.02, 0.03), percents, strict=True):
        found = stats.smallest_effect(trial_sd=trial_sd, pairs=pairs)
        assert found is not None
        assert 100 * found == pytest.approx(percent, abs=0.06)


def test_the_smallest_effect_is_seen_four_times_out_of_five() -> None:
    effect = stats.smallest_effect(trial_sd=0.01, pairs=4)
    assert effect is not None
    assert simulation.detection(math.log1p(effect), 0.01, 4) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("trial_sd", "pairs"), [(0.0, 4), (math.nan, 4), (math.inf, 4), (0.01, 1)])
def test_no_smallest_effect_is_made_up(trial_sd: float, pairs: int) -> None:
    assert stats.smallest_effect(trial_sd=trial_sd, pairs=pairs) is None


def test_the_paired_interval_is_scipys() -> None:
    d = [0.11, 0.08, 0.13, 0.1]
    found = stats.paired(d)
    theirs = scipy_stats.ttest_1samp(d, 0.0)
    interval = theirs.confidence_interval()
    assert found is not None
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.p, found.df) == (pytest.approx(theirs.pvalue), 3)


def test_the_regression_takes_a_drift_out_that_the_pairs_keep() -> None:
    flags = [False, True, True, False, False, True]
    noise = [0.001, -0.002, 0.0015, -0.001, 0.002, -0.0005]
    logs = [5 + 0.05 * flag + 0.04 * at + noise[at] for at, flag in enumerate(flags)]
    by_regression = stats.regression(logs, flags)
    by_pairs = stats.paired([logs[1] - logs[0], logs[2] - logs[3], logs[5] - logs[4]])
    assert by_regression is not None and by_pairs is not None
    assert by_regression.low < 0.05 < by_regression.high
    assert by_regression.high - by_regression.low < (by_pairs.high - by_pairs.low) / 5


@pytest.mark.parametrize(
    "d", [[], [0.1], [0.1, math.nan, 0.1], [0.1, math.inf], [0.1, 0.1, 0.1], [0.0, 0.0], [0.3, 0.3 + 1e-16]]
)
def test_what_cannot_be_computed_is_never_significant(d: list[float]) -> None:
    assert stats.paired(d) is None


@pytest.mark.parametrize(
    ("logs", "flags"),
    [
        ([1.0, 2.0, 3.0], [True, False, True]),
        ([1.0, 2.0, 1.5, math.nan], [True, False, True, False]),
        ([1.0, 2.0, 1.5, 1.0], [True] * 4),
        ([1.0, 2.0, 2.0, 1.0], [False, True, True, False]),
    ],
)
def test_a_regression_that_cannot_be_is_none(logs: list[float], flags: list[bool]) -> None:
    assert stats.regression(logs, flags) is None


def test_p_without_spread_is_one() -> None:
    p = stats.p_values(np.array([0.5, math.nan, 0.5]), np.array([0.0, 0.1, math.nan]), 3)
    assert p.tolist() == [1.0, 1.0, 1.0]


def test_holm_steps_down_and_never_below_what_came_before() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.2]).tolist() == pytest.approx([0.04, 0.09, 0.09, 0.2])
    assert stats.holm([0.9, 0.6]).tolist() == [1.0, 1.0]
    assert stats.holm([math.nan, 0.01]).tolist() == [1.0, 0.02]


def test_equivalence_needs_the_whole_90_percent_interval_within_the_margin() -> None:
    tight = stats.paired([0.001, -0.002, 0.0015, 0.0])
    wide = stats.paired([0.05, -0.06, 0.02, 0.0])
    beyond = stats.paired([0.05, 0.051, 0.049, 0.0505])
    assert tight and wide and beyond
    assert stats.equivalent(tight, 0.02) < 0.001
    assert stats.equivalent(wide, 0.02) > 0.2
    assert stats.equivalent(beyond, 0.02) > 0.9


def test_the_figures_of_the_docs_are_those_of_the_simulation() -> None:
    made = runpy.run_path(str(DOCS / "make_statistics.py"))
    page = (DOCS / "statistics.md").read_text()
    assert made["page"](page) == page, "run: python docs/make_statistics.py"
