"""In which order arms are restarted and levels measured: fixed, from a seed, before the first trial.

Owns: the blocks (ABBA, the first arm drawn), the order of levels, the prompts of each pair. Refuses: chance
of its own: a ``random.Random`` comes in, so that the same seed gives the same plan.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from oeactl.core.host import Value
from oeactl.core.load import Point, Sweep, make_sweep
from oeactl.errors import UsageError


class Slot(Value, frozen=True, kw_only=True):
    """One restart. pair: one restart of every arm; block: two pairs, the second the first turned round."""

    arm: str
    order: int
    pair: int
    block: int

    @property
    def name(self) -> str:
        """``003-B``: also the trial's file."""
        return f"{self.order:03d}-{self.arm}"


def arrange(arms: Sequence[str], pairs: int, rng: random.Random) -> tuple[Slot, ...]:
    """Order ``pairs`` restarts of each arm: in every block of two pairs the second mirrors the first.

    A drift that is linear over the restarts then falls on all arms alike. An odd last pair is in random
    order. Raises UsageError for fewer than two arms or one pair.
    """
    if len(arms) < 2 or len(set(arms)) != len(arms):
        raise UsageError("a comparison needs two arms that differ")
    if pairs < 1:
        raise UsageError("a comparison needs at least one pair", where="--pairs", hint="--pairs 4")
    slots: list[Slot] = []
    order: list[str] = []
    for pair in range(1, pairs + 1):
        order = rng.sample(list(arms), len(arms)) if pair % 2 else order[::-1]
        for arm in order:
            slots.append(Slot(arm=arm, order=len(slots) + 1, pair=pair, block=(pair + 1) // 2))
    return tuple(slots)


def fitting_pairs(budget_s: float, trial_s: float, arms: int, *, warm: bool) -> int:
    """As many pairs as fit into ``budget_s``, the starts to warm up and the one to leave counted in."""
    restarts = int(budget_s // trial_s) - (arms if warm else 0) - 1
    return max(0, restarts // arms)


def sweeps(base: Sweep, pairs: int, rng: random.Random) -> tuple[Sweep, ...]:
    """A sweep a pair, the same in all arms: levels in an order of its own, prompts that no other pair has."""
    made: list[Sweep] = []
    seeds: set[int] = set()
    for _ in range(pairs):
        seed = rng.getrandbits(31)
        while seed in seeds:
            seed = rng.getrandbits(31)
        seeds.add(seed)
        made.append(_reseeded(base, rng.sample(list(base.points), len(base.points)), seed))
    return tuple(made)


def warm_sweep(base: Sweep, rng: random.Random) -> Sweep:
    """One wave of requests a level, for a start whose figures count for nothing."""
    points = [msgspec.structs.replace(point, requests=point.concurrency) for point in base.points]
    return _reseeded(base, points, rng.getrandbits(31))


def _reseeded(base: Sweep, points: Sequence[Point], seed: int) -> Sweep:
    drawn = [
        make_sweep(
            (point.concurrency,),
            input_len=point.input_len,
            output_len=point.output_len,
            seed=seed,
            requests=point.requests,
        ).points[0]
        for point in points
    ]
    return msgspec.structs.replace(base, points=tuple(drawn), seed=seed)
