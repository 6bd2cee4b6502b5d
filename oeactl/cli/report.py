"""``oeactl results report``: what was measured, for other readers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, command

if TYPE_CHECKING:
    from oeactl.core.run import Run
    from oeactl.edges.store import ResultsFolder

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, any part that fits it alone, or 'last'.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of stdout.")
]
SeveralArgument = Annotated[
    list[str], typer.Argument(metavar="RUN…", help="Which run, else the last; a wiki page takes several.")
]
ReportFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="html|pr|wiki",
        help="html: one file with figures. pr: Markdown for a pull request. wiki: context by concurrency.",
    ),
]


def _store(call: Call) -> ResultsFolder:
    from oeactl.edges.store import ResultsFolder

    return ResultsFolder((call.root or Path.cwd()) / "results")


@command(
    "oeactl results report last --format html --out report.html",
    "oeactl results report last --format pr",
    "oeactl results report 20261129T0315 20261129T0340 --format wiki",
)
def report(
    call: Call,
    runs: SeveralArgument = [],  # noqa: B006 - typer's way to say none
    form: ReportFormat = "pr",
    out: OutOption = None,
) -> None:
    """Tell a run for others: figures in one HTML file, a pull request's text, or a wiki page's matrices.

    The HTML file needs nothing beside it and asks nothing of the network.
    """
    from oeactl.edges.terminal import is_terminal
    from oeactl.errors import UsageError

    _known(form, "html", "pr", "wiki")
    store = _store(call)
    found = [store.load(name) for name in runs or ["last"]]
    if form == "html" and out is None and is_terminal(sys.stdout) and not call.json:
        raise UsageError("a terminal shows no HTML", where="--format html", hint="--out report.html")
    if len(found) > 1 and form != "wiki":
        raise UsageError(f"a report as {form} is of one run", hint="--format wiki takes several")
    document: dict[str, object] = {"paths": [one.path for one in found], "format": form}
    _give(call, _written(found, form), out, document)


def report_texts(run: Run) -> dict[str, str]:
    """Every report of one run by its file's name."""
    from oeactl.render.page import html_report
    from oeactl.render.report import pr_report

    texts = {"report.html": html_report(run)}
    if run.plan.design is not None:
        texts["report.md"] = pr_report(run)
    return texts


def keep_reports(store: ResultsFolder, run: Run) -> None:
    """Write a comparison's reports into its folder, anew where they are there."""
    if run.plan.design is not None:
        store.save_reports(run, report_texts(run))


def _written(runs: list[Run], form: str) -> str:
    from oeactl.errors import UsageError
    from oeactl.render.page import html_report
    from oeactl.render.report import pr_report
    from oeactl.render.wiki import wiki_page

    first = runs[0]
    if form == "wiki":
        return wiki_page(runs)
    if form == "html":
        return html_report(first)
    if first.plan.design is None:
        raise UsageError(
            f"{first.plan.run_id} is a {first.plan.what}, which compares nothing",
            hint="--format html or wiki tells it",
        )
    return pr_report(first)


def _known(form: str, *known: str) -> None:
    from oeactl.errors import UsageError

    if form not in known:
        raise UsageError(
            f"there is no format '{form}'", where="--format", hint=f"formats: {', '.join(known)}"
        )


def _give(call: Call, text: str, out: Path | None, document: dict[str, object]) -> None:
    """The text on stdout or in a file."""
    from oeactl.errors import UsageError

    if out is None:
        call.emit({**document, "text": text}, lambda: text.rstrip("\n"))
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot be written: {problem.strerror}", where=str(out)) from problem
    call.emit({**document, "file": str(out)}, lambda: f"wrote {out}")
