"""``oeactl results query|export``: the results folder for SQL and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, command

if TYPE_CHECKING:
    from oeactl.core.run import Listing

SqlArgument = Annotated[
    str | None, typer.Argument(metavar="SQL", help="DuckDB's SQL; without it the tables are listed.")
]
RunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN…", help="Which runs; all of them if none is named.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of stdout.")
]
AnswerFormat = Annotated[
    str, typer.Option("--format", metavar="text|csv", help="text: for people; csv: for programs.")
]
TableFormat = Annotated[
    str, typer.Option("--format", metavar="csv|parquet", help="parquet goes into a file: --out.")
]
TableOption = Annotated[
    str, typer.Option("--table", metavar="NAME", help="Which table: those of `oeactl results query`.")
]


@command(
    "oeactl results query",
    'oeactl results query "SELECT host, max(output_tokens_per_s) FROM points WHERE valid GROUP BY host"',
    'oeactl results query "FROM verdicts WHERE material" --format csv --out verdicts.csv',
)
def query(call: Call, sql: SqlArgument = None, form: AnswerFormat = "text", out: OutOption = None) -> None:
    """Ask the results folder by SQL (DuckDB): tables of runs, arms, trials, levels, gates, verdicts.

    Older schema versions are lifted first; files that could not be read are rows of the table `skipped`. The
    SQL sees these tables and nothing else: no file, no network. Needs `pip install 'oeactl[query]'`.
    """
    from oeactl.core.tables import tables
    from oeactl.edges.database import ask
    from oeactl.render.answer import answer_text, tables_text
    from oeactl.render.table_file import csv_text, plain

    _known("--format", form, "text", "csv")
    made = tables(_listing(call, []))
    if sql is None:
        document = [
            {
                "table": table.name,
                "about": table.about,
                "rows": len(table.rows),
                "columns": {column.name: column.kind for column in table.columns},
            }
            for table in made
        ]
        call.emit({"tables": document}, lambda: tables_text(made))
        return
    answer = ask(made, sql)
    text = csv_text(answer.names, answer.rows) if form == "csv" else answer_text(answer.names, answer.rows)
    columns = [{"name": name, "type": kind} for name, kind in zip(answer.names, answer.kinds, strict=True)]
    _give(call, text, out, {"columns": columns, "rows": [list(map(plain, row)) for row in answer.rows]})


@command(
    "oeactl results export --format csv > levels.csv",
    "oeactl results export last --table gates --out gates.csv",
    "oeactl results export --format parquet --out levels.parquet",
)
def export(
    call: Call,
    runs: RunsArgument = [],  # noqa: B006 - typer's way to say none
    table: TableOption = "points",
    form: TableFormat = "csv",
    out: OutOption = None,
) -> None:
    """Write a table for other programs: one row a level of a trial, void ones with their reasons.

    Times are UTC. Parquet needs `pip install 'oeactl[query]'`.
    """
    from oeactl.core.tables import tables
    from oeactl.edges.database import write_parquet
    from oeactl.errors import UsageError
    from oeactl.render.table_file import table_csv, table_document

    _known("--format", form, "csv", "parquet")
    made = {one.name: one for one in tables(_listing(call, runs))}
    _known("--table", table, *made)
    chosen = made[table]
    if form == "csv":
        _give(call, table_csv(chosen), out, {"rows": table_document(chosen)})
        return
    if out is None:
        raise UsageError(
            "Parquet is no text", where="--format parquet", hint="name a file: --out levels.parquet"
        )
    write_parquet(chosen, out)
    call.emit({"file": str(out), "rows": len(chosen.rows)}, lambda: f"wrote {out}")


def _listing(call: Call, names: list[str]) -> Listing:
    """The runs named, else all; what could not be read is said once."""
    from oeactl.core.run import Listing
    from oeactl.edges.store import ResultsFolder

    store = ResultsFolder((call.root or Path.cwd()) / "results")
    if names:
        runs = {run.plan.run_id: run for run in map(store.load, names)}
        return Listing(path="", runs=tuple(runs.values()))
    listing = store.list()
    passed = len(listing.skipped) + sum(len(run.skipped) for run in listing.runs)
    if passed:
        files = "file was" if passed == 1 else "files were"
        call.progress.warn(f"{passed} {files} passed over: oeactl results list names them")
    return listing


def _known(option: str, name: str, *known: str) -> None:
    from oeactl.errors import UsageError

    if name not in known:
        raise UsageError(f"'{name}' is none of {', '.join(known)}", where=option)


def _give(call: Call, text: str, out: Path | None, document: dict[str, object]) -> None:
    """The text on stdout or in a file."""
    from oeactl.errors import UsageError

    if out is None:
        call.emit(document, lambda: text.rstrip("\n"))
        return
    try:
        out.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot be written: {problem.strerror}", where=str(out)) from problem
    call.emit({**document, "file": str(out)}, lambda: f"wrote {out}")
