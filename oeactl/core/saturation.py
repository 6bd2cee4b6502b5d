"""How much a server can take: goodput under latency targets, and the level from which more brings nothing.

Owns: the formulas and the marks. Goodput counts the requests that met every target (TTFT, and TPOT where a
request has more than one token). A sweep has saturated where doubling the streams gains less than 5 %, or
where fewer than nine in ten requests meet the targets. Refuses: to call a full queue a knee: where streams
added only wait (TTFT grows, TPOT does not), it is the server's limit of running requests that was met.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from oeactl.core.host import Value
from oeactl.core.load import Measurement, PerRequest, Positive, Targets

LEAST_GAIN = 0.05
MET_BY = 0.9
#: Streams that only wait leave the time between tokens as it is, and lengthen TTFT by a part of a request.
_SAME_TPOT = 1.1
_WAITED = 0.25


class Goodput(Value, frozen=True, kw_only=True):
    """Requests that met the targets: how many, their share of all sent, and what they alone came to.

    ttft_share, tpot_share: those that met this one; None where it is no target.
    """

    requests: int
    share: float
    requests_per_s: float
    output_tokens_per_s: float
    ttft_share: float | None = None
    tpot_share: float | None = None


class Reached(Value, frozen=True, kw_only=True):
    """One valid level, as far as saturation is concerned. goodput: None without targets."""

    concurrency: int
    measurement: Measurement
    goodput: Goodput | None = None


class Saturation(Value, frozen=True, kw_only=True):
    """Why a sweep ended before its last level. concurrency: the last level that was worth its streams.

    None: not even the first one was.
    """

    kind: Literal["knee", "queueing", "target"]
    concurrency: Positive | None
    reason: str


def goodput(
    rows: PerRequest | None, measurement: Measurement | None, targets: Targets | None
) -> Goodput | None:
    """Count the requests of one level that met every target; a failed one met none."""
    if rows is None or measurement is None or targets is None:
        return None
    went_well = [index for index, error in enumerate(rows.errors) if not error]
    in_ttft = {index for index in went_well if _first_in_time(rows, index, targets)}
    in_tpot = {index for index in went_well if _others_in_time(rows, index, targets)}
    met, sent = in_ttft & in_tpot, max(1, len(rows.errors))
    return Goodput(
        requests=len(met),
        share=len(met) / sent,
        requests_per_s=len(met) / measurement.duration_s,
        output_tokens_per_s=sum(rows.output_lens[index] for index in met) / measurement.duration_s,
        ttft_share=None if targets.ttft_ms is None else len(in_ttft) / sent,
        tpot_share=None if targets.tpot_ms is None else len(in_tpot) / sent,
    )


def _first_in_time(rows: PerRequest, index: int, targets: Targets) -> bool:
    return targets.ttft_ms is None or rows.ttfts_s[index] * 1e3 <= targets.ttft_ms


def _others_in_time(rows: PerRequest, index: int, targets: Targets) -> bool:
    tokens = rows.output_lens[index]
    if targets.tpot_ms is None or tokens < 2:
        return True
    took = math.fsum(rows.itls_s[index])
    if rows.e2es_s is not None:
        took = rows.e2es_s[index] - rows.ttfts_s[index]
    return took / (tokens - 1) * 1e3 <= targets.tpot_ms


def gain(before: Reached, after: Reached) -> float:
    """What doubling the streams brought between two levels, as a fraction of the tok/s before."""
    ratio = after.measurement.output_tokens_per_s / before.measurement.output_tokens_per_s
    return float(ratio ** (1 / math.log2(after.concurrency / before.concurrency)) - 1)


def saturation(levels: Sequence[Reached], targets: Targets | None = None) -> Saturation | None:
    """Judge the last of ``levels``, valid ones in rising order; None: it was worth it, go on."""
    if not levels:
        return None
    last, before = levels[-1], levels[-2] if len(levels) > 1 else None
    if last.goodput is not None and last.goodput.share < MET_BY:
        at = before.concurrency if before else None
        return Saturation(kind="target", concurrency=at, reason=_broken(last, last.goodput, targets))
    if before is None or last.concurrency <= before.concurrency:
        return None
    gained = gain(before, last)
    if gained >= LEAST_GAIN:
        return None
    seen = f"from {before.concurrency} to {last.concurrency} a doubling gains {gained:+.1%}"
    waited = _waiting(before.measurement, last.measurement)
    if waited:
        return Saturation(kind="queueing", concurrency=before.concurrency, reason=f"{seen}: {waited}")
    return Saturation(kind="knee", concurrency=before.concurrency, reason=seen)


def _broken(level: Reached, counted: Goodput, targets: Targets | None) -> str:
    """Which target is broken, and by how many."""
    limits = targets or Targets()
    met = [
        f"{share:.0%} {name} of {limit:g} ms"
        for name, share, limit in (
            ("TTFT", counted.ttft_share, limits.ttft_ms),
            ("TPOT", counted.tpot_share, limits.tpot_ms),
        )
        if share is not None and limit is not None
    ]
    which = f" ({', '.join(met)})" if met else ""
    return f"at {level.concurrency} only {counted.share:.0%} of the requests meet the targets{which}"


def _waiting(before: Measurement, last: Measurement) -> str:
    """Why the streams added are only waiting; empty where they are served, and slow each other down."""
    if before.tpot_ms is None or last.tpot_ms is None:
        return ""
    same = last.tpot_ms.mean <= _SAME_TPOT * before.tpot_ms.mean
    longer = last.ttft_ms.mean - before.ttft_ms.mean
    if not same or before.e2e_ms is None or longer < _WAITED * before.e2e_ms.mean:
        return ""
    return (
        f"TTFT grows by {longer:,.0f} ms while TPOT stays at {last.tpot_ms.mean:.1f} ms, so requests wait "
        "for the server's limit of running requests or its KV cache"
    )
