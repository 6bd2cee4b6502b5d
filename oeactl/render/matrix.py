"""A matrix as a grid: a row a context, a column a concurrency, output tok/s in the cells.

Owns: the grid and the words for cells without a figure. Refuses: to cut columns; it is left out where the
terminal is too narrow, for the table of levels says it all.
"""

from __future__ import annotations

from typing import Any

from oeactl.core.load import Sweep
from oeactl.core.run import Trial
from oeactl.render.columns import Column, table

_DASH = "-"


def matrix_table(sweep: Sweep, trial: Trial, *, width: int) -> Any:
    """The grid; None where it does not fit into ``width``, or has one row or column alone."""
    asked = [(point.input_len, point.concurrency) for point in sweep.points]
    asked += [(cell.input_len, cell.concurrency) for cell in sweep.skipped]
    contexts, levels = (sorted({pair[at] for pair in asked}) for at in (0, 1))
    words = dict.fromkeys(((cell.input_len, cell.concurrency) for cell in sweep.skipped), "no room")
    for point in trial.points:
        rate = point.measurement.output_tokens_per_s if point.measurement and point.valid else None
        words[point.point.input_len, point.point.concurrency] = "void" if rate is None else f"{rate:,.1f}"
    columns = [Column(head="context\ntokens", cells=tuple(f"{context}" for context in contexts))]
    columns += [
        Column(
            head=f"tok/s\nat {level}",
            cells=tuple(words.get((context, level), _DASH) for context in contexts),
        )
        for level in levels
    ]
    if len(contexts) < 2 or len(levels) < 2 or sum(column.width + 2 for column in columns) - 2 > width:
        return None
    return table(columns)
