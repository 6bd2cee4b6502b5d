"""From the trials of a plan to what they allow one to say, arm by arm against the first.

Owns: which points are compared (valid on both sides, equal completed work, every pair), and which words the
interval earns. Refuses: formulas (``stats.py``), a level that one arm lacks, and "no difference".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log, log1p

from oeactl.core import stats
from oeactl.core.caches import unequal
from oeactl.core.experiment import Design, Effect, LevelEffect, Says, Verdict
from oeactl.core.load import Point
from oeactl.core.run import Plan, PlannedTrial, PointRecord, Trial

Level = tuple[int, int, int]
#: ln tok/s of the first arm and of the other.
Logs = tuple[float, float]


def is_finished(trial: Trial) -> bool:
    """Whether it is a result, if only of a failure; one that was cut short is tried again."""
    return trial.failure is not None or trial.outcome in ("completed", "server_lost")


def result_of(planned: PlannedTrial, trials: Sequence[Trial]) -> Trial | None:
    """The finished trial of a place in the plan, whichever attempt it was."""
    return next((t for t in trials if t.order == planned.order and is_finished(t)), None)


def level_of(point: Point) -> Level:
    """What makes two points the same load."""
    return (point.concurrency, point.input_len, point.output_len)


def verdicts(plan: Plan, trials: Sequence[Trial]) -> tuple[Verdict, ...]:
    """One verdict an arm after the first; the error of a plan is shared by its arms."""
    if plan.design is None:
        return ()
    first, *others = plan.arms
    alpha = plan.design.alpha / len(others)
    return tuple(
        _Comparison(plan, plan.design, trials, first.name, other.name, alpha).verdict() for other in others
    )


def settled(found: Sequence[Verdict]) -> bool:
    """Whether a look may end the run: every arm's interval excludes no difference."""
    return bool(found) and all(verdict.says in ("improved", "regressed") for verdict in found)


