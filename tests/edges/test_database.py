"""SQL over the tables and nothing else; Parquet that is read back as it was."""

from __future__ import annotations

import sys
from datetime import UTC
from pathlib import Path

import duckdb
import pytest

from oeactl.core.run import Listing
from oeactl.core.tables import Column, Table, points, tables
from oeactl.edges.database import ask, write_parquet
from oeactl.errors import UsageError
from tests.support.runs import a_run

LISTING = Listing(path="", runs=(a_run(),))
ALL = tables(LISTING)
ODD = Table(
    name="odd",
    about="values that are easily lost",
    columns=(
        Column(name="said", kind="text"),
        Column(name="n", kind="integer"),
        Column(name="x", kind="number"),
    ),
    rows=(("a\n\"b\" 'c', ü; null", 2**62, 0.1), (None, None, None), ("", 0, 5e-324)),
)


def test_a_query_sees_every_table_with_its_types() -> None:
    found = ask(ALL, "SELECT concurrency, valid, started_at, output_tokens_per_s FROM points ORDER BY ALL")
    assert found.names == ("concurrency", "valid", "started_at", "output_tokens_per_s")
    assert found.kinds == ("BIGINT", "BOOLEAN", "TIMESTAMP", "DOUBLE")
    assert [row[:2] for row in found.rows] == [(4, True), (16, False)]
    assert found.rows[0][2].replace(tzinfo=UTC) == LISTING.runs[0].trials[0].points[0].started_at
    for table in ALL:
        assert ask(ALL, f"SELECT count(*) FROM {table.name}").rows == ((len(table.rows),),)


def test_values_come_back_as_they_were() -> None:
    assert ask([ODD], "FROM odd").rows == ODD.rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "COPY points TO '{out}'",
        "ATTACH '{out}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "EXPORT DATABASE '{out}'",
    ],
)
def test_sql_reaches_no_file_and_no_network(sql: str, tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("a\n1\n")
    with pytest.raises(UsageError):
        ask(ALL, sql.format(file=tmp_path / "file.csv", out=tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["file.csv"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nosuch", "nosuch"),
        ("SELECT tok FROM points", '"tok" not found'),
        ("", "asks for nothing"),
        ("-- nothing", "asks for nothing"),
    ],
)
def test_wrong_sql_is_told_in_one_line_and_the_tables_are_named(sql: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask(ALL, sql)
    assert said in refused.value.what and "\n" not in refused.value.what
    assert "oeactl results query" in (refused.value.hint or "")


def test_parquet_holds_what_the_table_does(tmp_path: Path) -> None:
    path = tmp_path / "it's levels.parquet"
    table = points(LISTING.runs)
    write_parquet(table, path)
    with duckdb.connect() as database:
        rows = database.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
        kinds = dict(
            database.execute(
                "SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet(?))", [str(path)]
            ).fetchall()
        )
    names = [column.name for column in table.columns]
    at = names.index("started_at")
    assert len(rows) == 2 and kinds["output_tokens_per_s"] == "DOUBLE" and kinds["started_at"] == "TIMESTAMP"
    for kept, row in zip(table.rows, rows, strict=True):
        assert kept[:at] + kept[at + 1 :] == tuple(row[:at]) + tuple(row[at + 1 :])
        assert row[at].replace(tzinfo=UTC) == kept[at]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write_parquet(points(LISTING.runs), tmp_path / "no" / "such.parquet")


def test_without_duckdb_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError) as refused:
        ask(ALL, "FROM runs")
    assert "oeactl[query]" in (refused.value.hint or "")
