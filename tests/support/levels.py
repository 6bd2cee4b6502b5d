"""Levels and what came of them, made up: whole, valid, and small enough to change one thing at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from oeactl.core.evidence import Evidence
from oeactl.core.host import Process, ServerState
from oeactl.core.load import ClientLoad, Distribution, Measurement, PerRequest, Point, make_point
from oeactl.core.metrics import EngineLoad, Spread
from oeactl.core.telemetry import CardLoad, Watched

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


def a_card(index: int = 0, **changes: Any) -> CardLoad:
    """A card of the server's, at its clock."""
    card = CardLoad(
        index=index,
        uuid=f"GPU-{index}",
        used=True,
        samples=30,
        sm_mhz=Spread(min=1980, mean=1980, max=1980),
        memory_mhz=Spread(min=3201, mean=3201, max=3201),
        power_w=Spread(min=380, mean=402.5, max=431),
        power_limit_w=600.0,
        temperature_c=Spread(min=44, mean=45.5, max=47),
        busy_percent=Spread(min=91, mean=97, max=100),
        memory_used_mib=Spread(min=72000, mean=72000, max=72000),
        memory_total_mib=143771.0,
        throttled={},
    )
    return msgspec.structs.replace(card, **changes)


def a_watched(*cards: CardLoad, **changes: Any) -> Watched:
    """A host on which nothing was amiss."""
    seen = Watched(
        samples=30,
        seconds=29.0,
        cpu_busy=Spread(min=0.11, mean=0.18, max=0.3),
        clock_offset_s=0.012,
        cards=cards or (a_card(0), a_card(1)),
        foreign=(),
        engine=EngineLoad(
            samples=28,
            running=Spread(min=3, mean=3.9, max=4),
            waiting=Spread(min=0, mean=0.1, max=1),
            kv_used_tokens=Spread(min=200, mean=352.5, max=384),
            kv_available_tokens=Spread(min=3712, mean=3743.5, max=3896),
            kv_total_tokens=4096,
            kv_share=Spread(min=0.05, mean=0.086, max=0.094),
            queue_s=0.004,
        ),
    )
    return msgspec.structs.replace(seen, **changes)


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
