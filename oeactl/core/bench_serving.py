"""The result line of SGLang's load client (``bench_serving``), over its releases.

Owns: its fields, and what they mean here: for the driver, which asked for exactly that load, and for lines
that others brought. Refuses: a line that is out of order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.foreign_level import ForeignLevel, about, same_length, spread, typed
from oeactl.core.load import Measurement, PerRequest, Point
from oeactl.core.redact import redact
from oeactl.core.results import finite
from oeactl.errors import UsageError

#: The others count the tokens that were asked for: a server that stops early shows a multiple of its rate.
NATIVE = ("sglang", "sglang-native")
DURATION = "the client's final GET of the server's information"
_LISTS = ("input_lens", "output_lens", "ttfts", "itls", "errors", "generated_texts")
_NOT_ASKED = "the lengths asked for are not in the file"
_DETAILS = "written without --output-details"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The fields we read, as every release since 0.4.7 writes them. The lists: with --output-details."""

    backend: str
    dataset_name: str
    max_concurrency: int | None
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
    input_lens: tuple[int, ...] | None = None
    output_lens: tuple[int, ...] | None = None
    ttfts: tuple[float, ...] | None = None
    itls: tuple[tuple[float, ...], ...] | None = None
    errors: tuple[str, ...] | None = None
    generated_texts: tuple[str, ...] | None = None
    cached_tokens: tuple[int, ...] | None = None

    @property
    def fixed(self) -> bool:
        """Whether every request had one and the same length."""
        return self.dataset_name.startswith("random") and self.random_range_ratio == 1.0


def is_line(fields: Mapping[str, Any]) -> bool:
    """Whether it is of this client, by what only it writes."""
    return "total_output_tokens_retokenized" in fields and "duration" in fields


def read(fields: Mapping[str, Any], where: str) -> tuple[Line, Measurement, PerRequest | None]:
    """A line's fields as they are meant. Raises UsageError."""
    line = typed(fields, Line, where)
    rows = _rows(line, where)
    sent = len(rows.errors) if rows else line.completed
    one_token = line.fixed and line.random_output_len == 1
    e2e, ttft = spread(fields, "e2e_latency", where), spread(fields, "ttft", where)
    if e2e is None or ttft is None:
        raise UsageError("there is no mean_e2e_latency_ms or no mean_ttft_ms", where=where)
    measurement = Measurement(
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
        e2e_ms=e2e,
        ttft_ms=ttft,
        tpot_ms=None if one_token else spread(fields, "tpot", where),
        itl_ms=None if one_token else spread(fields, "itl", where),
    )
    return line, measurement, rows


def _rows(line: Line, where: str) -> PerRequest | None:
    """The per-request lists: all of them, or none."""
    absent = [name for name in _LISTS if getattr(line, name) is None]
    if len(absent) == len(_LISTS):
        return None
    if absent:
        raise UsageError(f"there is no '{absent[0]}'", where=where)
    same_length({name: getattr(line, name) for name in (*_LISTS, "cached_tokens")}, where)
    return PerRequest(
        input_lens=line.input_lens or (),
        output_lens=line.output_lens or (),
        ttfts_s=line.ttfts or (),
        itls_s=line.itls or (),
        errors=line.errors or (),
        generated_texts=line.generated_texts or (),
        cached_tokens=line.cached_tokens,
    )


def foreign(fields: Mapping[str, Any], where: str) -> ForeignLevel:
    """A line that somebody else's run wrote. Raises UsageError."""
    line, measurement, rows = read(fields, where)
    sent = max(1, measurement.requested)
    rate = fields.get("request_rate")
    point = Point(
        concurrency=line.max_concurrency or sent,
        input_len=line.random_input_len if line.fixed else about(line.total_input_tokens, sent),
        output_len=line.random_output_len if line.fixed else about(line.total_output_tokens, sent),
        requests=sent,
        warmup_requests=None,
        seed=None,
        warmup_seed=None,
        rate=float(rate) if isinstance(rate, int | float) and rate > 0 else None,
    )
    untold: dict[str, str] = {}
    if not line.fixed:
        untold |= dict.fromkeys(("output_lengths", "input_lengths"), _NOT_ASKED)
    if line.backend not in NATIVE:
        untold["output_lengths"] = f"with backend {line.backend} it reports what was asked for"
    if rows is None:
        untold |= dict.fromkeys(("errors", "output_lengths", "input_lengths", "ttft", "answers"), _DETAILS)
        untold["completed"] = f"{_DETAILS}: how many were planned is not in the file"
    server = fields.get("server_info")
    args = finite(redact(dict(server))) if isinstance(server, dict) else {}
    args.pop("internal_states", None)
    ids = line.dataset_name in ("random", "random-ids")
    return ForeignLevel(
        where=where,
        client="sglang bench_serving",
        version=None,
        engine=line.backend.partition("-")[0],
        model=_text(args.get("served_model_name")) or _text(args.get("model_path")),
        url=None,
        point=point,
        measurement=measurement,
        rows=rows,
        dataset="random-ids" if ids else "other",
        tokens_from="server" if line.backend in NATIVE else "what was asked for, not what came",
        duration_includes=DURATION,
        untold=untold,
        server_args=args,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
