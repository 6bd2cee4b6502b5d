"""A host's baselines as a person and a program read them.

Owns: one block a load, one line a run, the band drawn in characters. Refuses: to call a suspect a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import msgspec

from oeactl.core.history import FEWEST, Load, Series
from oeactl.render.columns import Column, fitting, table

_WIDE = 31


def history_document(every: Sequence[Series]) -> list[dict[str, Any]]:
    """For ``--json``."""
    return [msgspec.to_builtins(series) for series in every]


def history_view(every: Sequence[Series], *, width: int) -> Any:
    """Every load with its runs, the one measured last at the end. A rich renderable."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for series in every:
        parts += [Text("")] if parts else []
        parts += [Text(load_line(series.load)), table(fitting(_columns(series), width))]
        parts += [Text(line) for line in _band_lines(series)]
    return Group(*parts)


def left_line(series: Series) -> str:
    """The warning, with its suspects."""
    newest = series.baselines[-1]
    assert series.low is not None and series.high is not None
    way = "below" if newest.output_tokens_per_s < series.low else "above"
    named = "; ".join(f"{one.what}: {one.before} -> {one.now}" for one in series.suspects)
    return (
        f"the newest baseline, {newest.output_tokens_per_s:,.1f} tok/s, is {way} the band of those before it "
        f"({series.low:,.1f} to {series.high:,.1f}). New since: {named or 'nothing that is recorded'}"
    )


def load_line(load: Load) -> str:
    """'glm, sglang client, random-ids, levels 64,128 x 512/256'."""
    lengths = {(level.input_len, level.output_len) for level in load.levels}
    levels = ",".join(
        f"{level.concurrency}" if level.rate is None else f"{level.rate:g}/s" for level in load.levels
    )
    shape = " and ".join(f"{one}/{other}" for one, other in sorted(lengths))
    return f"{load.model}, {load.client} client, {load.dataset}, levels {levels} of {shape} tokens"


def _columns(series: Series) -> tuple[Column, ...]:
    """A run a row, oldest first. The run's name, which begins with the time, stays on any terminal."""
    rows = series.baselines
    return (
        Column(head="began", cells=tuple(f"{one.at:%Y-%m-%d %H:%M}" for one in rows), keep=2, left=True),
        Column(head="tok/s", cells=tuple(f"{one.output_tokens_per_s:,.1f}" for one in rows)),
        Column(head="", cells=_drawn(series), keep=3, left=True),
        Column(head="trials", cells=tuple(f"{one.trials}" for one in rows), keep=1),
        Column(head="run", cells=tuple(one.run_id for one in rows), left=True),
    )


def _drawn(series: Series) -> tuple[str, ...]:
    """Each baseline's place between the least and the most, the band's ends among them."""
    rates = [log(one.output_tokens_per_s) for one in series.baselines]
    low = min([*rates, *([log(series.low)] if series.low else [])])
    high = max([*rates, *([log(series.high)] if series.high else [])])
    places = [
        round((rate - low) / (high - low) * (_WIDE - 1)) if high > low else _WIDE // 2 for rate in rates
    ]
    return tuple("·" * place + "o" + "·" * (_WIDE - 1 - place) for place in places)


def _band_lines(series: Series) -> list[str]:
    if series.low is None or series.high is None:
        told = f"no band yet: it takes {FEWEST} baselines that differ, before the newest"
    else:
        where = "has left" if series.left else "is within"
        told = f"the newest {where} the band of those before it: {series.low:,.1f} to {series.high:,.1f}"
    return [told, *(f"new since: {one.what}: {one.before} -> {one.now}" for one in series.suspects)]
