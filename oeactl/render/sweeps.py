"""What is said of a sweep as a whole: how far it went, where it saturated, which attempts it took.

Owns: those lines. Refuses: tables (results.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from oeactl.core import series
from oeactl.core.load import Sweep
from oeactl.core.results import reached
from oeactl.core.run import PointRecord, Run, Trial
from oeactl.core.saturation import Saturation, gain

_KINDS = {
    "knee": "saturated",
    "queueing": "saturated by queueing, not by a knee",
    "target": "a target is broken",
}


def level_name(point: PointRecord) -> str:
    """Streams of a closed loop, or arrivals a second."""
    return series.level_name(point.point)


def how_far(sweep: Sweep, trial: Trial) -> Iterable[str]:
    """Why the sweep ended before its last level; where it should have and did not, what that one gained."""
    if trial.saturation is not None:
        yield _saturated(trial.saturation)
    elif sweep.until_saturated and trial.outcome == "completed":
        yield _not_saturated(trial)


def _saturated(found: Saturation) -> str:
    pays = f"level {found.concurrency} is the last that pays" if found.concurrency else "no level pays"
    return f"{_KINDS[found.kind]}, {pays}: {found.reason}"


def _not_saturated(trial: Trial) -> str:
    valid = [point for point in trial.points if point.valid]
    if len(valid) < 2:
        return "whether it is saturated cannot be told from fewer than two valid levels"
    gained = gain(reached(valid[-2]), reached(valid[-1]))
    return f"not saturated: at the last level, {level_name(valid[-1])}, a doubling still gains {gained:+.1%}"


def earlier_attempts(run: Run, last: Trial) -> Iterable[str]:
    """Of a sweep that was gone on with: which levels an earlier attempt measured, and on which server."""
    for trial in run.trials if run.plan.design is None else ():
        if trial.name == last.name or not trial.points:
            continue
        levels = ", ".join(level_name(point) for point in trial.points)
        same = (trial.server.pid, trial.server.start_ticks) == (last.server.pid, last.server.start_ticks)
        on = "the same start" if same else "another start"
        yield f"level {levels}: at {trial.started_at:%H:%M} UTC, on {on} of the server"
