"""``results query`` and ``results export``: text, CSV, JSON, Parquet, and every wrong word named."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from oeactl.cli.app import main
from tests.cli.test_experiment import FIRST, THIRD, document, kept, project

__all__ = ["kept", "project"]
pytestmark = pytest.mark.usefixtures("kept")


def out(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_a_query_is_answered_as_text_csv_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT what, count(*) AS n FROM runs GROUP BY ALL ORDER BY what"
    assert out(capsys, "results", "query", sql) == "what   n\nab     1\nbench  2\n2 rows\n"
    assert out(capsys, "results", "query", sql, "--format", "csv") == "what,n\nab,1\nbench,2\n"
    found = json.loads(out(capsys, "results", "query", sql, "--json"))
    assert found["rows"] == [["ab", 1], ["bench", 2]]
    assert found["columns"] == [{"name": "what", "type": "VARCHAR"}, {"name": "n", "type": "BIGINT"}]


def test_odd_values_are_shown_and_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT 'nan'::DOUBLE, NULL, 1.50::DECIMAL(4,2), [1,2], {'a': 1}, TIMESTAMP '2026-01-01', '\n'"
    (row,) = json.loads(out(capsys, "results", "query", sql, "--json"))["rows"]
    assert row == ["nan", None, 1.5, [1, 2], {"a": 1}, "2026-01-01T00:00:00Z", "\n"]
    assert out(capsys, "results", "query", sql).splitlines()[-1] == "1 row"
    assert out(capsys, "results", "query", "FROM runs WHERE false").splitlines()[-1] == "0 rows"


def test_without_sql_the_tables_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "results", "query")
    assert "points  one level of a trial; 20 rows" in text and "output_tokens_per_s " in text
    tables = document(capsys, "results query")["tables"]
    assert [table["table"] for table in tables][:4] == ["runs", "arms", "trials", "points"]


def test_an_answer_goes_into_a_file(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("results", "query", "FROM verdicts", "--format", "csv", "--out", "v.csv")
    assert out(capsys, *words) == "wrote v.csv\n"
    (row,) = csv.DictReader((kept / "v.csv").read_text().splitlines())
    assert (row["says"], row["against"]) == ("improved", "A")


@pytest.mark.parametrize(
    "table", ["runs", "arms", "trials", "points", "gates", "verdicts", "metrics", "skipped"]
)
def test_every_table_is_exported(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "results", "export", "--table", table)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert text.splitlines()[0].startswith(("run_id,", "path,"))
    assert (len(rows) > 0) == (table not in ("metrics", "skipped"))


def test_a_run_named_twice_is_exported_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "results", "export", THIRD, "last", FIRST)
    assert len(list(csv.DictReader(io.StringIO(text)))) == 16 + 2


def test_parquet_needs_a_file_and_gets_one(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "export", "--format", "parquet"]) == 2
    assert "--out levels.parquet" in capsys.readouterr().err
    assert (
        out(capsys, "results", "export", "--format", "parquet", "--out", "l.parquet") == "wrote l.parquet\n"
    )
    assert (kept / "l.parquet").read_bytes()[:4] == b"PAR1"


def test_what_could_not_be_read_is_said_and_is_a_row(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept / "results/runs/2026" / FIRST / "plan.json").write_text("<<<<<<< ann\n")
    capsys.readouterr()
    assert main(["results", "query", "SELECT why FROM skipped"]) == 0
    said = capsys.readouterr()
    assert "not whole JSON" in said.out and "1 file was passed over" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["query", "FROM nosuch"], "Table with name nosuch does not exist"),
        (["query", "FROM runs", "--format", "xls"], "'xls' is none of text, csv"),
        (["query", "FROM runs", "--out", "no/such/file"], "cannot be written"),
        (["export", "--table", "levels"], "'levels' is none of runs, arms, trials, points"),
        (["export", "--format", "xls"], "'xls' is none of csv, parquet"),
        (["export", "zzz"], "no run is called 'zzz'"),
    ],
)
def test_a_wrong_word_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", *words]) == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_ends_a_query_that_takes_long() -> None:
    code = (
        "import os, signal, threading, duckdb; from oeactl.cli.app import main;"
        "threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start();"
        "print(main(['results', 'query', 'SELECT count(*) FROM range(100000000000) a, range(1000) b']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "130\n"


def test_without_duckdb_csv_is_written_all_the_same_and_a_query_says_what_it_needs() -> None:
    """In a process of its own: whether duckdb is imported only where it is used."""
    code = (
        "import sys; sys.modules['duckdb'] = None; from oeactl.cli.app import main;"
        "print(main(['results', 'export', '--out', 'x.csv']), main(['results', 'query', 'FROM runs']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 2"
    assert "pip install 'oeactl[query]'" in done.stderr
