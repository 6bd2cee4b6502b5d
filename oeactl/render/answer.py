"""What SQL over the results gave, and what there is to ask, as text.

Owns: columns side by side, figures right. Refuses: to drop or shorten a column: it was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oeactl.core.tables import Table
from oeactl.render.table_file import plain

_NULL = "-"


def answer_text(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """One line a row under the names, then how many there are."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[at]) for line in (names, *cells)) for at in range(len(names))]
    right = [
        all(
            value is None or (isinstance(value, int | float) and not isinstance(value, bool))
            for value in column
        )
        for column in zip(*([plain(value) for value in row] for row in rows), strict=True)
    ] or [False] * len(names)
    lines = [
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (names, *cells)
    ]
    return "\n".join([*lines, f"{len(rows)} row{'' if len(rows) == 1 else 's'}"])


def tables_text(tables: Sequence[Table]) -> str:
    """Every table with its columns: what a query may name."""
    return "\n".join(
        f"{table.name}  {table.about}; {len(table.rows)} row{'' if len(table.rows) == 1 else 's'}\n"
        + "\n".join(f"    {column.name:<28}{column.kind}" for column in table.columns)
        for table in tables
    )


def _cell(value: Any) -> str:
    if value is None:
        return _NULL
    told = plain(value)
    if isinstance(told, float):
        return f"{told:.6g}"
    return str(told).replace("\n", "\\n")
