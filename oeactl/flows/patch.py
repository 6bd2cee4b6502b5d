"""patch: look, plan, show, write in one transaction, restart, prove; or put everything back.

The story: survey the host; bind the parameters against the served model; plan on the very bytes that are
there; show the difference and ask; write all files or none; replace the server; make it decode and read the
proof of every worker; end the lease. Whatever fails after the write, and Ctrl-C, puts the files back and the
server where it was: healthy with the old code (exit 6, or 130), else degraded with the manual commands (7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from oeactl.core.host import Layer, Probe, ServerState, Survey, Transaction
from oeactl.core.launch import launch_of
from oeactl.core.outcomes import Patched
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import AlreadyApplied, Planned, make_plan
from oeactl.core.proof import Verdict
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import Recipe
from oeactl.errors import Interrupted, OeactlError, RolledBack
from oeactl.flows.lifecycle import ask, bring_up, describe, is_running, server_of, take_down
from oeactl.flows.prove import prove
from oeactl.flows.rollback import put_back
from oeactl.flows.site import Site, look, look_settled, model_facts
from oeactl.ports import Failed

LEASE_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class _Change:
    """A change under way: all that putting it back needs."""

    site: Site
    survey: Survey
    plan: Planned
    operation: str
    was: ServerState | None

    def transaction(self, *, restart: bool) -> Transaction:
        host = self.site.host
        server = host.server
        return Transaction(
            operation=self.operation,
            kind="patch",
            root=self.survey.engine.root,
            state_dir=host.state_dir,
            files=self.plan.writes(),
            layers=self.plan.layers_after,
            holder=self.site.holder,
            what=f"patch {self.plan.recipe}",
            lease_s=LEASE_S if restart else None,
            probe=Probe(
                modules=tuple(file.module for file in self.plan.files),
                cwd=server.cwd if server else None,
                env=dict(server.env) if server else {},
            )
            if restart
            else None,
        )


def patch(
    site: Site,
    recipe: Recipe,
    sets: Mapping[str, str],
    *,
    operation: str,
    applied_at: str,
    dry_run: bool,
    restart: bool,
    show: Callable[[Planned, Survey], None],
) -> Patched:
    """Apply ``recipe`` to the host. restart: replace the server and prove the change (else disk only).

    Raises UsageError for parameters, Refused, Locked, RolledBack, Degraded, Interrupted.
    """
    bind(recipe, sets, {})  # what is wrong with the words alone is said before anyone is contacted
    site.progress.step(f"looking at {site.host.name}")
    survey = look(site, recipe.modules) if dry_run else look_settled(site, recipe.modules)
    bound = bind(recipe, sets, model_facts(survey.model))
    plan = _plan(site, bound, survey, operation=operation, applied_at=applied_at)
    if isinstance(plan, AlreadyApplied):
        return Patched(status="already applied", plan=plan, live="unchanged", notes=bound.notes)
    show(plan, survey)
    restart = restart and site.server is not None
    was = server_of(site).state(health=False) if restart else None
    if dry_run:
        return Patched(status="dry-run", plan=plan, live="unchanged", notes=(*bound.notes, _would(was)))
    if was is not None and is_running(was):
        ask(site, f"Stop {describe(was)} on {site.host.name} and start it patched?")
    change = _Change(site=site, survey=survey, plan=plan, operation=operation, was=was)
    written_notes, verdicts = _carry_out(change, restart=restart)
    return Patched(
        status="patched",
        plan=plan,
        live=_live(site, was),
        verdicts=verdicts,
        notes=(*bound.notes, *plan.notes, *written_notes),
        operation=operation,
    )


def _plan(
    site: Site, bound: Bound, survey: Survey, *, operation: str, applied_at: str
) -> Planned | AlreadyApplied:
    plan = make_plan(bound, survey, operation=operation, applied_at=applied_at, applied_by=site.holder)
    if isinstance(plan, Refusal):
        raise plan.error()
    return plan


def _carry_out(change: _Change, *, restart: bool) -> tuple[tuple[str, ...], tuple[Verdict, ...]]:
    """Write, then restart and prove. From the first byte written on, a failure puts everything back."""
    site = change.site
    try:
        site.progress.step("writing the files")
        written = site.files.write(change.transaction(restart=restart))
        if not restart:
            return written.notes, ()
        assert change.was is not None
        take_down(site, change.was)
        outcome = _run_patched(site, change.plan.layers_after)
    except KeyboardInterrupt:
        put_back(site, change.survey, change.plan, change.was, operation=change.operation)
        raise Interrupted(
            "interrupted; the files and the server are back as they were", where=site.host.name
        ) from None
    except OeactlError as error:
        raise _undone(change, error.what, error) from error
    if isinstance(outcome, Failed):
        raise _undone(change, outcome.why, outcome)
    inactive = [verdict for verdict in outcome if verdict.failed]
    if inactive:
        raise _undone(change, inactive[0].summary, inactive[0])
    site.files.settle(
        root=change.survey.engine.root, state_dir=site.host.state_dir, operation=change.operation
    )
    return written.notes, outcome


def _run_patched(site: Site, layers: tuple[Layer, ...]) -> Failed | tuple[Verdict, ...]:
    outcome = bring_up(site, launch_of(site.host, layers))
    return outcome if isinstance(outcome, Failed) else prove(site, layers)


def _undone(change: _Change, why: str, cause: OeactlError | Failed | Verdict) -> OeactlError:
    """Put everything back and say so. Raises Degraded when that fails too."""
    untouched = put_back(change.site, change.survey, change.plan, change.was, operation=change.operation)
    if untouched and isinstance(cause, OeactlError):
        return cause
    details: tuple[str, ...] = ()
    hint = "oeactl logs"
    if isinstance(cause, Failed):
        details = (*((f"first error: {cause.first_error}",) if cause.first_error else ()), *cause.tail)
    elif isinstance(cause, Verdict):
        details, hint = cause.lines(), cause.remedy or hint
    else:
        details = cause.details
    running = change.was is not None and is_running(change.was)
    return RolledBack(
        f"{why}; rolled back: the original files are in place"
        + (" and the server is healthy with them" if running else ""),
        where=change.site.host.name,
        hint=hint,
        details=details,
    )


def _would(was: ServerState | None) -> str:
    if was is None:
        return "would not touch a server"
    return f"would restart {describe(was)}" if is_running(was) else "would start the server"


def _live(site: Site, was: ServerState | None) -> Literal["restarted", "started", "old code", "no server"]:
    if was is not None:
        return "restarted" if is_running(was) else "started"
    return "no server" if site.server is None else "old code"
