"""The result of ``vllm bench serve --save-result``: one JSON object, or several, a line each, where appended.

Owns: its fields and what they mean here. Refuses: a result of an embedding or pooling run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.figures import distribution
from oeactl.core.foreign_level import ForeignLevel, about, same_length, spread, typed
from oeactl.core.load import Distribution, Measurement, PerRequest, Point
from oeactl.errors import UsageError

_DETAILED = "written without --save-detailed"
_NOT_ASKED = "the lengths asked for are not in the file"


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    """The fields we read. The lists: with --save-detailed, but for latencies, which later releases keep."""

    backend: str
    model_id: str
    num_prompts: int
    max_concurrency: int | None
    request_rate: float | str
    duration: float
    completed: int
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float
    output_throughput: float
    date: str | None = None
    failed: int | None = None
    spec_decode_acceptance_length: float | None = None
    input_lens: tuple[int, ...] | None = None
    output_lens: tuple[int, ...] | None = None
    ttfts: tuple[float, ...] | None = None
    itls: tuple[tuple[float, ...], ...] | None = None
    latencies: tuple[float, ...] | None = None
    start_times: tuple[float, ...] | None = None
    generated_texts: tuple[str, ...] | None = None
    errors: tuple[str, ...] | None = None


def is_result(fields: Mapping[str, Any]) -> bool:
    """Whether it is of this tool, by what only it writes."""
    return "endpoint_type" in fields and "num_prompts" in fields


def foreign(fields: Mapping[str, Any], where: str) -> ForeignLevel:
    """One result. Raises UsageError."""
    result = typed(fields, _Result, where)
    rows = _rows(result, where)
    rate = result.request_rate if isinstance(result.request_rate, float) else None
    untold = dict.fromkeys(("output_lengths", "input_lengths"), _NOT_ASKED)
    untold["cached_prompt"] = "cached prompt tokens are not in the file"
    if rows is None:
        untold |= dict.fromkeys(("errors", "ttft", "answers"), _DETAILED)
    return ForeignLevel(
        where=where,
        client="vllm bench serve",
        version=None,
        engine=result.backend.partition("-")[0],
        model=result.model_id,
        url=None,
        point=Point(
            concurrency=result.max_concurrency or result.num_prompts,
            input_len=about(result.total_input_tokens, result.completed),
            output_len=about(result.total_output_tokens, result.completed),
            requests=result.num_prompts,
            warmup_requests=None,
            seed=None,
            warmup_seed=None,
            rate=rate,
        ),
        measurement=_measurement(result, fields, where),
        rows=rows,
        dataset="other",
        tokens_from="server's usage, else the client's tokenizer",
        duration_includes="",
        untold=untold,
        date=result.date,
    )


def _measurement(result: _Result, fields: Mapping[str, Any], where: str) -> Measurement:
    ttft = spread(fields, "ttft", where)
    if ttft is None:
        raise UsageError("there is no mean_ttft_ms: a run of embeddings, or without TTFT", where=where)
    failed = result.num_prompts - result.completed if result.failed is None else result.failed
    latencies = result.latencies
    return Measurement(
        requested=result.completed + failed,
        completed=result.completed,
        failed=failed,
        input_tokens=result.total_input_tokens,
        output_tokens=result.total_output_tokens,
        output_tokens_retokenized=None,
        cached_input_tokens=None,
        duration_s=result.duration,
        requests_per_s=result.request_throughput,
        input_tokens_per_s=result.total_input_tokens / result.duration,
        output_tokens_per_s=result.output_throughput,
        achieved_concurrency=math.fsum(latencies) / result.duration if latencies else None,
        accept_length=result.spec_decode_acceptance_length,
        e2e_ms=spread(fields, "e2el", where) or _latency(latencies),
        ttft_ms=ttft,
        tpot_ms=spread(fields, "tpot", where),
        itl_ms=spread(fields, "itl", where),
    )


def _latency(latencies: tuple[float, ...] | None) -> Distribution | None:
    """Of those that took any time: a failed one has none."""
    took = [seconds for seconds in latencies or () if seconds > 0]
    return distribution(took) if took else None


def _rows(result: _Result, where: str) -> PerRequest | None:
    if result.input_lens is None or result.output_lens is None or result.ttfts is None or result.itls is None:
        return None
    names = (
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "errors",
        "generated_texts",
        "latencies",
        "start_times",
    )
    same_length({name: getattr(result, name) for name in names}, where)
    count = len(result.ttfts)
    starts = result.start_times
    return PerRequest(
        input_lens=result.input_lens,
        output_lens=result.output_lens,
        ttfts_s=result.ttfts,
        itls_s=result.itls,
        errors=result.errors or ("",) * count,
        generated_texts=result.generated_texts or ("",) * count,
        sent_s=tuple(at - min(starts) for at in starts) if starts else None,
        e2es_s=result.latencies,
    )
