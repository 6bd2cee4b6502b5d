"""Cold and warm starts are told apart by their compilation caches, and never set against each other."""

from __future__ import annotations

import msgspec
import pytest

from oeactl.core.caches import CachesSeen, CacheState, Policy, caches_line, unequal
from oeactl.core.verdicts import verdicts
from tests.core.test_verdicts import a_comparison, measured


def seen(before: int, after: int | None) -> CachesSeen:
    def holding(files: int) -> tuple[CacheState, ...]:
        return (
            CacheState(name="triton", path="/c/triton", files=files, bytes=1000 * files),
            CacheState(name="inductor", path="/c/inductor", files=50, bytes=9),
        )

    return CachesSeen(before=holding(before), after=None if after is None else holding(after))


@pytest.mark.parametrize(
    ("before", "after", "written", "cold"),
    [
        (0, 200, 200, True),
        (200, 200, 0, False),
        (200, 210, 10, False),
        (200, 260, 60, True),
        (200, 100, 0, False),
        (0, 0, 0, False),
        (0, 2, 2, False),
        (200, None, None, None),
    ],
)
def test_a_start_is_cold_when_it_wrote_much_of_what_its_caches_hold(
    before: int, after: int | None, written: int | None, cold: bool | None
) -> None:
    found = seen(before, after)
    assert (found.written, found.cold) == (written, cold)


def test_one_cache_that_was_filled_is_not_hidden_by_a_large_one_that_was_not() -> None:
    large = CacheState(name="inductor", path="/c/inductor", files=5000, bytes=9)
    small = CacheState(name="triton", path="/c/triton", files=40, bytes=9)
    assert CachesSeen(before=(large,), after=(large, small)).cold


def test_a_cache_that_was_not_there_before_was_written() -> None:
    after = (CacheState(name="triton", path="/c/triton", files=9, bytes=9),)
    assert CachesSeen(before=(), after=after).cold


WARM, COLD, EMPTIED = seen(200, 200), seen(100, 200), CachesSeen(before=(), after=seen(0, 200).after)


@pytest.mark.parametrize(
    ("one", "other", "policy", "said"),
    [
        (WARM, WARM, "keep", None),
        (COLD, WARM, "keep", "cold compilation caches: 001-A (100 files) had to compile"),
        (WARM, COLD, "keep", "002-B (100 files)"),
        (COLD, COLD, "keep", "001-A (100 files) and 002-B (100 files)"),
        (None, WARM, "keep", None),
        (None, COLD, "keep", "002-B"),
        (None, None, "wipe", None),
        (EMPTIED, EMPTIED, "wipe", None),
        (COLD, EMPTIED, "wipe", "not empty"),
        (CachesSeen(before=(), after=()), EMPTIED, "wipe", "002-B had to compile"),
        (CachesSeen(before=(), after=()), CachesSeen(before=(), after=()), "wipe", None),
    ],
)
def test_a_pair_holds_where_both_were_as_warm_as_the_plan_says(
    one: CachesSeen | None, other: CachesSeen | None, policy: Policy, said: str | None
) -> None:
    found = unequal(one, other, ("001-A", "002-B"), policy)
    assert found is None if said is None else said in (found or "")


def test_a_first_run_penalty_is_left_out_of_the_verdict_and_named() -> None:
    """The first start compiles everything, and is a third slower for it; nobody warmed up before."""
    plan = a_comparison(pairs=4)
    trials = measured(plan, {})
    first = trials[0]
    slow = [
        msgspec.structs.replace(
            point,
            measurement=msgspec.structs.replace(
                point.measurement, output_tokens_per_s=point.measurement.output_tokens_per_s / 1.5
            ),
        )
        for point in first.points
        if point.measurement
    ]
    trials = [msgspec.structs.replace(trial, caches=WARM) for trial in trials]
    trials[0] = msgspec.structs.replace(first, caches=EMPTIED, points=tuple(slow))
    (found,) = verdicts(plan, trials)
    assert found.effect is not None and found.effect.pairs == 3
    assert found.effect.ratio == pytest.approx(1.0, rel=0.02)
    assert any(reason.startswith("pair 1 is left out: cold compilation caches") for reason in found.reasons)


def test_caches_are_told_in_a_line() -> None:
    assert caches_line(seen(1204, None).before) == (
        "triton 1,204 files, 1.2 MB (/c/triton); inductor 50 files, 9 B (/c/inductor)"
    )
