"""Contexts by concurrencies: the cells of a matrix, and which of them the server has room for.

Owns: the text form of ``--context``, the order of cells, the sum that a cell needs. A cell needs (context +
output) tokens a stream, all streams at once. Refuses: to measure a cell that the KV cache cannot hold, for it
would be a queue that is measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oeactl.core.load import Cell, Point, Sweep, make_point
from oeactl.errors import UsageError

_LENGTH = re.compile(r"([0-9]{1,9})([kK]?)")
_MOST_CELLS = 256


def parse_contexts(text: str) -> tuple[int, ...]:
    """Read ``512,8k,32k`` (k: 1024 tokens): prompt lengths, each once. Raises UsageError."""
    found: list[int] = []
    for piece in (part.strip() for part in text.split(",")):
        read = _LENGTH.fullmatch(piece)
        length = int(read[1]) * (1024 if read[2] else 1) if read else 0
        if length < 1 or length in found:
            what = f"context {piece} is given twice" if length else f"'{piece}' is not a prompt's length"
            raise UsageError(what, where="--context", hint="lengths in tokens: --context 512,8k,32k")
        found.append(length)
    return tuple(found)


def by_context(sweep: Sweep, contexts: Sequence[int], *, requests: int | None = None) -> Sweep:
    """The levels of ``sweep`` at each context, context by context. requests: a cell, if not by its streams.

    Raises UsageError.
    """
    if sweep.until_saturated or any(point.rate for point in sweep.points):
        raise UsageError(
            "a matrix has a cell for each context and concurrency",
            where="--context",
            hint="leave --until-saturated and --rate out, or give one --input-len",
        )
    if len(contexts) * len(sweep.points) > _MOST_CELLS:
        raise UsageError(f"{len(contexts)} x {len(sweep.points)} cells are more than {_MOST_CELLS}")
    points = tuple(
        make_point(
            point.concurrency,
            input_len=context,
            output_len=point.output_len,
            seed=sweep.seed or 0,
            requests=requests,
        )
        for context in contexts
        for point in sweep.points
    )
    return msgspec.structs.replace(sweep, points=points, matrix=True)


def with_room(sweep: Sweep, info: Mapping[str, Any]) -> Sweep:
    """A matrix without the cells that the server cannot hold. info: what it says of itself (SGLang's names).

    Raises UsageError where no cell is left. A server that does not say how much it holds is taken at any.
    """
    if not sweep.matrix:
        return sweep
    kept, skipped = [], []
    for point in sweep.points:
        why = _no_room(point, info)
        if why is None:
            kept.append(point)
        else:
            skipped.append(why)
    if not kept:
        raise UsageError(f"no cell fits: {skipped[0].described}", where="--context")
    return msgspec.structs.replace(sweep, points=tuple(kept), skipped=tuple(skipped))


def capacity(info: Mapping[str, Any]) -> int | None:
    """How many tokens the KV cache holds, over all data-parallel ranks; None: the server does not say."""
    tokens, ranks = info.get("max_total_num_tokens"), info.get("dp_size")
    if not isinstance(tokens, int) or not _is_count(tokens):
        return None
    return tokens * (ranks if isinstance(ranks, int) and _is_count(ranks) else 1)


def _no_room(point: Point, info: Mapping[str, Any]) -> Cell | None:
    request = point.input_len + point.output_len
    longest = info.get("context_length") or info.get("max_req_input_len")
    held = capacity(info)
    if isinstance(longest, int) and _is_count(longest) and request > longest:
        return _cell(point, "the longest request", request, longest)
    if held is not None and point.concurrency * request > held:
        return _cell(point, "the KV cache", point.concurrency * request, held)
    return None


def _cell(point: Point, limit: str, needed: int, available: int) -> Cell:
    return Cell(
        concurrency=point.concurrency,
        input_len=point.input_len,
        output_len=point.output_len,
        limit=limit,
        needed_tokens=needed,
        available_tokens=available,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
