"""revert: the original bytes back from the host's own journal, the server replaced, ready.

Needs no recipe and no memory here: another laptop can do it. Twice is a success that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import msgspec

from oeactl.core.host import Layer, ServerState, Survey, Transaction
from oeactl.core.launch import launch_of
from oeactl.core.outcomes import Reverted
from oeactl.core.proof import Verdict
from oeactl.core.reasons import Refusal
from oeactl.core.revert import GoneByUpgrade, NothingToRevert, Reverting, plan_revert
from oeactl.errors import Degraded, Interrupted
from oeactl.flows.intent import Intent, Steps, on_one
from oeactl.flows.lease import LEASE_S, KeepingProgress, Lease
from oeactl.flows.lifecycle import (
    bring_up,
    is_running,
    last_words,
    server_of,
    startable,
    stop_question,
    take_down,
)
from oeactl.flows.prove import inactive, prove, remedy_after_exercise, strays
from oeactl.flows.site import Site, awake, claim, look_settled
from oeactl.ports import Failed


def reverting(
    site: Site,
    *,
    recipe: str | None,
    operation: str,
    restart: bool,
    force: bool,
    restored: Callable[[], None] = lambda: None,
) -> Steps[Reverted]:
    """Take ``recipe`` (None: all of them) off the host. restored: called once it is off the disk.

    Raises Refused on a foreign edit, Locked, Interrupted, Degraded when the server does not come up after it.
    """
    site.progress.step(f"looking at {site.host.name}")
    survey = look_settled(site, (), force=force)
    if survey.patch_mode in (None, "inplace"):  # else nothing of it is inside
        awake(site, survey)
    plan = plan_revert(survey, recipe=recipe, force=force)
    if isinstance(plan, Refusal):
        raise plan.error()
    if isinstance(plan, NothingToRevert) and not plan.closes:
        restored()
        notes = (*plan.notes, *_still_running(site, survey.journal.layers))
        return Reverted(status="nothing to revert", left=survey.journal.layers, notes=notes)
    claim(site, survey.journal)
    gone = [layer.recipe for layer in survey.journal.layers if layer not in plan.layers_after]
    what = f"revert {', '.join(gone)}"
    if not isinstance(plan, Reverting):
        yield Intent(survey=survey, operation=operation, what=what)
        return _close(site, survey, plan, operation, restored)
    was = server_of(site).state(health=False) if restart and site.server is not None else None
    if was is not None and is_running(was):
        alone = f"or the files alone: oeactl revert --no-restart --host {site.host.name}"
        startable(site, plan.layers_after, or_else=alone)
    files = "what is left" if plan.layers_after else "the original files"
    question = stop_question(site, was, f" and start it with {files}") if was is not None else None
    yield Intent(
        survey=survey, operation=operation, what=what, question=question, lasting=question is not None
    )
    verdicts: tuple[Verdict, ...] = ()
    if was is None or not is_running(was):
        notes = _write(site, survey, plan, operation, force=force, lease_s=None)
        restored()
    else:
        notes, verdicts = _replace(site, survey, plan, was, operation, force=force, restored=restored)
    return Reverted(
        status="reverted",
        recipes=plan.recipes,
        files=tuple(file.path for file in plan.files),
        left=plan.layers_after,
        live=_live(site, was),
        verdicts=verdicts,
        notes=(*plan.notes, *notes),
    )


revert = on_one(reverting)


def _write(
    site: Site, survey: Survey, plan: Reverting, operation: str, *, force: bool, lease_s: float | None
) -> tuple[str, ...]:
    site.progress.step("putting the original bytes back")
    transaction = _transaction(site, survey, plan.layers_after, operation, what=", ".join(plan.recipes))
    written = site.files.write(
        msgspec.structs.replace(transaction, files=plan.writes(), force=force, lease_s=lease_s)
    )
    return written.notes


def _replace(
    site: Site,
    survey: Survey,
    plan: Reverting,
    was: ServerState,
    operation: str,
    *,
    force: bool,
    restored: Callable[[], None],
) -> tuple[tuple[str, ...], tuple[Verdict, ...]]:
    """Write and replace the server, under a lease that ends however this ends."""
    name = site.host.name
    lease = Lease(
        site,
        root=survey.engine.root,
        operation=operation,
        what=f"revert {', '.join(plan.recipes)}",
        taken_at=site.clock.now(),
    )
    back = False
    try:
        notes = _write(site, survey, plan, operation, force=force, lease_s=LEASE_S)
        back = True
        restored()
        leased = replace(site, progress=KeepingProgress(site.progress, lease))
        take_down(leased, was)
        return notes, _come_back(leased, plan.layers_after)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted; the original bytes are back, and the server is not back yet"
            if back
            else "interrupted while the original bytes were put back: all of them are, or none",
            where=name,
            hint=f"oeactl restart --host {name}" if back else f"oeactl revert --host {name}",
        ) from None
    finally:
        lease.end()


def _close(
    site: Site,
    survey: Survey,
    plan: NothingToRevert | GoneByUpgrade,
    operation: str,
    restored: Callable[[], None],
) -> Reverted:
    """The files are somebody's originals already: only the record ends."""
    recipes = tuple(layer.recipe for layer in survey.journal.layers if layer not in plan.layers_after)
    site.files.write(_transaction(site, survey, plan.layers_after, operation, what=", ".join(recipes)))
    restored()
    notes = _still_running(site, plan.layers_after)
    if not isinstance(plan, GoneByUpgrade):
        notes = (*plan.notes, "the journal's record is closed", *notes)
    return Reverted(
        status="gone by upgrade" if isinstance(plan, GoneByUpgrade) else "nothing to revert",
        recipes=recipes,
        left=plan.layers_after,
        notes=notes,
    )


def _still_running(site: Site, layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """A note where the running server shows a recipe that the disk no longer has."""
    if site.server is None:
        return ()
    names = ", ".join(strays(layers, site.server.state(health=False), site.server.proofs()))
    return (
        (f"the running server still runs {names}: oeactl restart --host {site.host.name}",) if names else ()
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
    name = site.host.name
    outcome = bring_up(site, launch_of(site.host, layers))
    result = outcome if isinstance(outcome, Failed) else prove(site, layers)
    if isinstance(result, Failed):
        raise Degraded(
            f"the original files are in place, and the server does not come up: {result.why}",
            where=name,
            hint=result.hint or f"oeactl logs --host {name}; then oeactl start --host {name}",
            details=last_words(result),
        )
    bypassed = inactive(result)
    if bypassed is not None:
        raise Degraded(
            f"the server is back, and {bypassed.summary}",
            where=name,
            hint=remedy_after_exercise(site, bypassed),
            details=bypassed.lines(),
        )
    return result
