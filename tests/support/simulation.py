"""Thousands of made-up experiments at once, judged by the very formulas that judge real ones.

Figures are logarithms of a rate, one a restart; an arm's order comes from ``design.arrange``. The tests hold
the results to their limits, and ``docs/make_statistics.py`` writes them down.
"""

from __future__ import annotations

import random

import numpy as np

from oeactl.core import design, stats

SD = 0.015
STEP = 0.005
DRIFTS = ("none", "linear", "random walk")


def orders(pairs: int, seed: int, runs: int) -> np.ndarray:
    """Where each pair's A and B were restarted: [runs, pairs, 2] positions, from the real design."""
    rng = random.Random(seed)
    made = np.empty((runs, pairs, 2), dtype=int)
    for run in range(runs):
        for slot in design.arrange(("A", "B"), pairs, rng):
            made[run, slot.pair - 1, "AB".index(slot.arm)] = slot.order - 1
    return made


def logs(runs: int, pairs: int, drift: str, seed: int) -> np.ndarray:
    """ln y by restart, [runs, 2 pairs], without any effect."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, SD, (runs, 2 * pairs))
    if drift == "linear":
        return noise + STEP * np.arange(2 * pairs)
    if drift == "random walk":
        return noise + rng.normal(0, STEP, (runs, 2 * pairs)).cumsum(-1)
    return noise


def _places(pairs: int, seed: int, runs: int, few: int = 2000) -> np.ndarray:
    """Orders for many runs out of a few thousand drawn ones; each is used as often as any other."""
    drawn = orders(pairs, seed, min(runs, few))
    return np.resize(drawn, (runs, pairs, 2))


def coverage(pairs: int, drift: str, *, analysis: str = "paired", runs: int = 20_000, seed: int = 1) -> float:
    """How often the 95 % interval holds the truth, which is no difference."""
    y = logs(runs, pairs, drift, seed)
    places = _places(pairs, seed, runs)
    if analysis == "paired":
        arms = np.take_along_axis(y[:, None, :], places.reshape(runs, 1, -1), -1).reshape(runs, pairs, 2)
        mean, se = stats.paired_fit(arms[..., 1] - arms[..., 0])
        df = pairs - 1
        return float((np.abs(mean) <= stats.critical(df, 0.05) * se).mean())
    held = 0
    distinct, which = np.unique(places.reshape(runs, -1), axis=0, return_inverse=True)
    for at, order in enumerate(distinct):
        flags = np.zeros(2 * pairs)
        flags[order.reshape(pairs, 2)[:, 1]] = 1
        mean, se = stats.regression_fit(y[which.ravel() == at], flags, np.arange(2.0 * pairs))
        held += int((np.abs(mean) <= stats.critical(2 * pairs - 3, 0.05) * se).sum())
    return held / runs


def family_error(levels: int, pairs: int, *, corrected: bool, runs: int = 20_000, seed: int = 2) -> float:
    """How often at least one of the levels shows a difference that is not there."""
    d = np.random.default_rng(seed).normal(0, SD * np.sqrt(2), (runs, levels, pairs))
    mean, se = stats.paired_fit(d)
    p = stats.p_values(mean, se, pairs - 1)
    return float(((stats.holm(p) if corrected else p) < 0.05).any(-1).mean())


def arms_error(arms: int, pairs: int, *, corrected: bool, runs: int = 20_000, seed: int = 5) -> float:
    """How often any of ``arms`` arms, all alike, is shown to differ from the first, which they share."""
    y = np.random.default_rng(seed).normal(0, SD, (runs, arms, pairs))
    mean, se = stats.paired_fit(y[:, 1:] - y[:, :1])
    alpha = 0.05 / (arms - 1) if corrected else 0.05
    return float((stats.p_values(mean, se, pairs - 1) < alpha).any(-1).mean())


def looking_error(pairs: int, alpha: float, *, runs: int = 40_000, seed: int = 3) -> float:
    """How often a plan that looks after every pair from the third on ever shows a difference not there."""
    d = np.random.default_rng(seed).normal(0, SD * np.sqrt(2), (runs, pairs))
    ever = np.zeros(runs, dtype=bool)
    for seen in range(stats.FIRST_LOOK, pairs + 1):
        mean, se = stats.paired_fit(d[:, :seen])
        ever |= stats.p_values(mean, se, seen - 1) < alpha
    return float(ever.mean())


def detection(effect: float, trial_sd: float, pairs: int, *, runs: int = 20_000, seed: int = 4) -> float:
    """How often a true log-ratio is shown."""
    d = np.random.default_rng(seed).normal(effect, trial_sd * np.sqrt(2), (runs, pairs))
    mean, se = stats.paired_fit(d)
    return float((stats.p_values(mean, se, pairs - 1) < 0.05).mean())
