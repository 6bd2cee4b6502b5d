"""The line that SGLang's own client writes for each load, read strictly.

Owns: its fields, over all releases since 0.4.7. Refuses: a line that is not of exactly the load asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.load import Distribution, Measurement, PerRequest
from oeactl.ports import PointRequest

DATASET = "random-ids"


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """The fields we read, as every release since 0.4.7 writes them. Others may come and are left alone."""

    backend: str
    dataset_name: str
    max_concurrency: int
    random_input_len: int
    random_output_len: int
    random_range_ratio: float
    duration: float
    completed: int
    total_input_tokens: int
    total_output_tokens: int
    total_output_tokens_retokenized: int
    request_throughput: float
    input_throughput: float
    output_throughput: float
    concurrency: float
    accept_length: float | None = None
    input_lens: tuple[int, ...]
    output_lens: tuple[int, ...]
    ttfts: tuple[float, ...]
    itls: tuple[tuple[float, ...], ...]
    errors: tuple[str, ...]
    generated_texts: tuple[str, ...]
    cached_tokens: tuple[int, ...] | None = None


class _NotFinite:
    """Stands where the text had NaN or Infinity, which JSON has not."""


def read_line(out: bytes, request: PointRequest) -> tuple[Measurement, PerRequest]:
    """Read the client's output: exactly one line, of exactly this load.

    ``Infinity`` is accepted as the request rate of a closed loop, and dropped with it; ``server_info`` (which
    may hold the key) is dropped unread. Raises ValueError, in one line, for anything else out of order.
    """
    lines = [line for line in out.split(b"\n") if line.strip()]
    if len(lines) != 1:
        raise ValueError(f"{len(lines)} lines where one was expected")
    try:
        fields = json.loads(lines[0], parse_constant=lambda _: _NotFinite())
    except ValueError as problem:
        raise ValueError(f"not JSON: {problem}") from problem
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    fields.pop("server_info", None)
    fields.pop("request_rate", None)
    _refuse_not_finite(fields)
    try:
        line = msgspec.convert(fields, _Line)
    except msgspec.ValidationError as problem:
        raise ValueError(str(problem)) from problem
    _check_load(line, request)
    return _measurement(line, fields, request), _rows(line)


def _refuse_not_finite(fields: Mapping[str, Any]) -> None:
    for key, value in fields.items():
        held = value if isinstance(value, list) else (value,)
        flat = (deep for item in held for deep in (item if isinstance(item, list) else (item,)))
        if any(isinstance(item, _NotFinite) for item in flat):
            raise ValueError(f"'{key}' is not a finite number")


def _check_load(line: _Line, request: PointRequest) -> None:
    point = request.point
    wanted: dict[str, Any] = {
        "backend": "sglang",
        "dataset_name": DATASET,
        "max_concurrency": point.concurrency,
        "random_input_len": point.input_len,
        "random_output_len": point.output_len,
        "random_range_ratio": 1.0,
    }
    for key, value in wanted.items():
        if getattr(line, key) != value:
            raise ValueError(f"'{key}' is {getattr(line, key)!r}, and {value!r} was asked for")
    rows = {len(line.input_lens), len(line.output_lens), len(line.ttfts), len(line.itls)}
    rows |= {len(line.errors), len(line.generated_texts)}
    rows |= {len(line.cached_tokens)} if line.cached_tokens is not None else set()
    if len(rows) != 1:
        raise ValueError(f"its per-request lists differ in length: {', '.join(map(str, sorted(rows)))}")


def _measurement(line: _Line, fields: Mapping[str, Any], request: PointRequest) -> Measurement:
    sent = len(line.errors)
    one_token = request.point.output_len == 1
    return Measurement(
        requested=sent,
        completed=line.completed,
        failed=sent - line.completed,
        input_tokens=line.total_input_tokens,
        output_tokens=line.total_output_tokens,
        output_tokens_retokenized=line.total_output_tokens_retokenized,
        cached_input_tokens=None if line.cached_tokens is None else sum(line.cached_tokens),
        duration_s=line.duration,
        requests_per_s=line.request_throughput,
        input_tokens_per_s=line.input_throughput,
        output_tokens_per_s=line.output_throughput,
        achieved_concurrency=line.concurrency,
        accept_length=line.accept_length,
        e2e_ms=_distribution(fields, "e2e_latency"),
        ttft_ms=_distribution(fields, "ttft"),
        tpot_ms=None if one_token else _distribution(fields, "tpot"),
        itl_ms=None if one_token else _distribution(fields, "itl"),
    )


def _distribution(fields: Mapping[str, Any], name: str) -> Distribution:
    statistics = ("mean", "median", "std", "p90", "p95", "p99")
    found = {key: fields[f"{key}_{name}_ms"] for key in statistics if f"{key}_{name}_ms" in fields}
    try:
        return msgspec.convert(found, Distribution)
    except msgspec.ValidationError as problem:
        raise ValueError(f"{name}: {problem}") from problem


def _rows(line: _Line) -> PerRequest:
    return PerRequest(
        input_lens=line.input_lens,
        output_lens=line.output_lens,
        ttfts_s=line.ttfts,
        itls_s=line.itls,
        errors=line.errors,
        generated_texts=line.generated_texts,
        cached_tokens=line.cached_tokens,
    )
