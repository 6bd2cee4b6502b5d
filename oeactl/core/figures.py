"""From rows to figures: what a level came to, out of what each of its requests did.

Owns: the formulas. tok/s: tokens of requests that went well over the time from first send to last token.
TPOT: (E2E - TTFT) / (n - 1), a request. Concurrency: the sum of all E2E over the same time. Refuses: to
judge.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from statistics import fmean, variance

import msgspec

from oeactl.core.host import Value
from oeactl.core.load import Distribution, Measurement, PerRequest, Point
from oeactl.core.run import SteadyRate

#: A server is warm when two bursts in a row are so alike, or later requests are not that much faster.
SAME_RATE = 0.05
FASTER_LATER = 0.1
_ADDS_UP = 0.05
_ERRORS = 3.0


class Counted(Value, frozen=True, kw_only=True):
    """What a client knows beside the rows. duration_s: first send to last token; accept_length: of drafts."""

    duration_s: float
    accept_length: float | None = None
    retokenized: int | None = None


def distribution(values: Sequence[float], *, scale: float = 1e3) -> Distribution:
    """Summarise ``values`` times ``scale`` (seconds to milliseconds); percentiles by linear interpolation.

    Raises ValueError where there are none.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered)
    variance = math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)
    p50, p90, p95, p99 = (quantile(ordered, share) * scale for share in (0.5, 0.9, 0.95, 0.99))
    return Distribution(
        mean=mean * scale, median=p50, std=math.sqrt(variance) * scale, p90=p90, p95=p95, p99=p99
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value at ``share`` (0 to 1) of sorted values, between neighbours linearly."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def measure(rows: PerRequest, counted: Counted) -> Measurement | None:
    """Sum up one level. None where no request went well: there is nothing to measure then.

    Raises ValueError where rows lack ``e2es_s``.
    """
    if rows.e2es_s is None:
        raise ValueError("these rows have no end to end times")
    well = [index for index, error in enumerate(rows.errors) if not error]
    if not well:
        return None
    duration_s = counted.duration_s
    tokens = sum(rows.output_lens[index] for index in well)
    prompt_tokens = sum(rows.input_lens[index] for index in well)
    tpots = [
        (rows.e2es_s[index] - rows.ttfts_s[index]) / (rows.output_lens[index] - 1)
        for index in well
        if rows.output_lens[index] > 1
    ]
    itls = [gap for index in well for gap in rows.itls_s[index]]
    return Measurement(
        requested=len(rows.errors),
        completed=len(well),
        failed=len(rows.errors) - len(well),
        input_tokens=prompt_tokens,
        output_tokens=tokens,
        output_tokens_retokenized=counted.retokenized,
        cached_input_tokens=None if rows.cached_tokens is None else sum(rows.cached_tokens),
        duration_s=duration_s,
        requests_per_s=len(well) / duration_s,
        input_tokens_per_s=prompt_tokens / duration_s,
        output_tokens_per_s=tokens / duration_s,
        achieved_concurrency=math.fsum(rows.e2es_s) / duration_s,
        accept_length=counted.accept_length,
        e2e_ms=distribution([rows.e2es_s[index] for index in well]),
        ttft_ms=distribution([rows.ttfts_s[index] for index in well]),
        tpot_ms=distribution(tpots) if tpots else None,
        itl_ms=distribution(itls) if itls else None,
    )


def has_settled(rates: Sequence[float], rows: PerRequest | None) -> bool:
    """Whether a server is warm. rates: of the bursts so far; rows: of the last one.

    Either the last burst was as fast as the one before, or within it later requests took no less time than
    earlier ones: what compiles or captures makes the first ones slow.
    """
    if len(rates) > 1 and abs(rates[-1] / rates[-2] - 1) <= SAME_RATE:
        return True
    if rows is None or len(rows.errors) < 2:
        return False
    took = [ttft + math.fsum(gaps) for ttft, gaps in zip(rows.ttfts_s, rows.itls_s, strict=True)]
    half = len(took) // 2
    return math.fsum(took[-half:]) >= (1 - FASTER_LATER) * math.fsum(took[:half])


def drift(rows: PerRequest, concurrency: int) -> float | None:
    """Time that the later half of the requests took over that of the earlier half, the first wave left out.

    1 is steady, and so is what three standard errors of the two means may be. None where there are fewer than
    four waves, a failure, or answers of several lengths.
    """
    lengths = set(rows.asked_lens or rows.output_lens)
    took = [ttft + math.fsum(gaps) for ttft, gaps in zip(rows.ttfts_s, rows.itls_s, strict=True)]
    took = took[concurrency:]
    half = len(took) // 2
    if any(rows.errors) or len(lengths) > 1 or len(took) < 3 * concurrency or half < 2:
        return None
    one, other = took[:half], took[-half:]
    error = math.sqrt((variance(one) + variance(other)) / half)
    if abs(fmean(other) - fmean(one)) <= _ERRORS * error:
        return 1.0
    return fmean(other) / fmean(one)


def steady(rows: PerRequest | None, whole: Measurement | None, point: Point) -> SteadyRate | None:
    """The rate while all streams were busy; None of arrivals, and where no such time can be told."""
    if rows is None or whole is None or point.rate is not None:
        return None
    told = rows.sent_s is not None
    when = rows if told else dated(rows, point.concurrency, whole.duration_s)
    found = steady_rate(when, point.concurrency) if when else None
    if found is None:
        return None
    return SteadyRate(duration_s=found[0], output_tokens_per_s=found[1], from_order=not told)


def steady_rate(rows: PerRequest, concurrency: int) -> tuple[float, float] | None:
    """(seconds, tok/s) of the time in which ``concurrency`` requests were in flight; None without one.

    It begins when the last of the first ``concurrency`` shows a token and ends when the last one is sent.
    Within a request tokens lie where its gaps put them.
    """
    if rows.sent_s is None or rows.e2es_s is None or len(rows.sent_s) < 2 * concurrency:
        return None
    first = sorted(range(len(rows.sent_s)), key=lambda index: rows.sent_s[index])[:concurrency]  # type: ignore[index]
    begin = max(rows.sent_s[index] + rows.ttfts_s[index] for index in first)
    end = max(rows.sent_s)
    if end <= begin:
        return None
    tokens = math.fsum(_within(rows, index, begin, end) for index in range(len(rows.errors)))
    return end - begin, tokens / (end - begin)


def dated(rows: PerRequest, concurrency: int, duration_s: float) -> PerRequest | None:
    """The same rows with the times at which they must have been sent, where a closed loop leaves no choice.

    Its next request begins when the first of ``concurrency`` ends, in the order of the rows. None where that
    does not add up to ``duration_s`` within 5 %: then it was another loop, or a client that was late.
    """
    if any(rows.errors) or len(rows.errors) < concurrency:
        return None
    took = [ttft + math.fsum(gaps) for ttft, gaps in zip(rows.ttfts_s, rows.itls_s, strict=True)]
    free = [0.0] * concurrency
    sent = []
    for seconds in took:
        sent.append(heapq.heappop(free))
        heapq.heappush(free, sent[-1] + seconds)
    if abs(max(free) / duration_s - 1) > _ADDS_UP:
        return None
    return msgspec.structs.replace(rows, sent_s=tuple(sent), e2es_s=tuple(took))


def _within(rows: PerRequest, index: int, begin: float, end: float) -> float:
    """How many of one request's tokens came after ``begin`` and not after ``end``."""
    assert rows.sent_s is not None
    if rows.errors[index] or not rows.output_lens[index]:
        return 0.0
    at = rows.sent_s[index] + rows.ttfts_s[index]
    seen, inside = 1, int(begin < at <= end)
    for gap in rows.itls_s[index]:
        at += gap
        seen += 1
        inside += begin < at <= end
    return rows.output_lens[index] * inside / seen
