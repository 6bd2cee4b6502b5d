"""What host, cards and engine did at each level, as a table under that of the levels.

Owns: its columns; what was not seen has a dash, and a column of dashes is left out. Refuses: to judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from oeactl.core.metrics import EngineLoad, Spread
from oeactl.core.run import PointRecord, Trial
from oeactl.core.telemetry import CardLoad, Watched
from oeactl.render.columns import Column, fitting, table
from oeactl.render.sweeps import level_name

_DASH = "-"


def watched_table(trial: Trial, *, width: int) -> Any | None:
    """One row a level; None where nothing was seen at any."""
    points = [point for point in trial.points if point.watched is not None]
    columns = (
        Column(head="level", cells=tuple(map(level_name, points))),
        Column(head="running\nmean", cells=_engine(points, lambda e: _mean(e.running, "{:,.1f}")), keep=1),
        Column(head="waiting\nmean", cells=_engine(points, lambda e: _mean(e.waiting, "{:,.1f}")), keep=1),
        Column(head="queue\nms", cells=_engine(points, lambda e: _plain(e.queue_s, "{:,.1f}", 1e3)), keep=5),
        Column(head="KV used\nmost", cells=_engine(points, lambda e: _most(e.kv_share, "{:.0%}")), keep=2),
        Column(head="KV tokens\nfree, least", cells=_engine(points, _free), keep=6),
        Column(
            head="accept\nlength",
            cells=tuple(_plain(point.accept_length, "{:.2f}") for point in points),
            keep=4,
        ),
        Column(head="host\nCPU", cells=_seen(points, lambda w: _mean(w.cpu_busy, "{:.0%}")), keep=7),
        Column(head="SM MHz\nmean", cells=_cards(points, lambda c: c.sm_mhz), keep=1),
        Column(head="W a GPU\nmean", cells=_cards(points, lambda c: c.power_w), keep=3),
        Column(head="GPU C\nmost", cells=_seen(points, _hottest), keep=3),
    )
    kept = fitting(columns, width) if points else ()
    return table(kept) if len(kept) > 1 else None


def unseen_line(trial: Trial) -> str | None:
    """What could not be seen of host, cards and engine, and why; None where nothing is missing."""
    found: dict[str, str] = {}
    for point in trial.points:
        found.update(point.watched.unseen if point.watched else {})
    if "metrics" in found and trial.engine.package == "sglang" and "404" in found["metrics"]:
        found["metrics"] += "; sglang has them with --enable-metrics"
    told = ", ".join(f"{what} ({why})" for what, why in sorted(found.items()))
    return f"not seen: {told}" if told else None


def _seen(points: Sequence[PointRecord], text: Callable[[Watched], str]) -> tuple[str, ...]:
    return tuple(_DASH if point.watched is None else text(point.watched) for point in points)


def _engine(points: Sequence[PointRecord], text: Callable[[EngineLoad], str]) -> tuple[str, ...]:
    return _seen(points, lambda seen: _DASH if seen.engine is None else text(seen.engine))


def _cards(points: Sequence[PointRecord], of: Callable[[CardLoad], Spread | None]) -> tuple[str, ...]:
    """The mean over the cards that the server uses."""

    def text(seen: Watched) -> str:
        means = [found.mean for card in seen.loaded if (found := of(card)) is not None]
        return f"{math.fsum(means) / len(means):,.0f}" if means else _DASH

    return _seen(points, text)


def _hottest(seen: Watched) -> str:
    most = [card.temperature_c.max for card in seen.loaded if card.temperature_c is not None]
    return f"{max(most):.0f}" if most else _DASH


def _free(load: EngineLoad) -> str:
    return _DASH if load.kv_available_tokens is None else f"{load.kv_available_tokens.min:,.0f}"


def _mean(found: Spread | None, form: str) -> str:
    return _DASH if found is None else form.format(found.mean)


def _most(found: Spread | None, form: str) -> str:
    return _DASH if found is None else form.format(found.max)


def _plain(value: float | None, form: str, scale: float = 1.0) -> str:
    return _DASH if value is None else form.format(value * scale)
