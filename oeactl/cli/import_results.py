"""``oeactl results import``: levels that another load client measured, as a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oeactl.core.foreign_level import ForeignLevel
    from oeactl.core.run import Run
    from oeactl.edges.store import ResultsFolder

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Result files of one client, in the order of levels.")
]
LabelOption = Annotated[str | None, typer.Option("--label", metavar="NAME", help="Name of the run.")]


@command(
    "oeactl results import vllm-c8.json vllm-c16.json --label night",
    "oeactl results import bench.jsonl",
    "oeactl results import artifacts/profile_export_aiperf.json",
    name="import",
)
def import_files(call: Call, files: FilesArgument, label: LabelOption = None) -> None:
    """Make a run of what bench_serving, vllm bench serve or AIPerf measured.

    Which of them wrote a file is seen in it. A gate that the file cannot feed is not measured; those that it
    can judge as ever, so a run with errors, or of wrong lengths, is void here too.
    """
    from oeactl.core.foreign_files import read_levels
    from oeactl.edges.store import ResultsFolder
    from oeactl.errors import UsageError
    from oeactl.render.results import run_document, run_view

    levels: list[ForeignLevel] = []
    read: list[tuple[str, bytes]] = []
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as problem:
            raise UsageError(f"cannot be read: {problem.strerror}", where=str(file)) from problem
        levels += read_levels(data, str(file))
        read.append((file.name, data))
    store = ResultsFolder((call.root or Path.cwd()) / "results")
    found = _kept(store, levels, read, label)
    call.emit(run_document(found), lambda: run_view(found, width=call.width))


def _kept(
    store: ResultsFolder,
    levels: Sequence[ForeignLevel],
    files: Sequence[tuple[str, bytes]],
    label: str | None,
) -> Run:
    import secrets

    from oeactl import __version__
    from oeactl.core.foreign_files import imported_plan, imported_trial
    from oeactl.core.results import analyse, clean_label, run_id
    from oeactl.edges.clock import SystemClock
    from oeactl.flows.sweep import save_rows

    now = SystemClock().now()
    name = clean_label(label or levels[0].client)
    plan = imported_plan(
        levels, files, run_id=run_id(now, name, secrets.token_hex(4)), label=name, at=now, version=__version__
    )
    path = store.begin(plan)
    raws = [save_rows(store, plan.run_id, level.rows) for level in levels]
    trial = imported_trial(levels, plan, raws)
    store.begin_trial(trial)
    store.save_trial(trial)
    store.save_analysis(analyse(plan, (trial,), now))
    return store.load(path)
