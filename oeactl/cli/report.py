"""``oeactl results report``: what was measured, for other readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, command

if TYPE_CHECKING:
    from oeactl.edges.store import ResultsFolder

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, any part that fits it alone, or 'last'.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write there instead of stdout.")
]
ReportFormat = Annotated[str, typer.Option("--format", metavar="pr", help="pr: Markdown for a pull request.")]


def _store(call: Call) -> ResultsFolder:
    from oeactl.edges.store import ResultsFolder

    return ResultsFolder((call.root or Path.cwd()) / "results")


@command("oeactl results report last --format pr", "oeactl results report last --out report.md")
def report(call: Call, run: RunArgument = "last", form: ReportFormat = "pr", out: OutOption = None) -> None:
    """Tell a comparison for a pull request: verdict, speed tables, commands, what it ran on."""
    from oeactl.errors import UsageError
    from oeactl.render.report import pr_report

    _known(form, "pr")
    found = _store(call).load(run)
    if found.plan.design is None:
        raise UsageError(
            f"{found.plan.run_id} is a {found.plan.what}, which compares nothing",
            hint=f"oeactl results show {found.plan.run_id}",
        )
    _give(call, pr_report(found), out, {"path": found.path, "format": form})


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
