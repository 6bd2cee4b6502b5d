"""Levels and what came of them, made up: whole, valid, and small enough to change one thing at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from oeactl.core.evidence import Evidence
from oeactl.core.host import Process, ServerState
from oeactl.core.load import ClientLoad, Distribution, Measurement, PerRequest, Point, make_point

LEADER = Process(pid=700, start_ticks=9000, boot_id="boot")
WORKER = Process(pid=701, start_ticks=9050, boot_id="boot", title="sglang::scheduler", role="scheduler")
UP = ServerState(recorded=LEADER, listener=LEADER, workers=(WORKER,), started_at=1000.0, healthy=True)
DOWN = ServerState(recorded=None, listener=None, healthy=False, health="connection refused")


def a_point(concurrency: int = 4, **changes: Any) -> Point:
    point = make_point(concurrency, input_len=64, output_len=32, seed=42)
    return msgspec.structs.replace(point, **changes)


def spread(mean: float) -> Distribution:
    return Distribution(mean=mean, median=mean, std=0.0, p99=mean * 1.5, p90=mean * 1.2, p95=mean * 1.3)


def a_measurement(point: Point, *, tokens_per_s: float = 400.0, **changes: Any) -> Measurement:
    """Consistent figures of a level in which everything went well."""
    tokens = point.requests * point.output_len
    duration_s = tokens / tokens_per_s
    measurement = Measurement(
        requested=point.requests,
        completed=point.requests,
        failed=0,
        input_tokens=point.requests * point.input_len,
        output_tokens=tokens,
        output_tokens_retokenized=tokens,
        cached_input_tokens=0,
        duration_s=duration_s,
        requests_per_s=point.requests / duration_s,
        input_tokens_per_s=point.requests * point.input_len / duration_s,
        output_tokens_per_s=tokens_per_s,
        achieved_concurrency=point.concurrency * 0.98,
        accept_length=None,
        e2e_ms=spread(320.0),
        ttft_ms=spread(60.0),
        tpot_ms=spread(8.0),
        itl_ms=spread(8.0),
    )
    return msgspec.structs.replace(measurement, **changes)


def some_rows(point: Point, **changes: Any) -> PerRequest:
    count = point.requests
    rows = PerRequest(
        input_lens=(point.input_len,) * count,
        output_lens=(point.output_len,) * count,
        ttfts_s=(0.06,) * count,
        itls_s=((0.008,) * (point.output_len - 1),) * count,
        errors=("",) * count,
        generated_texts=("text",) * count,
        cached_tokens=(0,) * count,
    )
    return msgspec.structs.replace(rows, **changes)


def a_client(**changes: Any) -> ClientLoad:
    """A client that kept up: tokens are 8 ms apart in ``a_measurement``."""
    client = ClientLoad(
        processes=1, cpu_s=1.0, busiest_core=0.2, lag_mean_ms=0.1, lag_p99_ms=0.4, lag_max_ms=2.0
    )
    return msgspec.structs.replace(client, **changes)


def some_evidence(point: Point | None = None, **changes: Any) -> Evidence:
    """All that a valid level leaves; each test spoils one thing."""
    point = point or a_point()
    evidence = Evidence(
        point=point,
        before=UP,
        after=UP,
        measurement=a_measurement(point),
        requests=some_rows(point),
        flushed=True,
        warm_up_rates=(400.0,),
        token_after=True,
    )
    return msgspec.structs.replace(evidence, **changes)
