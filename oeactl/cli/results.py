"""``oeactl results list|show|compare``: what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, command, group

if TYPE_CHECKING:
    from oeactl.edges.store import ResultsFolder

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, its folder, or 'last'.")
]
OtherArgument = Annotated[str, typer.Argument(metavar="OTHER", help="The run to set beside it.")]


def _store(call: Call) -> ResultsFolder:
    from oeactl.edges.store import ResultsFolder

    return ResultsFolder(call.project.root / "results")


@command("oeactl results list", name="list")
def list_runs(call: Call) -> None:
    """List the runs, oldest first. What cannot be read is named and left out."""
    from oeactl.render.results import listing_document, listing_view

    found = _store(call).list()
    call.emit(listing_document(found), lambda: listing_view(found, width=call.width))


@command("oeactl results show last", "oeactl results show 20261129T031500Z-oea-1f3a9c2e --json")
def show(call: Call, run: RunArgument = "last") -> None:
    """Show one run: its levels, and why some are void."""
    from oeactl.render.results import run_document, run_view

    found = _store(call).load(run)
    call.emit(run_document(found), lambda: run_view(found, width=call.width))


@command("oeactl results compare 20261129T0315 20261129T0340")
def compare(call: Call, run: RunArgument, other: OtherArgument) -> None:
    """Set two runs side by side, level by level. One restart a side: a difference seen, not a verdict."""
    from oeactl.render.results import comparison_document, comparison_view

    store = _store(call)
    one, two = store.load(run), store.load(other)
    call.emit(comparison_document(one, two), lambda: comparison_view(one, two, width=call.width))


results = group("What was measured: list the runs, show one, set two side by side.", list_runs, show, compare)
