"""E[T], and what OEA leaves of it: against chance itself, the paper, and what a real server did."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.experts import (
    Hardware,
    distinct_by_shares,
    expected_distinct,
    expected_kept,
    parse_counts,
    predict,
)
from oeactl.errors import UsageError

A_MODEL = Hardware(
    name="small",
    source="made up",
    gpus=2,
    bandwidth_bytes_per_s=1e12,
    experts=64,
    top_k=4,
    moe_layers=10,
    hidden=1000,
    expert_hidden=1000,
    bits_per_weight=8,
)


def drawn(experts: int, top_k: int, k0: int, batch: int, trials: int) -> tuple[float, float]:
    """Monte Carlo: distinct experts as routed, and after OEA's two phases, slot by slot."""
    chance = random.Random(7)
    routed, kept = 0, 0
    for _ in range(trials):
        orders = [chance.sample(range(experts), experts) for _ in range(batch)]
        routed += len({expert for order in orders for expert in order[:top_k]})
        baseline = {expert for order in orders for expert in order[:k0]}
        used = {e for order in orders for e in [e for e in order if e in baseline][:top_k]}
        kept += max(len(used), top_k)  # the engine names top_k experts, the surplus with weight 0
    return routed / trials, kept / trials


@pytest.mark.parametrize(
    ("experts", "top_k", "k0", "batch"),
    [(32, 4, 1, 2), (32, 4, 2, 3), (32, 4, 3, 1), (64, 8, 2, 4), (64, 8, 4, 16), (24, 6, 1, 9)],
)
def test_the_formulas_are_what_chance_does(experts: int, top_k: int, k0: int, batch: int) -> None:
    routed, kept = drawn(experts, top_k, k0, batch, trials=3000)
    assert routed == pytest.approx(expected_distinct(experts, top_k, batch), rel=0.01)
    assert kept == pytest.approx(expected_kept(experts, top_k, k0, batch), rel=0.015)


def test_an_endless_batch_uses_every_expert_and_is_no_endless_sum() -> None:
    assert expected_kept(256, 8, 1, 10**9) == 256


def test_the_figures_of_the_literature_come_out() -> None:
    """N = 256, k = 8 at batch 64, 128, 256; below, the baseline set of k0 = 4."""
    assert [round(expected_distinct(256, 8, b), 1) for b in (64, 128, 256)] == [222.4, 251.6, 255.9]
    assert [round(expected_kept(256, 8, 4, b), 1) for b in (64, 128, 256)] == [162.6, 221.9, 251.5]


def test_the_paper_s_gain_lies_between_two_k0() -> None:
    """arXiv:2511.02237: -39 % of MoE decode latency on Qwen3-30B (128 experts, 8 a token) at batch 16."""
    saved = [1 - expected_kept(128, 8, k0, 16) / expected_distinct(128, 8, 16) for k0 in (3, 5)]
    assert saved[1] < 0.39 < saved[0]


@pytest.mark.parametrize(("batch", "seen", "seen_kept"), [(4, 23.8, 8.0), (16, 45.9, 14.9), (32, 52.2, 18.9)])
def test_the_demo_s_server_saves_the_share_predicted_and_uses_fewer_than_uniform(
    batch: int, seen: float, seen_kept: float
) -> None:
    """SGLang 0.5.20 on a CPU, 128 experts, 8 a token, k0 = 2: distinct experts as make demo shows them."""
    routed, kept = expected_distinct(128, 8, batch), expected_kept(128, 8, 2, batch)
    assert seen < routed and seen_kept < kept + 0.05
    assert seen_kept / seen == pytest.approx(kept / routed, abs=0.1)


@given(st.integers(2, 64), st.integers(1, 8), st.integers(1, 40), st.data())
def test_oea_never_leaves_more_than_there_was_and_more_k0_leaves_more(
    experts: int, top_k: int, batch: int, data: st.DataObject
) -> None:
    top_k = min(top_k, experts)
    k0 = data.draw(st.integers(1, top_k))
    kept = expected_kept(experts, top_k, k0, batch)
    assert top_k - 1e-9 <= kept <= expected_distinct(experts, top_k, batch) + 1e-9
    assert kept <= expected_kept(experts, top_k, min(top_k, k0 + 1), batch) + 1e-9


def test_even_shares_are_the_uniform_formula_and_skewed_ones_use_fewer() -> None:
    even = [4 / 32] * 32
    assert distinct_by_shares(even, 8) == pytest.approx(expected_distinct(32, 4, 8))
    assert distinct_by_shares([1.0] * 4 + [0.0] * 28, 8) == 4
    assert distinct_by_shares(even, 8, of=0.5) == pytest.approx(expected_distinct(32, 2, 8))


def test_time_is_bytes_over_bandwidth_and_tokens_follow_the_shorter_step() -> None:
    assert A_MODEL.expert_bytes == 3e6
    assert A_MODEL.moe_s(64) == pytest.approx(64 * 3e6 * 10 / 2e12)
    made = predict(
        experts=64, top_k=4, k0=(2, 4), batches=(16,), hardware=A_MODEL, baseline_tokens_per_s=8000
    )
    (row,) = made.rows
    assert row.moe_ms is not None
    saved_s = (row.moe_ms - row.moe_ms_kept[0]) / 1e3
    assert row.tokens_per_s[0] == pytest.approx(16 / (16 / 8000 - saved_s))
    assert row.tokens_per_s[1] == pytest.approx(8000)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"top_k": 65}, "65 of 64"),
        ({"k0": (5,)}, "k0 = 5"),
        ({"baseline_tokens_per_s": 10.0}, "one hardware"),
        ({"baseline_tokens_per_s": 10.0, "hardware": A_MODEL, "batches": (1, 2)}, "one batch size"),
        ({"baseline_tokens_per_s": 1e9, "hardware": A_MODEL}, "alone takes"),
        ({"baseline_tokens_per_s": float("nan"), "hardware": A_MODEL}, "nan is no rate"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], says: str) -> None:
    asked = {"experts": 64, "top_k": 4, "k0": (2,), "batches": (16,), **wrong}
    with pytest.raises(UsageError, match=says):
        predict(**asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "doubling", "found"),
    [
        ("1..4", False, (1, 2, 3, 4)),
        ("1..20", True, (1, 2, 4, 8, 16, 20)),
        ("48, 16", True, (16, 48)),
        ("3..3", True, (3,)),
    ],
)
def test_ranges_are_read(text: str, doubling: bool, found: tuple[int, ...]) -> None:
    assert parse_counts(text, "--batch", doubling=doubling) == found


@pytest.mark.parametrize("text", ["", "0", "4..2", "a", "1...3", "0..5", "-1"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="neither a number"):
        parse_counts(text, "--batch")
