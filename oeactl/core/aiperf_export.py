"""AIPerf's profile export: ``profile_export_aiperf.json``, or the ``.csv`` beside it.

Owns: which of its metrics mean what here. Its inter-token latency is a mean a request, so it is TPOT here;
its inter-chunk latency is the gap. The duration is taken from its rates, for they rest on a longer one than
its benchmark_duration. Refuses: a metric in a unit that is not the usual one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.foreign_level import ForeignLevel, typed
from oeactl.core.load import Distribution, Measurement, Point
from oeactl.errors import UsageError

_UNITS = {
    "request_throughput": "requests/sec",
    "output_token_throughput": "tokens/sec",
    "request_latency": "ms",
    "time_to_first_token": "ms",
    "inter_token_latency": "ms",
    "inter_chunk_latency": "ms",
}
#: The csv's names of the metrics that are used, all in lower case.
_NAMED = {
    "request throughput": "request_throughput",
    "output token throughput": "output_token_throughput",
    "request latency": "request_latency",
    "time to first token": "time_to_first_token",
    "inter token latency": "inter_token_latency",
    "inter chunk latency": "inter_chunk_latency",
    "request count": "request_count",
    "error request count": "error_request_count",
    "total input sequence length": "total_isl",
    "total output sequence length": "total_osl",
    "total usage prompt cache read tokens": "total_usage_prompt_cache_read_tokens",
    "effective concurrency": "effective_concurrency",
    "input sequence length": "input_sequence_length",
    "output sequence length": "output_sequence_length",
}
_HEAD = re.compile(r"^(.*?)(?: \(([^()]+)\))?$")
_SUMMARY = "a summary has no single requests"


class _Metric(msgspec.Struct, frozen=True, kw_only=True):
    avg: float
    unit: str = ""
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    std: float | None = None


def is_export(fields: Mapping[str, Any]) -> bool:
    return "aiperf_version" in fields


def is_csv(text: str) -> bool:
    return text.startswith("Metric,avg,")


def foreign(fields: Mapping[str, Any], where: str) -> ForeignLevel:
    """The JSON export. Raises UsageError."""
    config = fields.get("input_config")
    config = config if isinstance(config, dict) else {}
    phase = next((one for one in _dicts(config.get("phases")) if one.get("kind") == "profiling"), {})
    metrics = {
        name: typed(value, _Metric, f"{where}: {name}")
        for name, value in fields.items()
        if isinstance(value, dict) and "unit" in value and name in _NAMED.values()
    }
    endpoint = config.get("endpoint")
    endpoint = endpoint if isinstance(endpoint, dict) else {}
    models = _dicts(
        (config.get("models") or {}).get("items") if isinstance(config.get("models"), dict) else ()
    )
    level = _level(
        metrics,
        where,
        concurrency=_count(phase.get("concurrency")),
        requests=_count(phase.get("requests")),
        rate=_rate(phase),
        server_counts=endpoint.get("use_server_token_count") is True,
    )
    return msgspec.structs.replace(
        level,
        version=_text(fields.get("aiperf_version")),
        model=_text(models[0].get("name")) if models else None,
        url=_text((endpoint.get("urls") or [None])[0]) if isinstance(endpoint.get("urls"), list) else None,
        date=_text(fields.get("start_time")),
    )


def foreign_csv(text: str, where: str) -> ForeignLevel:
    """The CSV export: figures of two decimals, and no word of what was asked for. Raises UsageError."""
    metrics: dict[str, _Metric] = {}
    head: list[str] = []
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        if not row:
            head = []
        elif not head:
            head = [{"Metric": "name", "Value": "avg"}.get(word, word) for word in row]
        else:
            found = _HEAD.fullmatch(row[0])
            name = _NAMED.get(found[1].lower()) if found else None
            if name is not None and found is not None and "avg" in head:
                at = f"{where}:{number}: {row[0]}"
                values = {
                    key: _decimal(cell, key, at) for key, cell in zip(head[1:], row[1:], strict=False) if cell
                }
                metrics[name] = typed({**values, "unit": found[2] or ""}, _Metric, at)
    return _level(metrics, where, concurrency=None, requests=None, rate=None, server_counts=False)


def _decimal(cell: str, key: str, where: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise UsageError(f"'{key}' is not a number: {cell[:40]}", where=where) from None


def _level(
    metrics: Mapping[str, _Metric],
    where: str,
    *,
    concurrency: int | None,
    requests: int | None,
    rate: float | None,
    server_counts: bool,
) -> ForeignLevel:
    for name, unit in _UNITS.items():
        if name in metrics and metrics[name].unit != unit:
            raise UsageError(f"'{name}' is in {metrics[name].unit}, not in {unit}", where=where)
    completed, failed = round(_of(metrics, "request_count", where).avg), 0
    if "error_request_count" in metrics:
        failed = round(metrics["error_request_count"].avg)
    at_once = metrics.get("effective_concurrency")
    if concurrency is None and at_once is not None and at_once.max is not None and rate is None:
        concurrency = max(1, round(at_once.max))
    if concurrency is None and rate is None:
        raise UsageError(
            "how many were in flight is not in the file", where=where, hint="give the .json export"
        )
    untold = dict.fromkeys(("errors", "output_lengths", "input_lengths", "ttft", "answers"), _SUMMARY)
    if requests is None:
        untold["completed"] = "how many were planned is not in the file"
    return ForeignLevel(
        where=where,
        client="aiperf",
        version=None,
        engine="unknown",
        model=None,
        url=None,
        point=Point(
            concurrency=concurrency or completed + failed,
            input_len=max(1, round(_of(metrics, "input_sequence_length", where).avg)),
            output_len=max(1, round(_of(metrics, "output_sequence_length", where).avg)),
            requests=requests or max(1, completed + failed),
            warmup_requests=None,
            seed=None,
            warmup_seed=None,
            rate=rate,
        ),
        measurement=_measurement(metrics, where, completed, failed),
        rows=None,
        dataset="other",
        tokens_from="server" if server_counts else "the client's tokenizer, unless it was told otherwise",
        duration_includes="what AIPerf's own rates rest on",
        untold=untold,
    )


def _measurement(metrics: Mapping[str, _Metric], where: str, completed: int, failed: int) -> Measurement:
    tokens = round(_of(metrics, "total_osl", where).avg)
    prompt_tokens = round(_of(metrics, "total_isl", where).avg)
    rate = _of(metrics, "output_token_throughput", where).avg
    if not rate > 0:
        raise UsageError(f"'output_token_throughput' is {rate:g}", where=where)
    cached = metrics.get("total_usage_prompt_cache_read_tokens")
    at_once = metrics.get("effective_concurrency")
    return Measurement(
        requested=completed + failed,
        completed=completed,
        failed=failed,
        input_tokens=prompt_tokens,
        output_tokens=tokens,
        output_tokens_retokenized=None,
        cached_input_tokens=round(cached.avg) if cached else None,
        duration_s=tokens / rate,
        requests_per_s=_of(metrics, "request_throughput", where).avg,
        input_tokens_per_s=prompt_tokens / (tokens / rate),
        output_tokens_per_s=rate,
        achieved_concurrency=at_once.avg if at_once else None,
        accept_length=None,
        e2e_ms=_spread(metrics, "request_latency", where),
        ttft_ms=_spread(metrics, "time_to_first_token", where),
        tpot_ms=_spread(metrics, "inter_token_latency", where) if "inter_token_latency" in metrics else None,
        itl_ms=_spread(metrics, "inter_chunk_latency", where) if "inter_chunk_latency" in metrics else None,
    )


def _of(metrics: Mapping[str, _Metric], name: str, where: str) -> _Metric:
    if name not in metrics:
        raise UsageError(f"there is no '{name}': not streamed, or nothing succeeded", where=where)
    return metrics[name]


def _spread(metrics: Mapping[str, _Metric], name: str, where: str) -> Distribution:
    found = _of(metrics, name, where)
    if found.p50 is None or found.std is None or found.p99 is None:
        raise UsageError(f"'{name}' has no p50, p99 and std", where=where)
    return Distribution(
        mean=found.avg, median=found.p50, std=found.std, p99=found.p99, p90=found.p90, p95=found.p95
    )


def _rate(phase: Mapping[str, Any]) -> float | None:
    rate = phase.get("rate")
    return float(rate) if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0 else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
