"""What a run measured, by arm and level: the rows that figures and tables are made of.

Owns: which trials count, and means of valid levels. Refuses: a void level among them, and to judge.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, fsum, log

from oeactl.core.host import Value
from oeactl.core.load import Measurement, Point
from oeactl.core.metrics import Spread
from oeactl.core.results import same_level
from oeactl.core.run import Arm, PointRecord, Run, Trial

Figure = Callable[[PointRecord, Measurement], float | None]


def counted(run: Run) -> tuple[Trial, ...]:
    """The trials whose figures count, in the order taken: not the starts that only warm up."""
    kept = [trial for trial in run.trials if run.plan.design is None or trial.pair is not None]
    return tuple(sorted(kept, key=lambda trial: (trial.order, trial.started_at)))


def levels(run: Run) -> tuple[Point, ...]:
    """The load levels, lightest first; of a matrix context by context."""

    def weight(point: Point) -> tuple[float, ...]:
        return (point.input_len, point.rate or 0.0, point.concurrency)

    return tuple(sorted(run.plan.sweep.points, key=weight))


def build_of(run: Run, arm: Arm) -> str:
    """What an arm is; of an engine that nobody could look at, that it is as it ran."""
    seen = not run.trials or run.trials[0].engine.root is not None
    return arm.described if seen else "as it ran, its files unseen"


class Line(Value, frozen=True, kw_only=True):
    """What a figure draws in one colour: an arm over the levels; of a matrix one context of its one arm."""

    name: str
    arm: str
    levels: tuple[Point, ...]


def lines(run: Run) -> tuple[Line, ...]:
    """The lines of a figure by level."""
    every, arms = levels(run), run.plan.arms
    if not run.plan.sweep.matrix:
        return tuple(Line(name=arm.name, arm=arm.name, levels=every) for arm in arms)
    contexts = dict.fromkeys(level.input_len for level in every)
    return tuple(
        Line(
            name=f"context {length}",
            arm=arms[0].name,
            levels=tuple(level for level in every if level.input_len == length),
        )
        for length in contexts
    )


def level_label(run: Run, level: Point) -> str:
    """A level's name, with its context where the run has several."""
    return level_name(level) + (f" at {level.input_len}" if run.plan.sweep.matrix else "")


def level_name(point: Point) -> str:
    """Streams of a closed loop, or arrivals a second."""
    return f"{point.concurrency}" if point.rate is None else f"{point.rate:g}/s"


def at_level(trial: Trial, level: Point) -> PointRecord | None:
    """The trial's record of that level, valid or not."""
    return next((one for one in trial.points if same_level(one.point, level)), None)


def figure_of(trial: Trial, level: Point, figure: Figure) -> float | None:
    """A figure of a valid level; None where there is none."""
    found = at_level(trial, level)
    if found is None or not found.valid or found.measurement is None:
        return None
    return figure(found, found.measurement)


def figures(run: Run, arm: str, level: Point, figure: Figure) -> tuple[tuple[Trial, float], ...]:
    """The figure in every trial of the arm in which the level is valid."""
    return tuple(
        (trial, value)
        for trial in counted(run)
        if trial.arm == arm and (value := figure_of(trial, level, figure)) is not None
    )


def mean(run: Run, arm: str, level: Point, figure: Figure) -> float | None:
    """The mean over the arm's restarts; None where no valid level has the figure."""
    found = [value for _, value in figures(run, arm, level, figure)]
    return fsum(found) / len(found) if found else None


def relative(run: Run, trial: Trial) -> float | None:
    """A trial's tok/s over the first arm's mean, as the geometric mean over the levels that both have."""
    first = run.plan.arms[0].name
    logs = []
    for level in levels(run):
        rate, base = figure_of(trial, level, output_rate), mean(run, first, level, output_rate)
        if rate and base:
            logs.append(log(rate / base))
    return exp(fsum(logs) / len(logs)) if logs else None


def card_spread(trial: Trial, name: str) -> Spread | None:
    """A reading of the server's cards over all levels of a trial; None where none was seen."""
    found = [
        reading
        for point in trial.points
        if point.watched is not None
        for card in point.watched.loaded
        if (reading := getattr(card, name)) is not None
    ]
    if not found:
        return None
    return Spread(
        min=min(one.min for one in found),
        mean=fsum(one.mean for one in found) / len(found),
        max=max(one.max for one in found),
    )


def output_rate(_: PointRecord, measured: Measurement) -> float | None:
    return measured.output_tokens_per_s


def per_gpu_rate(point: PointRecord, _: Measurement) -> float | None:
    return point.output_tokens_per_s_per_gpu


def mean_tpot_ms(_: PointRecord, measured: Measurement) -> float | None:
    return measured.tpot_ms.mean if measured.tpot_ms else None


def distinct_experts(point: PointRecord, _: Measurement) -> float | None:
    return point.experts.distinct_mean if point.experts else None


def unseen_because(run: Run) -> tuple[str, ...]:
    """Why distinct experts were looked for and not seen, each reason once."""
    looked = [point.experts for trial in counted(run) for point in trial.points if point.experts]
    return tuple(dict.fromkeys(one.reason for one in looked if one.outcome != "measured"))
