"""An engine's own account of its load, out of its /metrics: which names mean what, engine by engine.

Owns: the table of names (SGLang, vLLM), how ranks are put together. What an engine does not tell is None.
Refuses: to guess from a name that is not in the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oeactl.core.host import Value

#: What is a gauge: of all of its names the first that is there. Ranks that hold the same say the same; those
#: that serve other requests (data parallel) add up.
_GAUGES = {
    "running": ("sglang:num_running_reqs", "vllm:num_requests_running"),
    "waiting": ("sglang:num_queue_reqs", "vllm:num_requests_waiting"),
    "used": ("sglang:kv_used_tokens", "sglang:num_used_tokens"),
    "available": ("sglang:kv_available_tokens",),
    "evictable": ("sglang:kv_evictable_tokens",),
    "capacity": ("sglang:max_total_num_tokens",),
}
_SHARE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
_ACCEPT = ("sglang:spec_accept_length",)
_QUEUE = ("sglang:queue_time_seconds", "vllm:request_queue_time_seconds")
_BLOCKS = "vllm:cache_config_info"
_ROOM = ("kv_cache_size_tokens", "num_gpu_blocks", "block_size")
_DRAFTS, _ACCEPTED = "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_total"
#: (prompt tokens that came, those of them that the prefix cache had)
_CACHED = (
    ("sglang:prompt_tokens_total", "sglang:cached_tokens_total"),
    ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
)
_APART = ("dp_rank", "engine", "model_name")

#: All of them, for whoever asks.
NAMES = (
    *(name for names in _GAUGES.values() for name in names),
    *_SHARE,
    *_ACCEPT,
    *(f"{name}_{part}" for name in _QUEUE for part in ("sum", "count")),
    *(_BLOCKS, _DRAFTS, _ACCEPTED),
    *(name for names in _CACHED for name in names),
)


class Metric(Value, frozen=True, kw_only=True):
    """One sample of Prometheus' text form."""

    name: str
    labels: dict[str, str]
    value: float


class Spread(Value, frozen=True, kw_only=True):
    """Over the samples of a level that had it."""

    min: float
    mean: float
    max: float


class EngineLoad(Value, frozen=True, kw_only=True):
    """samples: of /metrics in the level. Requests, KV cache in tokens; kv_share: used of all, 0 to 1.

    queue_s: how long a request waited, on average over those that began. accept_length: tokens a verification
    of drafts brought; without metrics since the server began. cached_share: of the prompt tokens meanwhile,
    from the prefix cache. kv_total_tokens: also by the server's own information.
    """

    samples: int
    running: Spread | None = None
    waiting: Spread | None = None
    kv_used_tokens: Spread | None = None
    kv_available_tokens: Spread | None = None
    kv_total_tokens: int | None = None
    kv_share: Spread | None = None
    queue_s: float | None = None
    accept_length: float | None = None
    cached_share: float | None = None


def engine_load(samples: Sequence[Sequence[Metric]], info: Mapping[str, Any]) -> EngineLoad | None:
    """Sum up. samples: of /metrics, in order; info: the server's own information. None: neither tells."""
    gauges = {key: [_gauge(sample, names) for sample in samples] for key, names in _GAUGES.items()}
    capacity = _last(gauges["capacity"]) or capacity_of(info) or _last([_blocks(one) for one in samples])
    shares = [_gauge(sample, _SHARE, together=max) for sample in samples]
    used = gauges["used"]
    if capacity and not _known(used):
        used = [share * capacity if share is not None else None for share in shares]
    free = [_sum(one, other) for one, other in zip(gauges["available"], gauges["evictable"], strict=True)]
    if capacity and not _known(free):
        free = [capacity - one if one is not None else None for one in used]
    load = EngineLoad(
        samples=len(samples),
        running=spread(gauges["running"]),
        waiting=spread(gauges["waiting"]),
        kv_used_tokens=spread(used),
        kv_available_tokens=spread(free),
        kv_total_tokens=round(capacity) if capacity else None,
        kv_share=spread(
            [one / capacity if one is not None else None for one in used] if capacity else shares
        ),
        queue_s=_queue(samples),
        accept_length=_accepted(samples) or _accepted_since_start(info),
        cached_share=_cached(samples),
    )
    return None if load == EngineLoad(samples=len(samples)) else load


