"""A host's baselines as a person and a program read them.

Owns: one block a load, one line a run, the band drawn in characters. Refuses: to call a suspect a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import msgspec

from oeactl.core.history import FEWEST, Load, Series

_WIDE = 31


def history_document(every: Sequence[Series]) -> list[dict[str, Any]]:
    """For ``--json``."""
    return [msgspec.to_builtins(series) for series in every]


def history_text(every: Sequence[Series]) -> str:
    """Every load with its runs, the one measured last at the end."""
    return "\n\n".join("\n".join(_block(series)) for series in every)


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


def _block(series: Series) -> list[str]:
    rates = [log(one.output_tokens_per_s) for one in series.baselines]
    low = min([*rates, *([log(series.low)] if series.low else [])])
    high = max([*rates, *([log(series.high)] if series.high else [])])
    lines = [load_line(series.load)]
    for one, rate in zip(series.baselines, rates, strict=True):
        place = round((rate - low) / (high - low) * (_WIDE - 1)) if high > low else _WIDE // 2
        drawn = "·" * place + "o" + "·" * (_WIDE - 1 - place)
        restarts = f"{one.trials} trial{'' if one.trials == 1 else 's'}"
        lines.append(
            f"  {one.at:%Y-%m-%d %H:%M}  {one.output_tokens_per_s:>10,.1f} tok/s  {drawn}  "
            f"{restarts}  {one.run_id}"
        )
    if series.low is None or series.high is None:
        lines.append(f"  no band yet: it takes {FEWEST} baselines that differ, before the newest")
    else:
        where = "has left" if series.left else "is within"
        lines.append(
            f"  the newest {where} the band of those before it: {series.low:,.1f} to {series.high:,.1f}"
        )
    lines += [f"  new since: {one.what}: {one.before} -> {one.now}" for one in series.suspects]
    return lines
