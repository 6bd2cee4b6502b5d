"""SQL over tables, by DuckDB in memory: an optional extra, imported when it is used.

Owns: the only import of duckdb; tables of ours in, an answer out, a Parquet file written. Refuses: SQL that
reads or writes anything else: once the tables are in, DuckDB's way to files and network is shut for good.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oeactl.core.host import Value
from oeactl.core.tables import Table
from oeactl.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TYPES = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "flag": "BOOLEAN", "time": "TIMESTAMP"}
_CONFIG = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_SHUT = """
SET enable_progress_bar = false;
SET enable_external_access = false;
SET lock_configuration = true;
"""


class Answer(Value, frozen=True, kw_only=True):
    """What a query gave. kinds: DuckDB's names of the columns' types."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def ask(tables: Sequence[Table], sql: str) -> Answer:
    """Run ``sql`` over the tables. Raises UsageError where it is wrong, or duckdb is not here."""
    import_duckdb()
    import duckdb

    with duckdb.connect(":memory:", config=dict(_CONFIG)) as database:
        _fill(database, tables)
        database.execute(_SHUT)
        try:
            found = _stoppable(database, sql)
            if found is None or not found.description:
                raise UsageError(
                    "this SQL asks for nothing", where="SQL", hint='oeactl results query "FROM runs"'
                )
            names = tuple(str(column[0]) for column in found.description)
            kinds = tuple(str(column[1]) for column in found.description)
            return Answer(names=names, kinds=kinds, rows=tuple(map(tuple, found.fetchall())))
        except duckdb.Error as problem:
            raise _wrong(problem) from problem


def _stoppable(database: DuckDBPyConnection, sql: str) -> DuckDBPyConnection:
    """Run it beside, for DuckDB does not hear Ctrl-C while it is at work."""
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(database.execute, sql)
        try:
            return running.result()
        except KeyboardInterrupt:
            while not running.done():  # one that comes before it begins is lost
                database.interrupt()
                wait([running], 0.1)
            raise


def write_parquet(table: Table, path: Path) -> None:
    """Write a table as a Parquet file. Raises UsageError where it cannot be, or duckdb is not here."""
    import_duckdb()
    import duckdb

    with duckdb.connect(":memory:", config=dict(_CONFIG)) as database:
        _fill(database, [table])
        target = str(path).replace("'", "''")
        try:
            database.execute(f"COPY {table.name} TO '{target}' (FORMAT parquet)")
        except duckdb.Error as problem:
            raise UsageError(f"cannot be written: {_first(problem)}", where=str(path)) from problem


def import_duckdb() -> None:
    """Raises UsageError, with how to get it, where duckdb is not installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError as problem:
        raise UsageError(
            "SQL and Parquet need duckdb, which is not installed here",
            hint="pip install 'oeactl[query]', or pip install duckdb",
        ) from problem


def _fill(database: DuckDBPyConnection, tables: Sequence[Table]) -> None:
    """Make the tables. Rows go by way of a file, for DuckDB takes single inserts slowly."""
    with tempfile.TemporaryDirectory(prefix="oeactl-") as folder:
        for table in tables:
            columns = {column.name: _TYPES[column.kind] for column in table.columns}
            made = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            database.execute(f"CREATE TABLE {table.name} ({made})")
            if not table.rows:
                continue
            path = Path(folder) / f"{table.name}.json"
            with path.open("w", encoding="utf-8") as file:
                for row in table.rows:
                    file.write(json.dumps(dict(zip(columns, row, strict=True)), default=_utc) + "\n")
            database.execute(
                f"INSERT INTO {table.name} SELECT * FROM "
                "read_json(?, format = 'newline_delimited', columns = ?, maximum_object_size = 100000000)",
                [str(path), columns],
            )


def _utc(moment: Any) -> str:
    """An aware time as DuckDB's TIMESTAMP, which has no zone, reads it."""
    from datetime import UTC

    return str(moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" "))


def _wrong(problem: Exception) -> UsageError:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return UsageError(
        lines[0].removesuffix("!"),
        where="SQL",
        hint="oeactl results query lists the tables",
        details=tuple(lines[1:]),
    )


def _first(problem: Exception) -> str:
    return next(iter(str(problem).splitlines()), "")
