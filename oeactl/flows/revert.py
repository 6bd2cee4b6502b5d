"""revert: the original bytes back from the host's own journal, the server replaced, ready.

Needs no recipe and no memory here: another laptop can do it. Twice is a success that changes nothing.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from oeactl.core.host import Layer, ServerState, Survey, Transaction
from oeactl.core.launch import launch_of
from oeactl.core.outcomes import Reverted
from oeactl.core.proof import Verdict
from oeactl.core.reasons import Refusal
from oeactl.core.revert import GoneByUpgrade, NothingToRevert, Reverting, plan_revert
from oeactl.errors import Degraded
from oeactl.flows.lifecycle import ask, bring_up, describe, is_running, server_of, take_down
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, look_settled
from oeactl.ports import Failed

LEASE_S = 3600.0


def revert(site: Site, *, recipe: str | None, operation: str, restart: bool, force: bool) -> Reverted:
    """Take ``recipe`` (None: all of them) off the host.

    Raises Refused on a foreign edit, Locked, Degraded when the server does not come up on the original bytes.
    """
    site.progress.step(f"looking at {site.host.name}")
    survey = look_settled(site, ())
    plan = plan_revert(survey, recipe=recipe, force=force)
    if isinstance(plan, Refusal):
        raise plan.error()
    if isinstance(plan, NothingToRevert) and not plan.closes:
        return Reverted(status="nothing to revert", left=survey.journal.layers, notes=plan.notes)
    if not isinstance(plan, Reverting):
        return _close(site, survey, plan, operation)
    was = server_of(site).state(health=False) if restart and site.server is not None else None
    running = was is not None and is_running(was)
    if was is not None and running:
        ask(site, f"Stop {describe(was)} on {site.host.name} and start it on the original files?")
    site.progress.step("putting the original bytes back")
    transaction = _transaction(site, survey, plan.layers_after, operation, what=", ".join(plan.recipes))
    written = site.files.write(
        msgspec.structs.replace(
            transaction, files=plan.writes(), force=force, lease_s=LEASE_S if running else None
        )
    )
    verdicts: tuple[Verdict, ...] = ()
    if was is not None and running:
        take_down(site, was)
        verdicts = _come_back(site, plan.layers_after)
        site.files.settle(root=survey.engine.root, state_dir=site.host.state_dir, operation=operation)
    return Reverted(
        status="reverted",
        recipes=plan.recipes,
        files=tuple(file.path for file in plan.files),
        left=plan.layers_after,
        live=_live(site, was),
        verdicts=verdicts,
        notes=(*plan.notes, *written.notes),
    )


def _close(site: Site, survey: Survey, plan: NothingToRevert | GoneByUpgrade, operation: str) -> Reverted:
    """The files are somebody's originals already: only the record ends."""
    recipes = tuple(layer.recipe for layer in survey.journal.layers if layer not in plan.layers_after)
    site.files.write(_transaction(site, survey, plan.layers_after, operation, what=", ".join(recipes)))
    gone = isinstance(plan, GoneByUpgrade)
    return Reverted(
        status="gone by upgrade" if gone else "nothing to revert",
        recipes=recipes,
        left=plan.layers_after,
        notes=() if isinstance(plan, GoneByUpgrade) else (*plan.notes, "the journal's record is closed"),
    )


def _transaction(
    site: Site, survey: Survey, layers: tuple[Layer, ...], operation: str, *, what: str
) -> Transaction:
    return Transaction(
        operation=operation,
        kind="revert",
        root=survey.engine.root,
        state_dir=site.host.state_dir,
        files=(),
        layers=layers,
        holder=site.holder,
        what=f"revert {what}",
    )


def _live(site: Site, was: ServerState | None) -> Literal["restarted", "down", "old code", "no server"]:
    if was is not None:
        return "restarted" if is_running(was) else "down"
    return "no server" if site.server is None else "old code"


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
