"""A run that was cut short: what of it is left to do, and whether it may be gone on with.

Owns: the names of further attempts, the levels a sweep has and lacks, what must be as it was. Refuses: to
measure a level again that was kept, valid or void; only one that its server did not survive is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oeactl.core.compare import told_apart
from oeactl.core.evidence import Target
from oeactl.core.run import PlannedTrial, PointRecord, Run, Trial


def attempt(planned: PlannedTrial, trials: Sequence[Trial]) -> str:
    """The trial's name; a further try of one that was cut short has a number of its own."""
    before = sum(trial.order == planned.order for trial in trials)
    return f"{planned.name}-{before + 1}" if before else planned.name


def kept_levels(run: Run) -> tuple[PointRecord, ...]:
    """The levels of a lone sweep over all its attempts, in the plan's order; of each the last one kept."""
    found = {point.index: point for trial in run.trials for point in trial.points}
    return tuple(found[index] for index in sorted(found))


def sweeps_of(run: Run) -> tuple[Trial, ...]:
    """The trials; the attempts at a lone sweep as one: the last of them, with the levels of all."""
    if run.plan.design is not None or len(run.trials) < 2:
        return run.trials
    return (msgspec.structs.replace(run.trials[-1], points=kept_levels(run)),)


def done_levels(run: Run) -> tuple[PointRecord, ...]:
    """Those that are not measured again: all that were kept, but for one that its server did not survive."""
    fatal = [t.points[-1] for t in run.trials if t.outcome == "server_lost" and t.points]
    return tuple(point for point in kept_levels(run) if point not in fatal)


def is_over(run: Run) -> bool:
    """Whether a lone sweep has nothing left: one of its attempts came to the plan's end."""
    whole = len(done_levels(run)) == len(run.plan.sweep.points)
    return whole or any(trial.outcome == "completed" for trial in run.trials)


def changed(before: Trial, now: Trial) -> tuple[str, ...]:
    """What is no longer as it was when the sweep began, so that its levels would not belong together."""
    named = list(told_apart(before, now))
    if [recipe.digest for recipe in before.recipes] != [recipe.digest for recipe in now.recipes]:
        named.append("the recipes")
    if _hashes(before.targets) != _hashes(now.targets):
        named.append("the engine's files")
    return tuple(named)


def _hashes(targets: Sequence[Target]) -> dict[str, str]:
    """The files as they were when a trial began."""
    return {target.path: target.before_sha256 for target in targets}
