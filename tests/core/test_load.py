"""Levels: what --concurrency takes, the defaults, and prompts that no two levels share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.inventory import BenchSpec
from oeactl.core.load import (
    CONCURRENCIES,
    INPUT_LEN,
    OUTPUT_LEN,
    SEED,
    by_rate,
    make_point,
    make_sweep,
    parse_concurrency,
    parse_rates,
)
from oeactl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("64,128,256", (64, 128, 256)),
        ("1", (1,)),
        (" 8 , 4 ", (8, 4)),
        ("128,1", (128, 1)),
        ("8..64x2", (8, 16, 32, 64)),
        ("8..60", (8, 16, 32)),
        ("1..81x3", (1, 3, 9, 27, 81)),
        ("4..12+4,100", (4, 8, 12, 100)),
    ],
)
def test_a_list_of_levels_is_taken_in_the_order_given(text: str, levels: tuple[int, ...]) -> None:
    assert parse_concurrency(text) == levels


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0", "sends nothing"),
        ("4,00", "sends nothing"),
        ("a,b", "'a' is not a level"),
        ("4,b", "'b' is not a level"),
        ("", "an empty level"),
        ("4,,8", "an empty level"),
        ("4,", "an empty level"),
        ("-1", "'-1' is not a level"),
        ("1.5", "'1.5' is not a level"),
        ("1e3", "'1e3' is not a level"),
        ("1_0", "'1_0' is not a level"),
        ("٣", "'٣' is not a level"),
        ("9999999999", "is not a level"),
        ("4,8,4", "level 4 is given twice"),
        ("4,04", "level 4 is given twice"),
        ("8..4x2", "'8..4x2' goes nowhere"),
        ("1..8x1", "'1..8x1' goes nowhere"),
        ("1..8+0", "'1..8+0' goes nowhere"),
        ("0..8", "sends nothing"),
        ("8..512x", "is not a level"),
        ("8..16,16", "level 16 is given twice"),
        ("1..999999999+1", "more than a sweep takes"),
    ],
)
def test_what_is_no_list_of_levels_is_refused_with_the_piece(text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_concurrency(text)
    assert says in refused.value.what
    assert refused.value.where == "--concurrency"
    assert refused.value.hint and "64,128,256" in refused.value.hint


def test_rates_make_levels_of_half_a_minute_with_prompts_of_their_own() -> None:
    sweep = by_rate(make_sweep((256,), seed=1), parse_rates("0.2, 8,4.5"))
    assert [(p.rate, p.requests, p.concurrency) for p in sweep.points] == [
        (0.2, 16, 256),
        (8.0, 240, 256),
        (4.5, 135, 256),
    ]
    seeds = [seed for point in sweep.points for seed in (point.seed, point.warmup_seed)]
    assert len(set(seeds)) == len(seeds)
    with pytest.raises(UsageError, match="one --concurrency"):
        by_rate(make_sweep((1, 4)), (1.0,))


@pytest.mark.parametrize("text", ["0", "-1", "a", "1e3", "", "4,4", "nan"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no rate"):
        parse_rates(text)


def test_the_defaults_are_those_of_hosts_yaml() -> None:
    spec = BenchSpec()
    assert (
        spec.concurrency,
        spec.input_len,
        spec.output_len,
        spec.seed,
    ) == (CONCURRENCIES, INPUT_LEN, OUTPUT_LEN, SEED)


@pytest.mark.parametrize(("concurrency", "requests", "warm_up"), [(1, 16, 2), (2, 20, 4), (128, 1280, 256)])
def test_a_level_sends_ten_requests_a_stream_and_sixteen_at_least(
    concurrency: int, requests: int, warm_up: int
) -> None:
    point = make_point(concurrency, input_len=512, output_len=256, seed=1)
    assert (point.requests, point.warmup_requests) == (requests, warm_up)


def test_fewer_requests_than_streams_are_refused() -> None:
    with pytest.raises(UsageError, match="cannot keep 64 in flight"):
        make_point(64, input_len=1, output_len=1, seed=1, requests=63)


def test_no_level_at_all_is_refused() -> None:
    with pytest.raises(UsageError):
        make_sweep(())


@given(st.integers(0, 2**40), st.integers(1, 2000), st.integers(1, 2000))
def test_no_two_levels_of_a_sweep_nor_their_warm_ups_share_prompts(
    seed: int, input_len: int, output_len: int
) -> None:
    sweep = make_sweep(input_len=input_len, output_len=output_len, seed=seed)
    seeds = [s for point in sweep.points for s in (point.seed, point.warmup_seed)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= s < 2**31 for s in seeds)


def test_a_level_has_the_same_prompts_whatever_stands_beside_it_in_the_sweep() -> None:
    alone, among = make_sweep((16,)), make_sweep((1, 16, 4))
    assert alone.points[0] == among.points[1]
    assert make_sweep((16,), seed=43).points[0].seed != alone.points[0].seed
