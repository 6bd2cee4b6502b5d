"""revert: the original bytes back from the host's own journal, the server replaced, ready.

Needs no recipe and no memory here: another laptop can do it. Twice is a success that changes nothing.
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import Layer, Transaction, Value
from oeactl.core.launch import launch_of
from oeactl.core.plan import GoneByUpgrade, NothingToRevert, Reverting, plan_revert
from oeactl.core.proof import Verdict
from oeactl.core.reasons import Refusal
from oeactl.errors import Degraded
from oeactl.flows.lifecycle import ask, bring_up, describe, is_running, server_of, take_down
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, look
from oeactl.ports import Failed

LEASE_S = 3600.0


class Reverted(Value, frozen=True, kw_only=True):
    """How ``revert`` ended. left: recipes that stay on the host. verdicts: of those, after the restart."""

    status: Literal["reverted", "nothing to revert", "gone by upgrade"]
    recipes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[Layer, ...] = ()
    live: Literal["restarted", "down", "old code", "no server", "unchanged"] = "unchanged"
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()


def revert(site: Site, *, recipe: str | None, operation: str, restart: bool, force: bool) -> Reverted:
    """Take ``recipe`` (None: all of them) off the host.

    Raises Refused on a foreign edit, Locked, Degraded when the server does not come up on the original bytes.
    """
    site.progress.step(f"looking at {site.host.name}")
    survey = look(site, ())
    plan = plan_revert(survey, recipe=recipe, force=force)
    if isinstance(plan, Refusal):
        raise plan.error()
    if isinstance(plan, NothingToRevert):
        return Reverted(status="nothing to revert", left=survey.journal.layers, notes=plan.notes)
    restart = restart and site.server is not None
    was = server_of(site).state(health=False) if restart else None
    running = was is not None and is_running(was)
    if was is not None and running and isinstance(plan, Reverting):
        ask(site, f"Stop {describe(was)} on {site.host.name} and start it on the original files?")
    site.progress.step("putting the original bytes back")
    written = site.files.write(
        Transaction(
            operation=operation,
            kind="revert",
            root=survey.engine.root,
            state_dir=site.host.state_dir,
            files=plan.writes if isinstance(plan, Reverting) else (),
            layers=plan.layers_after,
            holder=site.holder,
            what=f"revert {', '.join(plan.recipes)}",
            lease_s=LEASE_S if running else None,
            force=force,
        )
    )
    notes = (*plan.notes, *written.notes)
    if isinstance(plan, GoneByUpgrade):
        return Reverted(status="gone by upgrade", recipes=plan.recipes, notes=notes)
    verdicts: tuple[Verdict, ...] = ()
    if was is not None and running:
        take_down(site, was)
        verdicts = _come_back(site, plan.layers_after)
        site.files.settle(root=survey.engine.root, state_dir=site.host.state_dir, operation=operation)
    return Reverted(
        status="reverted",
        recipes=plan.recipes,
        files=tuple(write.path for write in plan.writes),
        left=plan.layers_after,
        live="no server" if site.server is None else _live(was_asked=was is not None, running=running),
        verdicts=verdicts,
        notes=notes,
    )


def _live(*, was_asked: bool, running: bool) -> Literal["restarted", "down", "old code"]:
    if not was_asked:
        return "old code"
    return "restarted" if running else "down"


def _come_back(site: Site, layers: tuple[Layer, ...]) -> tuple[Verdict, ...]:
    outcome = bring_up(site, launch_of(site.host, layers))
    result = outcome if isinstance(outcome, Failed) else prove(site, layers)
    if isinstance(result, Failed):
        raise Degraded(
            f"the original files are in place, and the server does not come up: {result.why}",
            where=site.host.name,
            hint=f"oeactl logs --host {site.host.name}; then oeactl start --host {site.host.name}",
            details=(*((f"first error: {result.first_error}",) if result.first_error else ()), *result.tail),
        )
    return result
