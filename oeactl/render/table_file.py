"""A table as text for other programs.

Owns: RFC 4180, and how a value is written in it. Refuses: to leave a column out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from oeactl.core.results import finite
from oeactl.core.tables import Table


def csv_text(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header line, then a line a row; empty for what is null."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([plain(value) for value in row] for row in rows)
    return text.getvalue()


def table_csv(table: Table) -> str:
    return csv_text([column.name for column in table.columns], table.rows)


def table_document(table: Table) -> list[dict[str, Any]]:
    """For ``--json``: one mapping a row."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, map(plain, row), strict=True)) for row in table.rows]


def plain(value: Any) -> Any:
    """A value as JSON and CSV can hold it; times in UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if value is None or isinstance(value, str | bool | int | float | list | tuple | dict):
        return finite(value)
    try:
        return float(value)  # a decimal
    except (TypeError, ValueError):
        return str(value)
