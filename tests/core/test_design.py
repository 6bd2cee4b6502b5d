"""The order of restarts: fair to both arms, drawn from the seed alone, fixed before the first trial."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.design import arrange, sweeps
from oeactl.core.load import make_sweep
from oeactl.errors import UsageError

BASE = make_sweep((64, 128, 256), input_len=64, output_len=32, seed=42, requests=640)


def line(pairs: int, seed: int, arms: str = "AB") -> str:
    return "".join(slot.arm for slot in arrange(tuple(arms), pairs, random.Random(seed)))


@given(pairs=st.integers(1, 12), seed=st.integers(0, 10**6), count=st.integers(2, 5))
def test_every_pair_has_each_arm_once_and_every_block_is_mirrored(pairs: int, seed: int, count: int) -> None:
    arms = "ABCDE"[:count]
    order = line(pairs, seed, arms)
    rows = [order[at : at + count] for at in range(0, len(order), count)]
    assert len(rows) == pairs
    assert all(sorted(row) == sorted(arms) for row in rows)
    assert all(rows[at + 1] == rows[at][::-1] for at in range(0, pairs - 1, 2))


def test_blocks_are_abba_or_baab_and_either_comes_first() -> None:
    drawn = {line(2, seed) for seed in range(40)}
    assert drawn == {"ABBA", "BAAB"}
    assert len({line(8, seed) for seed in range(40)}) > 8


def test_an_odd_last_pair_is_in_random_order() -> None:
    assert {line(3, seed)[4:] for seed in range(40)} == {"AB", "BA"}


def test_a_linear_drift_falls_on_both_arms_alike() -> None:
    slots = arrange(("A", "B"), 4, random.Random(7))
    assert sum(s.order for s in slots if s.arm == "A") == sum(s.order for s in slots if s.arm == "B")


def test_trials_are_named_in_their_order() -> None:
    slots = arrange(("A", "B"), 2, random.Random(1))
    assert [slot.name for slot in slots] == [f"{at:03d}-{slot.arm}" for at, slot in enumerate(slots, 1)]
    assert [(slot.pair, slot.block) for slot in slots] == [(1, 1), (1, 1), (2, 1), (2, 1)]


def test_levels_are_shuffled_by_pair_and_no_prompts_are_shared_across_pairs() -> None:
    made = sweeps(BASE, 6, random.Random(3))
    orders = {tuple(point.concurrency for point in sweep.points) for sweep in made}
    assert len(orders) > 1
    assert {frozenset(order) for order in orders} == {frozenset({64, 128, 256})}
    seeds = [seed for sweep in made for point in sweep.points for seed in (point.seed, point.warmup_seed)]
    assert len(set(seeds)) == len(seeds)
    assert all(point.requests == 640 and point.input_len == 64 for sweep in made for point in sweep.points)


def test_the_same_seed_gives_the_same_plan() -> None:
    assert line(7, 5) == line(7, 5)
    assert sweeps(BASE, 4, random.Random(5)) == sweeps(BASE, 4, random.Random(5))


@pytest.mark.parametrize(("arms", "pairs"), [(("A",), 2), (("A", "A"), 2), (("A", "B"), 0)])
def test_what_compares_nothing_is_refused(arms: tuple[str, ...], pairs: int) -> None:
    with pytest.raises(UsageError):
        arrange(arms, pairs, random.Random(1))
