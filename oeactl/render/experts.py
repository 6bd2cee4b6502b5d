"""Distinct experts a decode step: as seen on a live server, and as predicted.

Owns: the table of ``status --experts``, the table and the small plot of ``predict``. Refuses: to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2
from typing import Any

from oeactl.core.experts import UNIFORM, Predicted, Prediction, expected_distinct
from oeactl.core.routing import ExpertsSeen
from oeactl.render.columns import Column, fitting, table

_HEIGHT = 16
_NARROWEST = 24
_MARKS = "123456789abcdefghijklmnopqrstuvw"
_ROUTED = "*"
_LABEL = 7
_SKEWED = "real routing is skewed: it uses fewer, before and after; the share that is saved fits better"
_NO_RANKS = "a recording has no ranks: a token's best are taken to vary as all do, and k0 columns run high"


def seen_view(seen: Sequence[ExpertsSeen], *, width: int) -> Any:
    """One row a batch size; what could not be seen is a dash, its reason below."""
    from rich.console import Group
    from rich.text import Text

    columns = (
        Column(head="requests\nat once", cells=tuple(f"{one.requests}" for one in seen)),
        Column(
            head="distinct experts\na layer and step", cells=tuple(_number(one.distinct_mean) for one in seen)
        ),
        *(
            [Column(head="without\na recipe", cells=tuple(_number(one.routed_mean) for one in seen), keep=1)]
            if any(one.routed_mean is not None for one in seen)
            else []
        ),
        Column(head="least", cells=tuple(_extreme(one, least=True) for one in seen), keep=2),
        Column(head="most", cells=tuple(_extreme(one, least=False) for one in seen), keep=2),
        Column(
            head="of", cells=tuple("-" if one.experts is None else f"{one.experts}" for one in seen), keep=1
        ),
        Column(head="if routed\nuniformly", cells=tuple(_uniform(one) for one in seen), keep=3),
    )
    reasons = dict.fromkeys(one.reason for one in seen if one.outcome != "measured")
    return Group(
        table(fitting(columns, width)),
        *(Text(f"not measured: {reason}", style="yellow") for reason in reasons),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _extreme(seen: ExpertsSeen, *, least: bool) -> str:
    if not seen.layers:
        return "-"
    if least:
        return f"{min(layer.distinct_min for layer in seen.layers)}"
    return f"{max(layer.distinct_max for layer in seen.layers)}"


def _uniform(seen: ExpertsSeen) -> str:
    if seen.experts is None or seen.top_k is None:
        return "-"
    return f"{expected_distinct(seen.experts, seen.top_k, seen.requests):.1f}"


def prediction_view(prediction: Prediction, *, width: int) -> Any:
    """The table, the plot, and how a time came about."""
    from rich.console import Group
    from rich.text import Text

    head = (
        f"{prediction.experts} experts, {prediction.top_k} a token, {prediction.source}: distinct experts a "
        "layer and decode step"
    )
    note = Text(_SKEWED if prediction.source == UNIFORM else _NO_RANKS, style="dim")
    parts: list[Any] = [Text(head, style="bold"), *_by_batch(prediction, width, _distinct), note]
    if len(prediction.rows) > 2 and width >= _LABEL + _NARROWEST:
        parts += [Text(""), Text(_plot(prediction, width)), Text(_legend(prediction))]
    hardware = prediction.hardware
    if hardware is not None:
        parts += [Text(""), Text(hardware.name, style="bold"), Text("\n".join(hardware.arithmetic()))]
        parts += [Text("MoE time a step, ms"), *_by_batch(prediction, width, _ms)]
    if prediction.baseline_tokens_per_s is not None:
        allowed = ", ".join(
            f"k0={k0}: {rate:,.0f}"
            for k0, rate in zip(prediction.k0, prediction.rows[0].tokens_per_s, strict=True)
        )
        parts.append(Text(f"tok/s allowed at {prediction.baseline_tokens_per_s:g} measured: {allowed}"))
    return Group(*parts)


def _distinct(row: Predicted) -> tuple[float | None, tuple[float, ...]]:
    return row.distinct, row.kept


def _ms(row: Predicted) -> tuple[float | None, tuple[float, ...]]:
    return row.moe_ms, row.moe_ms_kept


def _by_batch(
    prediction: Prediction, width: int, of: Callable[[Predicted], tuple[float | None, tuple[float, ...]]]
) -> list[Any]:
    """A table of one figure, a row a batch, a column a k0; the largest k0 give way first, and it is said."""
    from rich.text import Text

    batches, told = [f"{row.batch}" for row in prediction.rows], [of(row) for row in prediction.rows]
    columns = (
        Column(head="batch", cells=tuple(batches)),
        Column(head="routed", cells=tuple(_number(routed) for routed, _ in told)),
        *(
            Column(head=f"k0={k0}", cells=tuple(f"{kept[at]:.1f}" for _, kept in told), keep=1 + at)
            for at, k0 in enumerate(prediction.k0)
        ),
    )
    kept = fitting(columns, width)
    hidden = [column.head for column in columns if column not in kept]
    made: list[Any] = [table(kept)]
    if hidden:
        made.append(Text(f"no room for {', '.join(hidden)}; --json has them", style="yellow"))
    return made


def _plot(prediction: Prediction, width: int) -> str:
    """Batch on a logarithmic axis, distinct experts upwards: ``*`` as routed, a digit each k0."""
    rows = prediction.rows
    first, last = log2(rows[0].batch), log2(rows[-1].batch)
    columns = min(max(_NARROWEST, 5 * len(rows)), 60, width - _LABEL)
    grid = [[" "] * (columns + 1) for _ in range(_HEIGHT + 1)]
    ticks = ""
    for row in rows:
        x = round((log2(row.batch) - first) / (last - first) * (columns - 1))
        tick = f"{row.batch}"
        start = min(x, columns - len(tick))
        if start == 0 or start > len(ticks):
            ticks = f"{ticks:<{start}}{tick}"
        series = [(_mark(k0), value) for k0, value in zip(prediction.k0, row.kept, strict=True)]
        for mark, value in [*series, (_ROUTED, row.distinct)]:
            grid[_HEIGHT - round(value / prediction.experts * _HEIGHT)][x] = mark
    quarter = _HEIGHT // 4
    labels = {at * quarter: f"{prediction.experts * (4 - at) / 4:g}" for at in range(5)}
    lines = [f"{labels.get(at, ''):>5} |{''.join(line).rstrip()}" for at, line in enumerate(grid)]
    return "\n".join([*lines, f"{'':>5} +{'-' * columns}", f"{'':>{_LABEL}}{ticks}"])


def _mark(k0: int) -> str:
    return _MARKS[(k0 - 1) % len(_MARKS)]


def _legend(prediction: Prediction) -> str:
    marks = ", ".join(_mark(k0) if k0 < 10 else f"{_mark(k0)} ({k0})" for k0 in prediction.k0)
    return f"{_ROUTED} as routed; {marks}: what OEA leaves with that k0, where nothing hides it"
