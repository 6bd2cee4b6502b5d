"""``oeactl results``: what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oeactl.cli.bundle import bundle
from oeactl.cli.common import Call, command, group
from oeactl.cli.import_results import import_files
from oeactl.cli.report import keep_reports, report
from oeactl.cli.tables import export, query

if TYPE_CHECKING:
    from oeactl.core.run import Run
    from oeactl.edges.store import ResultsFolder

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, its folder, or 'last'.")
]
OtherArgument = Annotated[str, typer.Argument(metavar="OTHER", help="The run to set beside it.")]

AnywayOption = Annotated[
    bool, typer.Option("--anyway", help="Also where they differ in more than the build; what in is said.")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The tool's own result file.")]


def _store(call: Call) -> ResultsFolder:
    from oeactl.edges.store import ResultsFolder

    return ResultsFolder((call.root or Path.cwd()) / "results")


@command("oeactl results list", name="list")
def list_runs(call: Call) -> None:
    """List the runs, oldest first. What cannot be read is named and left out."""
    from oeactl.render.results import listing_document, listing_view

    found = _store(call).list()
    call.emit(listing_document(found), lambda: listing_view(found, width=call.width))


@command("oeactl results show last", "oeactl results show 20261129T031500Z-oea-1f3a9c2e --json")
def show(call: Call, run: RunArgument = "last") -> None:
    """Show one run: its verdicts or levels, and why some are void."""
    from oeactl.render.results import run_document

    found = _store(call).load(run)
    call.emit(run_document(found), lambda: _view(call, found))


def _view(call: Call, run: Run) -> Any:
    """A run as it is read: by its verdicts where it has a design, else by its levels."""
    from oeactl.render.experiment import conclusion_view
    from oeactl.render.results import run_view

    if run.plan.design is not None:
        return conclusion_view(run, width=call.width)
    return run_view(run, width=call.width)


@command("oeactl results compare 20261129T0315 20261129T0340")
def compare(call: Call, run: RunArgument, other: OtherArgument, anyway: AnywayOption = False) -> None:
    """Set two runs side by side, level by level, of comparisons arm by arm: a difference seen, not a verdict.

    Refused where model, GPUs, CPUs, driver, load client or prompts differ: a ratio would tell nothing then.
    """
    from oeactl.core.compare import forbidding
    from oeactl.errors import Refused
    from oeactl.render.results import comparison_document, comparison_view

    store = _store(call)
    one, two = store.load(run), store.load(other)
    differ = forbidding(one, two)
    if differ and not anyway:
        raise Refused(
            f"they differ in {', '.join(differ)}, so a ratio would say nothing of the build",
            where=f"{one.plan.run_id}, {two.plan.run_id}",
            hint="--anyway shows them side by side all the same",
        )
    call.emit(comparison_document(one, two), lambda: comparison_view(one, two, width=call.width))


@command(
    "oeactl results attach last results_2026-11-30T02-15-00.json",
    "oeactl results attach last results/quality/2026/20261130T0340-oea-1f3a9c2e/against-….json",
)
def attach(call: Call, run: RunArgument, file: FileArgument) -> None:
    """Keep another tool's result of the same build beside a run: lm-eval, SGLang's gsm8k, oeactl quality."""
    import msgspec

    from oeactl.core.attachments import read_attachment
    from oeactl.edges.clock import SystemClock
    from oeactl.errors import UsageError

    store = _store(call)
    found = store.load(run)
    try:
        data = file.read_bytes()
    except OSError as problem:
        raise UsageError(f"cannot be read: {problem.strerror}", where=str(file)) from problem
    attachment = read_attachment(data, name=file.name, run=found, at=SystemClock().now())
    path = store.attach(found, attachment, data)
    shown = store.load(found.path)
    keep_reports(store, shown)
    call.emit(
        {"path": path, "attachment": msgspec.to_builtins(attachment)},
        lambda: _view(call, shown),
    )


results = group(
    "What was measured: list, show, compare, ask by SQL, attach an evaluation, import other clients' files.",
    list_runs,
    show,
    compare,
    report,
    query,
    export,
    bundle,
    attach,
    import_files,
)
