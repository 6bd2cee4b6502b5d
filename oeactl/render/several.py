"""How one command ended on several hosts: a row a host, then what is worth a line, said once for all alike.

Owns: that table, its document, and each command's row. Refuses: to print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oeactl.errors import OeactlError
from oeactl.render.change import parameters, patched_document, reverted_document
from oeactl.render.errors import document, sentence
from oeactl.render.status import status_document

if TYPE_CHECKING:
    from oeactl.core.host import Survey
    from oeactl.core.outcomes import Patched, Reverted, Served, Status
    from oeactl.core.plan import Planned

T = TypeVar("T")

_LIVE = {
    "old code": "on disk only, a running server keeps the code it has",
    "no server": "on disk only",
    "down": "no server was running",
    "unchanged": "",
}


@dataclass(frozen=True, kw_only=True)
class View(Generic[T]):
    """How an outcome is shown. row: what became of the host, and how it stands now. code: the exit code."""

    row: Callable[[T], tuple[str, str]]
    notes: Callable[[T], Sequence[str]]
    document: Callable[[T], Any]
    code: Callable[[T], int] = lambda outcome: 0


@dataclass(frozen=True, kw_only=True)
class Result(Generic[T]):
    """One host: its outcome, or its error, or neither where it was left alone."""

    host: str
    outcome: T | None = None
    error: OeactlError | None = None

    def code(self, view: View[T]) -> int:
        if self.error is not None:
            return self.error.exit_code
        return view.code(self.outcome) if self.outcome is not None else 0


LEFT_ALONE = "left alone, because another host failed (--fail-fast)"


def results_table(results: Sequence[Result[T]], view: View[T]) -> Any:
    """A row a host, in the order they were named."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("host", "result", "now"):
        table.add_column(column, overflow="fold")
    for result in results:
        if result.error is not None:
            what, now, style = "failed", result.error.what, "red"
        elif result.outcome is None:
            what, now, style = "left alone", LEFT_ALONE, "dim"
        else:
            (what, now), style = view.row(result.outcome), "green" if not result.code(view) else "yellow"
        table.add_row(Text(result.host), Text(what, style), Text(now))
    return table


def results_notes(results: Sequence[Result[T]], view: View[T]) -> list[str]:
    """What the outcomes note, each once with the hosts that it holds for."""
    hosts: dict[str, list[str]] = {}
    for result in results:
        if result.outcome is not None:
            for note in view.notes(result.outcome):
                hosts.setdefault(note, []).append(result.host)
    everywhere = sum(result.outcome is not None for result in results)
    return [
        f"note: {note}" if len(names) == everywhere else f"note ({', '.join(names)}): {note}"
        for note, names in hosts.items()
    ]


def results_errors(results: Sequence[Result[T]]) -> list[str]:
    """The errors, whole, as they stand on stderr."""
    lines = []
    for result in results:
        if result.error is not None:
            lines += [f"{result.host}: {detail}" for detail in result.error.details]
            lines.append(f"{result.host}: error: {sentence(result.error)}")
    return lines


def results_document(results: Sequence[Result[T]], view: View[T], code: int) -> dict[str, Any]:
    """Every host's own document, with its name and exit code; that of the whole beside them."""
    return {"exit_code": code, "hosts": [_one(result, view) for result in results]}


def _one(result: Result[T], view: View[T]) -> dict[str, Any]:
    named = {"host": result.host, "exit_code": result.code(view)}
    if result.error is not None:
        return {**named, **document(result.error)}
    if result.outcome is None:
        return {**named, "status": "left alone"}
    return {**_plain(view.document(result.outcome)), **named}


def _plain(value: Any) -> Mapping[str, Any]:
    import msgspec

    return value if isinstance(value, Mapping) else msgspec.structs.asdict(value)


def alike(plans: Mapping[str, tuple[Planned, Survey]]) -> list[tuple[list[str], Planned, Survey]]:
    """Plans that change the same bytes in the same way, with the hosts that have them."""
    groups: dict[tuple[Any, ...], tuple[list[str], Planned, Survey]] = {}
    for host, (plan, survey) in plans.items():
        files = tuple((file.module, file.before_sha256, file.after_sha256) for file in plan.files)
        key = (plan.digest, files, survey.engine.version)
        groups.setdefault(key, ([], plan, survey))[0].append(host)
    return list(groups.values())


def _patched(outcome: Patched) -> tuple[str, str]:
    layer = outcome.plan.layer
    proof = "; ".join(verdict.summary for verdict in outcome.verdicts)
    live = _LIVE.get(outcome.live, f"server {outcome.live}")
    what = f"{layer.recipe} r{layer.revision} {parameters(layer.parameters)}".strip()
    return outcome.status, "; ".join(filter(None, (what, live, proof)))


def _reverted(outcome: Reverted) -> tuple[str, str]:
    stays = ", ".join(f"{layer.recipe} stays" for layer in outcome.left)
    live = _LIVE.get(outcome.live, f"server {outcome.live}")
    return outcome.status, "; ".join(filter(None, (", ".join(outcome.recipes), live, stays)))


def _served(outcome: Served) -> tuple[str, str]:
    pid = f"pid {outcome.pid}" if outcome.pid else ""
    seconds = f"it answered after {outcome.seconds:.0f} s" if outcome.seconds is not None else ""
    proof = "; ".join(verdict.summary for verdict in outcome.verdicts)
    return outcome.status, "; ".join(filter(None, (pid, seconds, proof)))


def _status(found: Status) -> tuple[str, str]:
    survey = found.survey
    layers = ", ".join(f"{layer.recipe} {parameters(layer.parameters)}" for layer in survey.journal.layers)
    engine = f"{survey.engine.package} {survey.engine.version or '(no version)'}"
    running = found.server is not None and (found.server.recorded or found.server.listener) is not None
    server = "" if found.server is None else "server up" if running else "server down"
    lease = f"{survey.journal.lease.what} under way" if survey.journal.lease is not None else ""
    parts = (engine, layers.strip() or "no recipe", server, lease)
    return "agrees" if found.agrees else "disagrees", "; ".join(filter(None, parts))


def _troubles(found: Status) -> list[str]:
    return [*(f"{trouble.what} → {trouble.remedy}" for trouble in found.troubles), *found.notes]


def patched_view() -> View[Patched]:
    return View(row=_patched, notes=lambda outcome: outcome.notes, document=patched_document)


def reverted_view() -> View[Reverted]:
    return View(
        row=_reverted,
        notes=lambda outcome: outcome.notes,
        document=lambda outcome: reverted_document(outcome, ()),
    )


def served_view() -> View[Served]:
    return View(row=_served, notes=lambda outcome: outcome.notes, document=lambda outcome: outcome)


def status_view() -> View[Status]:
    return View(
        row=_status, notes=_troubles, document=status_document, code=lambda found: 0 if found.agrees else 7
    )
