"""The state of a host: disk, loaded, taken, server, and what does not fit together.

Owns: its table and its document. Refuses: to judge (flows/status.py does).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oeactl.render.change import launch_words, parameters

if TYPE_CHECKING:
    from oeactl.core.host import Lease, ServerState
    from oeactl.core.outcomes import Status

_MODES = {
    "inplace": "in place, inside the container",
    "overlay": "overlay: files beside the container, mounted over the image's",
    "prelude": "prelude: files beside the container, put in place before the engine starts",
}
_GOOD = {"pristine": "green", "patched": "cyan"}


def status_lines(status: Status) -> Any:
    """A row a fact; troubles with their remedies last."""
    from rich.text import Text

    text = Text()

    def row(name: str, value: str, style: str = "") -> None:
        text.append(f"{name:<9}", "dim")
        text.append(f"{value}\n", style)

    engine, journal = status.survey.engine, status.survey.journal
    seen = status.survey.host
    row("host", f"{status.host} ({seen.user}@{seen.hostname})" if seen.hostname else status.host)
    for node in status.survey.nodes:
        release = f"{node.engine.package} {node.engine.version or '(no version)'}"
        where = f"{node.host.user}@{node.host.hostname}, {release}, {node.engine.root}"
        row("node", f"{node.name}  {where}")
    row("engine", f"{engine.package} {engine.version or '(no version)'}  {engine.root}")
    if status.survey.patch_mode is not None:
        row("patching", _MODES[status.survey.patch_mode])
    for layer in journal.layers:
        row("recipe", f"{layer.recipe} r{layer.revision}  {parameters(layer.parameters)}".rstrip(), "bold")
        by = f"{layer.applied_by.user}@{layer.applied_by.host}"
        row("", f"plan {layer.digest[:12]}, applied {layer.applied_at} by {by}")
        if words := launch_words(layer):
            row("", f"the server is started with {words}")
    for file in status.files:
        row("on disk", f"{file.state:<10} {file.path}", _GOOD.get(file.state, "red"))
    if not journal.layers:
        row("recipes", "none")
    if status.server is not None:
        row("server", _server(status.server))
    for verdict in status.verdicts:
        row("live", verdict.summary, "green" if verdict.proven else "yellow")
        for line in verdict.lines():
            row("", line)
    if journal.lease is not None:
        row("lease", _lease(journal.lease))
    for note in status.notes:
        row("note", note, "yellow")
    for trouble in status.troubles:
        row("trouble", trouble.what, "red")
        row("", f"→ {trouble.remedy}")
    if status.agrees:
        row("so", "disk, journal and live agree", "green")
    text.rstrip()
    return text


def _server(state: ServerState) -> str:
    process = state.recorded or state.listener
    if process is None:
        return "not running"
    whose = "started by oeactl" if state.recorded else "not started by oeactl"
    health = {True: "healthy", False: "not healthy", None: "health not known"}[state.healthy]
    workers = (
        f", {len(state.workers)} worker{'s' if len(state.workers) != 1 else ''}" if state.workers else ""
    )
    since = f", since {_moment(state.started_at)}" if state.started_at else ""
    return f"{health}, {process.called} {whose}{since}{workers}"


def _lease(lease: Lease) -> str:
    holder = lease.holder
    return (
        f"{lease.what} by {holder.user}@{holder.host} (pid {holder.pid}), "
        f"{_moment(lease.since)} until {_moment(lease.until)}"
    )


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def status_document(status: Status) -> dict[str, Any]:
    """Everything, without file contents."""
    survey = status.survey
    return {
        "host": status.host,
        "agrees": status.agrees,
        "engine": survey.engine,
        "nodes": [
            {"name": node.name, "host": node.host, "engine": node.engine, "recipes": node.recipes}
            for node in survey.nodes
        ],
        "files": status.files,
        "layers": [
            {
                "recipe": layer.recipe,
                "revision": layer.revision,
                "parameters": layer.parameters,
                "digest": layer.digest,
                "operation": layer.operation,
                "applied_at": layer.applied_at,
                "applied_by": layer.applied_by,
            }
            for layer in survey.journal.layers
        ],
        "patch_mode": survey.patch_mode,
        "lease": survey.journal.lease,
        "pending": survey.journal.pending,
        "server": status.server,
        "live": status.verdicts,
        "troubles": status.troubles,
        "notes": status.notes,
    }
