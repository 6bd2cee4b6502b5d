"""Distinct experts a decode step: as seen on a live server, and as predicted.

Owns: the table of ``status --experts``, the table and the small plot of ``predict``. Refuses: to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

from oeactl.core.experts import Prediction, expected_distinct
from oeactl.core.routing import ExpertsSeen
from oeactl.render.columns import Column, fitting, table

_HEIGHT = 12
_MARKS = "123456789abcdefghijklmnopqrstuvw"
_ROUTED = "*"


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
    parts: list[Any] = [Text(head, style="bold"), table(_distinct_columns(prediction, width))]
    if len(prediction.rows) > 2:
        parts += [Text(""), Text(_plot(prediction))]
    hardware = prediction.hardware
    if hardware is not None:
        parts += [Text(""), Text(hardware.name, style="bold"), Text("\n".join(hardware.arithmetic()))]
        parts += [Text("MoE time a step, ms"), table(_time_columns(prediction, width))]
    if prediction.baseline_tokens_per_s is not None:
        allowed = ", ".join(
            f"k0={k0}: {rate:,.0f}"
            for k0, rate in zip(prediction.k0, prediction.rows[0].tokens_per_s, strict=True)
        )
        parts.append(Text(f"tok/s allowed at {prediction.baseline_tokens_per_s:g} measured: {allowed}"))
    return Group(*parts)


def _distinct_columns(prediction: Prediction, width: int) -> tuple[Column, ...]:
    rows = prediction.rows
    return fitting(
        (
            Column(head="batch", cells=tuple(f"{row.batch}" for row in rows)),
            Column(head="routed", cells=tuple(f"{row.distinct:.1f}" for row in rows)),
            *(
                Column(head=f"k0={k0}", cells=tuple(f"{row.kept[at]:.1f}" for row in rows), keep=1)
                for at, k0 in enumerate(prediction.k0)
            ),
        ),
        width,
    )


def _time_columns(prediction: Prediction, width: int) -> tuple[Column, ...]:
    rows = prediction.rows
    return fitting(
        (
            Column(head="batch", cells=tuple(f"{row.batch}" for row in rows)),
            Column(head="routed", cells=tuple(_number(row.moe_ms) for row in rows)),
            *(
                Column(head=f"k0={k0}", cells=tuple(f"{row.moe_ms_kept[at]:.1f}" for row in rows), keep=1)
                for at, k0 in enumerate(prediction.k0)
            ),
        ),
        width,
    )


def _plot(prediction: Prediction) -> str:
    """Batch on a logarithmic axis, distinct experts upwards: ``*`` as routed, a digit each k0."""
    rows, span = prediction.rows, 4
    first, last = log2(rows[0].batch), log2(rows[-1].batch)
    columns = max(24, min(60, span * len(rows)))
    grid = [[" "] * (columns + 1) for _ in range(_HEIGHT + 1)]
    for row in rows:
        x = round((log2(row.batch) - first) / (last - first) * columns)
        series = [
            (f"{_MARKS[(k0 - 1) % len(_MARKS)]}", value)
            for k0, value in zip(prediction.k0, row.kept, strict=True)
        ]
        for mark, value in [*series, (_ROUTED, row.distinct)]:
            grid[_HEIGHT - round(value / prediction.experts * _HEIGHT)][x] = mark
    labels = {0: f"{prediction.experts}", _HEIGHT // 2: f"{prediction.experts // 2}", _HEIGHT: "0"}
    lines = [f"{labels.get(at, ''):>5} |{''.join(line).rstrip()}" for at, line in enumerate(grid)]
    ends = f"{rows[0].batch}{rows[-1].batch!s:>{columns - len(str(rows[0].batch)) + 1}}"
    legend = f"{_ROUTED} as routed; a digit: what OEA leaves with that k0; batch doubles to the right"
    return "\n".join([*lines, f"{'':>5} +{'-' * (columns + 1)}", f"{'':>7}{ends}", f"{'':>7}{legend}"])
