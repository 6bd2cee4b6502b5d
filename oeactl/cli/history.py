"""``oeactl history``."""

from __future__ import annotations

from pathlib import Path

from oeactl.cli.common import Call, HostOption, command


@command("oeactl history", "oeactl history --host 10.1.230.174 --json")
def history(call: Call, host: HostOption = None) -> None:
    """Show how fast the original engine of a host was over time, run by run, from results/.

    One baseline a run: the trials without recipe or added argument. Warns when the newest left the band of
    those before it, and names what is new since: driver, clocks, engine, arguments. Asks no host.
    """
    from oeactl.core.history import history as tell
    from oeactl.edges.store import ResultsFolder
    from oeactl.errors import UsageError
    from oeactl.render.history import history_document, history_view, left_line

    store = ResultsFolder((call.root or Path.cwd()) / "results")
    runs = store.list().runs
    known = sorted({trial.host.name for run in runs for trial in run.trials})
    name = host if host in known else call.host(host).name
    found = tell(runs, name)
    if not found:
        raise UsageError(
            f"no whole trial of the original engine on {name} is recorded",
            hint="oeactl aa, or oeactl bench without a recipe",
            details=(f"there are runs on {', '.join(known)}",) if known else (),
        )
    call.emit(
        {"host": name, "series": history_document(found)}, lambda: history_view(found, width=call.width)
    )
    if found[-1].left:
        call.progress.warn(left_line(found[-1]))
