"""What past runs tell before a new one: how long a trial takes on that host, and how much restarts vary.

Owns: which past trials count: of the same host, engine, model and load. Refuses: a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log, sqrt
from statistics import fmean, median

from oeactl.core.load import Point, Sweep
from oeactl.core.run import Run, Trial


def trial_seconds(runs: Iterable[Run], host: str, sweep: Sweep) -> float | None:
    """The median time of whole fresh trials of this very load on ``host``, restart included; None unknown."""
    wanted = _load(sweep.points)
    took = [
        (trial.ended_at - trial.started_at).total_seconds()
        for run in runs
        for trial in run.trials
        if _counts(trial, host, wanted) and trial.ended_at is not None
    ]
    return median(took) if took else None


def gpus_used(runs: Sequence[Run], host: str) -> int | None:
    """How many GPUs the server on ``host`` last said that it uses; None where it never did."""
    told = (trial.server.gpus for run in reversed(runs) for trial in run.trials if trial.host.name == host)
    return next((gpus for gpus in told if gpus is not None), None)


def known_sd(
    runs: Iterable[Run], host: str, sweep: Sweep, *, engine: str | None, model_sha256: str | None
) -> float | None:
    """SD of ln tok/s, mean over levels, over restarts of the pristine engine, pooled over runs; or None."""
    wanted = _load(sweep.points)
    squares, df = 0.0, 0
    for run in runs:
        plain = {arm.name for arm in run.plan.arms if arm.plain}
        logs = [
            value
            for trial in run.trials
            if _counts(trial, host, wanted)
            and trial.arm in plain
            and (trial.engine.version, trial.model.config_sha256) == (engine, model_sha256)
            and (value := _mean_log(trial)) is not None
        ]
        if len(logs) >= 2:
            center = fmean(logs)
            squares += sum((value - center) ** 2 for value in logs)
            df += len(logs) - 1
    return sqrt(squares / df) if df and squares > 0 else None


def _load(points: Sequence[Point]) -> frozenset[tuple[int, int, int, int]]:
    return frozenset((p.concurrency, p.input_len, p.output_len, p.requests) for p in points)


def _counts(trial: Trial, host: str, wanted: frozenset[tuple[int, int, int, int]]) -> bool:
    return (
        trial.start == "fresh"
        and trial.pair is not None
        and trial.outcome == "completed"
        and trial.host.name == host
        and _load([point.point for point in trial.points]) == wanted
    )


def _mean_log(trial: Trial) -> float | None:
    rates = [
        point.measurement.output_tokens_per_s
        for point in trial.points
        if point.valid and point.measurement is not None
    ]
    return fmean(map(log, rates)) if len(rates) == len(trial.points) and min(rates) > 0 else None
