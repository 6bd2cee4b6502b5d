"""Tables for a terminal of any width: figures stand right, units in the heads.

Owns: which columns give way when it is narrow. Refuses: to print, and what stands in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oeactl.core.host import Value

_DASH = "-"


class Column(Value, frozen=True, kw_only=True):
    """One column. keep: the highest goes first when the terminal is narrow; 0 always stays."""

    head: str
    cells: tuple[str, ...]
    keep: int = 0
    left: bool = False

    @property
    def width(self) -> int:
        return max(len(line) for text in (self.head, *self.cells) for line in text.split("\n"))


def fitting(columns: Sequence[Column], width: int) -> tuple[Column, ...]:
    """The columns that fit into ``width``; those that say nothing are left out, then by rank."""
    kept = [column for column in columns if set(column.cells) - {_DASH, ""} or column.keep == 0]
    while sum(column.width + 2 for column in kept) - 2 > width:
        dearest = max(kept, key=lambda column: column.keep)
        if dearest.keep == 0:
            break
        kept.remove(dearest)
    return tuple(kept)


def table(columns: Sequence[Column], *, dim: Sequence[bool] = ()) -> Any:
    """Columns as a rich table; dim: rows that stand back."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column.head, justify="left" if column.left else "right", no_wrap=True, vertical="bottom"
        )
    rows = zip(*(column.cells for column in columns), strict=True)
    for index, row in enumerate(rows):
        made.add_row(*row, style="dim" if dim and dim[index] else None)
    return made
