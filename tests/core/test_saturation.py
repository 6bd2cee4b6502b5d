"""Where more streams bring nothing: a knee, a full queue, a broken target; and what meets a target."""

from __future__ import annotations

import msgspec

from oeactl.core.load import PerRequest, Targets
from oeactl.core.saturation import Goodput, Reached, goodput, saturation
from tests.support.levels import a_measurement, a_point, some_rows, spread


def level(
    concurrency: int, rate: float, *, ttft: float = 60.0, tpot: float = 8.0, share: float | None = None
) -> Reached:
    measurement = a_measurement(a_point(concurrency), tokens_per_s=rate)
    e2e = spread(ttft + 31 * tpot)
    changed = msgspec.structs.replace(measurement, ttft_ms=spread(ttft), tpot_ms=spread(tpot), e2e_ms=e2e)
    met = (
        None
        if share is None
        else Goodput(requests=9, share=share, requests_per_s=1.0, output_tokens_per_s=9.0)
    )
    return Reached(concurrency=concurrency, measurement=changed, goodput=met)


def test_a_level_that_pays_goes_on() -> None:
    assert saturation([]) is None
    assert saturation([level(8, 100)]) is None
    assert saturation([level(8, 100), level(16, 180, tpot=9)]) is None


def test_a_knee_is_where_streams_slow_each_other_down() -> None:
    found = saturation([level(8, 100), level(16, 180), level(32, 185, tpot=16.0)])
    assert found is not None
    assert (found.kind, found.concurrency) == ("knee", 16)
    assert "from 16 to 32 a doubling gains +2.8%" in found.reason


def test_streams_that_only_wait_are_a_queue_and_no_knee() -> None:
    found = saturation([level(8, 180), level(16, 181, ttft=360.0)])
    assert found is not None
    assert (found.kind, found.concurrency) == ("queueing", 8)
    assert "TTFT grows by 300 ms while TPOT stays" in found.reason


def test_the_gain_is_counted_a_doubling() -> None:
    """Four times the streams for 12 % more are two doublings of 5.8 % each."""
    assert saturation([level(8, 100), level(32, 112, tpot=20.0)]) is None
    assert saturation([level(8, 100), level(16, 104, tpot=20.0)]) is not None


def test_a_broken_target_ends_it_at_the_level_before() -> None:
    found = saturation([level(8, 100, share=1.0), level(16, 190, share=0.85)])
    assert found is not None
    assert (found.kind, found.concurrency) == ("target", 8)
    assert "at 16 only 85% of the requests meet the targets" in found.reason
    assert saturation([level(8, 100, share=0.9)]) is None
    first = saturation([level(8, 100, share=0.5)])
    assert first is not None and first.concurrency is None


def test_it_is_said_which_target_is_broken() -> None:
    slow = level(16, 190)
    met = Goodput(
        requests=9, share=0.85, requests_per_s=1.0, output_tokens_per_s=9.0, ttft_share=0.85, tpot_share=1.0
    )
    slow = msgspec.structs.replace(slow, goodput=met)
    found = saturation([level(8, 100), slow], Targets(ttft_ms=500.0, tpot_ms=20.0))
    assert found is not None
    assert found.reason.endswith("(85% TTFT of 500 ms, 100% TPOT of 20 ms)")


def test_goodput_counts_the_requests_that_meet_every_target() -> None:
    point = a_point(4)
    count = point.requests
    ttfts = (0.5,) * 10 + (0.06,) * (count - 10)
    itls = ((0.008,) * 31,) * (count - 5) + ((0.05,) * 31,) * 5
    rows: PerRequest = some_rows(point, ttfts_s=ttfts, itls_s=itls, errors=("",) * (count - 1) + ("broke",))
    measurement = a_measurement(point)
    found = goodput(rows, measurement, Targets(ttft_ms=100.0, tpot_ms=10.0))
    assert found is not None
    assert found.requests == count - 15
    assert found.share == (count - 15) / count
    assert found.requests_per_s == (count - 15) / measurement.duration_s
    assert (found.ttft_share, found.tpot_share) == ((count - 11) / count, (count - 5) / count)
    only_ttft = goodput(rows, measurement, Targets(ttft_ms=100.0))
    assert only_ttft is not None and only_ttft.requests == count - 11
    assert goodput(rows, measurement, None) is None