class _Comparison:
    """One arm against another over all pairs so far."""

    def __init__(
        self, plan: Plan, design: Design, trials: Sequence[Trial], first: str, other: str, alpha: float
    ) -> None:
        self._design = design
        self._alpha = alpha
        self._first, self._other = first, other
        self._wanted = [level_of(point) for point in plan.sweep.points]
        self._reasons: list[str] = []
        self._orders: dict[int, tuple[int, int]] = {}
        self._pairs = self._compared(plan, trials)

    def verdict(self) -> Verdict:
        """The whole verdict."""
        shared = [level for level in self._wanted if all(level in pair for pair in self._pairs.values())]
        if not self._pairs or not shared:
            why = tuple(self._reasons) or ("no pair was measured",)
            return Verdict(arm=self._other, against=self._first, says="void", reasons=why)
        for level in self._wanted:
            if level not in shared:
                self._reasons.append(f"level {level[0]} is left out: it does not hold in every pair")
        estimate = self._estimate(shared, self._alpha)
        says, material, within = _words(estimate, self._design.margin, self._alpha)
        return Verdict(
            arm=self._other,
            against=self._first,
            says=says,
            material=material,
            within_margin=within,
            effect=self._effect(shared, estimate, self._alpha),
            levels=tuple(level[0] for level in shared),
            by_level=self._by_level(),
            trial_sd=estimate.trial_sd if estimate else None,
            smallest_effect=self._seen(estimate),
            reasons=tuple(self._reasons),
        )

    def _compared(self, plan: Plan, trials: Sequence[Trial]) -> dict[int, dict[Level, Logs]]:
        """pair -> level -> ln tok/s of both arms; pairs without any common level are named and left out."""
        kept: dict[int, dict[Level, Logs]] = {}
        for pair in range(1, self._design.pairs + 1):
            planned = {trial.arm: trial for trial in plan.trials if trial.pair == pair}
            one, other = (planned.get(name) for name in (self._first, self._other))
            if one is None or other is None:
                continue
            a, b = result_of(one, trials), result_of(other, trials)
            if a is None or b is None:
                continue
            levels = self._levels(pair, a, b)
            if levels:
                kept[pair] = levels
                self._orders[pair] = (one.order, other.order)
        return kept

    def _levels(self, pair: int, one: Trial, other: Trial) -> dict[Level, Logs]:
        for trial in (one, other):
            if trial.failure is not None and not trial.points:
                self._reasons.append(f"pair {pair} is left out: {trial.name} {_failed(trial)}")
                return {}
        warmth = unequal(one.caches, other.caches, (one.name, other.name), self._design.caches)
        if warmth is not None:
            self._reasons.append(f"pair {pair} is left out: {warmth}")
            return {}
        found: dict[Level, Logs] = {}
        lacking = []
        for level in self._wanted:
            a, b = _point(one, level), _point(other, level)
            why = _not_comparable(a, b)
            if why is None and a is not None and b is not None and a.measurement and b.measurement:
                found[level] = (
                    log(a.measurement.output_tokens_per_s),
                    log(b.measurement.output_tokens_per_s),
                )
            else:
                lacking.append(f"level {level[0]} ({why})")
        if lacking:
            self._reasons.append(f"pair {pair} lacks {', '.join(lacking)}")
        return found

    def _estimate(self, levels: Sequence[Level], alpha: float) -> stats.Estimate | None:
        pairs = {n: pair for n, pair in self._pairs.items() if all(level in pair for level in levels)}
        if self._design.analysis == "paired":
            return stats.paired(
                [_mean(pair, levels, 1) - _mean(pair, levels, 0) for pair in pairs.values()], alpha
            )
        rows = sorted(
            (self._orders[n][side], _mean(pair, levels, side), bool(side))
            for n, pair in pairs.items()
            for side in (0, 1)
        )
        return stats.regression(
            [row[1] for row in rows], [row[2] for row in rows], alpha, order=[row[0] for row in rows]
        )

    def _effect(
        self, levels: Sequence[Level], estimate: stats.Estimate | None, alpha: float
    ) -> Effect | None:
        pairs = [pair for pair in self._pairs.values() if all(level in pair for level in levels)]
        if not pairs:
            return None
        mean = sum(_mean(pair, levels, 1) - _mean(pair, levels, 0) for pair in pairs) / len(pairs)
        return Effect(
            ratio=exp(estimate.mean if estimate else mean),
            low=exp(estimate.low) if estimate else None,
            high=exp(estimate.high) if estimate else None,
            p=estimate.p if estimate else None,
            confidence=1 - alpha,
            pairs=len(pairs),
        )

    def _by_level(self) -> tuple[LevelEffect, ...]:
        """Each level by itself: its interval as wide as all of them together need, its p by Holm."""
        alpha = self._alpha / len(self._wanted)
        estimates = {level: self._estimate([level], alpha) for level in self._wanted}
        judged = [level for level in self._wanted if estimates[level] is not None]
        p = [estimate.p for level in judged if (estimate := estimates[level]) is not None]
        adjusted = dict(zip(judged, (float(one) for one in stats.holm(p)), strict=True)) if p else {}
        return tuple(
            LevelEffect(
                concurrency=level[0],
                input_len=level[1],
                output_len=level[2],
                effect=self._effect([level], estimates[level], alpha),
                p_adjusted=adjusted.get(level),
                shown=adjusted.get(level, 1.0) < self._alpha,
            )
            for level in self._wanted
        )

    def _seen(self, estimate: stats.Estimate | None) -> float | None:
        if estimate is None:
            return None
        return stats.smallest_effect(trial_sd=estimate.trial_sd, pairs=len(self._pairs), alpha=self._alpha)


def _words(estimate: stats.Estimate | None, margin: float, alpha: float) -> tuple[Says, bool, bool]:
    """says, material, within the margin. Without an estimate nothing is said."""
    if estimate is None:
        return "inconclusive", False, False
    bound = log1p(margin)
    within = stats.equivalent(estimate, margin) < alpha
    if estimate.low > 0:
        return "improved", estimate.low > bound, within
    if estimate.high < 0:
        return "regressed", estimate.high < -bound, within
    return ("equivalent" if within else "inconclusive"), False, within


def _mean(pair: Mapping[Level, Logs], levels: Sequence[Level], side: int) -> float:
    return sum(pair[level][side] for level in levels) / len(levels)


def _point(trial: Trial, level: Level) -> PointRecord | None:
    return next((point for point in trial.points if level_of(point.point) == level), None)


def _not_comparable(one: PointRecord | None, other: PointRecord | None) -> str | None:
    """Why two points may not be compared; None where they may."""
    for point in (one, other):
        if point is None or point.measurement is None:
            return "not measured" if point is None or not point.reasons else f"void: {point.reasons[0]}"
        if not point.valid:
            return f"void: {point.reasons[0]}" if point.reasons else "void"
        if not point.measurement.output_tokens_per_s > 0:
            return "no tokens"
    assert one is not None and other is not None and one.measurement and other.measurement
    if one.workload_sha256 != other.workload_sha256:
        return "other prompts"
    if one.measurement.output_tokens != other.measurement.output_tokens:
        return "another number of output tokens"
    return None


def _failed(trial: Trial) -> str:
    assert trial.failure is not None
    return f"was {trial.failure.kind}: {trial.failure.first_error or trial.failure.what}"
