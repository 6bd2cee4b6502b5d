"""From rows to figures: the formulas, by hand."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.figures import (
    Counted,
    dated,
    distribution,
    drift,
    has_settled,
    measure,
    quantile,
    steady,
    steady_rate,
)
from oeactl.core.load import PerRequest
from oeactl.core.run import SteadyRate
from tests.support.levels import a_measurement, a_point


def rows(*, errors: tuple[str, ...] = ("", ""), gaps: tuple[float, ...] = (0.1, 0.1)) -> PerRequest:
    count = len(errors)
    return PerRequest(
        input_lens=(8,) * count,
        output_lens=(3,) * count,
        ttfts_s=(0.2,) * count,
        itls_s=(gaps,) * count,
        errors=errors,
        generated_texts=("",) * count,
        sent_s=tuple(0.5 * index for index in range(count)),
        e2es_s=(0.4,) * count,
    )


def test_the_figures_of_two_requests() -> None:
    found = measure(rows(), Counted(duration_s=0.9))
    assert found is not None
    assert (found.completed, found.output_tokens, found.input_tokens) == (2, 6, 16)
    assert found.output_tokens_per_s == pytest.approx(6 / 0.9)
    assert found.achieved_concurrency == pytest.approx(0.8 / 0.9)
    assert found.tpot_ms is not None and found.tpot_ms.mean == pytest.approx(100.0)
    assert found.itl_ms is not None and found.itl_ms.p99 == pytest.approx(100.0)
    assert found.ttft_ms.median == pytest.approx(200.0)


def test_a_failed_request_gives_no_tokens_and_none_at_all_no_measurement() -> None:
    found = measure(rows(errors=("", "broke")), Counted(duration_s=1.0))
    assert found is not None
    assert (found.requested, found.completed, found.failed, found.output_tokens) == (2, 1, 1, 3)
    assert measure(rows(errors=("broke", "broke")), Counted(duration_s=1.0)) is None


@given(st.lists(st.floats(0.0, 1e3), min_size=1))
def test_percentiles_are_in_order_and_within_the_values(values: list[float]) -> None:
    found = distribution(values, scale=1.0)
    assert found.p90 is not None and found.p95 is not None
    told = [min(values), found.median, found.p90, found.p95, found.p99, max(values)]
    assert told == sorted(told)
    assert quantile(sorted(values), 1.0) == max(values)


def cold(first: float, later: float) -> PerRequest:
    count = 4
    return PerRequest(
        input_lens=(1,) * count,
        output_lens=(2,) * count,
        ttfts_s=(first, first, later, later),
        itls_s=((0.1,),) * count,
        errors=("",) * count,
        generated_texts=("",) * count,
    )


def test_a_server_has_settled_when_later_requests_are_no_faster_or_bursts_are_alike() -> None:
    assert has_settled([100.0], cold(1.0, 1.0))
    assert has_settled([100.0], cold(1.0, 1.2))
    assert not has_settled([100.0], cold(1.0, 0.5))
    assert not has_settled([100.0, 200.0], cold(1.0, 0.5))
    assert has_settled([100.0, 104.0], cold(1.0, 0.5))
    assert not has_settled([100.0], None)


def test_the_steady_rate_leaves_ramps_out() -> None:
    """Two streams of three requests back to back, 10 tokens each, 0.1 s apart."""
    count = 6
    whole = PerRequest(
        input_lens=(1,) * count,
        output_lens=(10,) * count,
        ttfts_s=(0.1,) * count,
        itls_s=((0.1,) * 9,) * count,
        errors=("",) * count,
        generated_texts=("",) * count,
        sent_s=(0.0, 0.0, 1.0, 1.0, 2.0, 2.0),
        e2es_s=(1.0,) * count,
    )
    found = steady_rate(whole, 2)
    assert found is not None
    seconds, rate = found
    assert seconds == pytest.approx(1.9)
    assert rate == pytest.approx(20.0, rel=0.06)
    assert steady_rate(whole, 4) is None


def in_a_loop(took: tuple[float, ...]) -> PerRequest:
    """Rows of a client that does not say when it sent them."""
    count = len(took)
    return PerRequest(
        input_lens=(8,) * count,
        output_lens=(2,) * count,
        ttfts_s=tuple(seconds / 2 for seconds in took),
        itls_s=tuple((seconds / 2,) for seconds in took),
        errors=("",) * count,
        generated_texts=("a",) * count,
    )


def test_a_closed_loop_leaves_no_choice_of_when_each_request_was_sent() -> None:
    rows = dated(in_a_loop((1.0, 2.0, 1.0, 3.0, 1.0)), 2, 5.0)
    assert rows is not None
    assert rows.sent_s == (0.0, 0.0, 1.0, 2.0, 2.0)
    assert rows.e2es_s == (1.0, 2.0, 1.0, 3.0, 1.0)


def test_times_that_do_not_add_up_were_of_another_loop() -> None:
    rows = in_a_loop((1.0, 2.0, 1.0, 3.0, 1.0))
    assert dated(rows, 2, 5.2) is not None
    assert dated(rows, 2, 5.5) is None
    assert dated(rows, 8, 5.0) is None
    failed = msgspec.structs.replace(rows, errors=("", "gone", "", "", ""))
    assert dated(failed, 2, 5.0) is None


def test_drift_needs_four_waves_that_went_well() -> None:
    assert drift(in_a_loop((1.0,) * 8), 2) == 1.0
    assert drift(in_a_loop((1.0,) * 7), 2) is None
    assert drift(in_a_loop((9.0, 9.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0)), 2) == 2.0
    failed = msgspec.structs.replace(in_a_loop((1.0,) * 8), errors=("gone",) + ("",) * 7)
    assert drift(failed, 2) is None


def test_the_steady_rate_says_what_it_rests_on() -> None:
    point = a_point(2, requests=10, output_len=2)
    rows = in_a_loop((1.0,) * 10)
    found = steady(rows, a_measurement(point, duration_s=5.0), point)
    assert found == SteadyRate(duration_s=3.5, output_tokens_per_s=4.0, from_order=True)
    assert steady(rows, a_measurement(point, duration_s=9.0), point) is None
    assert steady(rows, None, point) is None
    told = msgspec.structs.replace(rows, sent_s=tuple(float(n // 2) for n in range(10)), e2es_s=(1.0,) * 10)
    again = steady(told, a_measurement(point, duration_s=5.0), point)
    assert again is not None and not again.from_order
    assert steady(told, a_measurement(point), msgspec.structs.replace(point, rate=2.0)) is None