def capacity_of(info: Mapping[str, Any]) -> float | None:
    """KV cache tokens by SGLang's server_info: of all data-parallel ranks; None where it does not say."""
    ranks = _ranks(info)
    told = [(rank.get("memory_usage") or {}).get("token_capacity") for rank in ranks]
    counts = [one for one in told if isinstance(one, int)]
    if counts:
        return float(sum(counts))
    whole = info.get("max_total_num_tokens")
    return float(whole) * max(1, len(ranks)) if isinstance(whole, int) else None


def _ranks(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    states = info.get("internal_states")
    return [one for one in states if isinstance(one, dict)] if isinstance(states, list) else []


def _accepted_since_start(info: Mapping[str, Any]) -> float | None:
    told = [rank.get("avg_spec_accept_length") for rank in _ranks(info)]
    known = [float(one) for one in told if isinstance(one, int | float) and one > 0]
    return math.fsum(known) / len(known) if known else None


def _gauge(sample: Iterable[Metric], names: Sequence[str], *, together: Any = math.fsum) -> float | None:
    """The highest of the ranks that serve the same requests; put ``together`` over those that do not."""
    for name in names:
        ranks: dict[tuple[str, ...], float] = {}
        for metric in sample:
            if metric.name == name:
                key = tuple(metric.labels.get(label, "") for label in _APART)
                ranks[key] = max(metric.value, ranks.get(key, -math.inf))
        if ranks:
            return float(together(ranks.values()))
    return None


def _blocks(sample: Iterable[Metric]) -> float | None:
    """vLLM tells its KV cache as labels: in tokens, which is new, or in blocks."""
    found = 0
    for one in (metric for metric in sample if metric.name == _BLOCKS):
        tokens, blocks, size = (one.labels.get(name, "") for name in _ROOM)
        if tokens.isdigit():
            found += int(tokens)
        elif blocks.isdigit() and size.isdigit():
            found += int(blocks) * int(size)
    return float(found) or None


def _queue(samples: Sequence[Sequence[Metric]]) -> float | None:
    """Seconds a request, over those that left the queue between the first and the last sample."""
    for name in _QUEUE:
        waited, left = _grown(samples, f"{name}_sum"), _grown(samples, f"{name}_count")
        if waited is not None and left:
            return waited / left
    return None


def _accepted(samples: Sequence[Sequence[Metric]]) -> float | None:
    told = spread([_gauge(sample, _ACCEPT, together=max) for sample in samples])
    if told is not None and told.max > 0:
        return told.mean
    accepted, drafts = _grown(samples, _ACCEPTED), _grown(samples, _DRAFTS)
    return 1 + accepted / drafts if accepted is not None and drafts else None


def _cached(samples: Sequence[Sequence[Metric]]) -> float | None:
    """SGLang's count of cached tokens begins to be there with the first one; never there is not 0."""
    for prompts, cached in _CACHED:
        came = _grown(samples, prompts)
        counts = [[one.value for one in sample if one.name == cached] for sample in samples]
        if came and counts[-1]:
            return max(0.0, math.fsum(counts[-1]) - math.fsum(counts[0])) / came
    return None


def _grown(samples: Sequence[Sequence[Metric]], name: str) -> float | None:
    """How much a counter grew, over all its labels."""
    sums = [
        math.fsum(one.value for one in sample if one.name == name)
        for sample in samples
        if any(one.name == name for one in sample)
    ]
    return sums[-1] - sums[0] if len(sums) > 1 and sums[-1] >= sums[0] else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value), None)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None else one + (other or 0.0)


def spread(values: Iterable[float | None]) -> Spread | None:
    """Of those that are there; None where none is."""
    known = _known(values)
    if not known:
        return None
    return Spread(min=min(known), mean=math.fsum(known) / len(known), max=max(known))
