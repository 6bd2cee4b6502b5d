"""patch: look, plan, show, write in one transaction, restart, prove; or put everything back.

The story: survey the host; bind the parameters against the served model; plan on the very bytes that are
there; show the difference and ask; write all files or none; replace the server; make it decode and read the
proof of every worker; end the lease. Whatever fails after the write, and Ctrl-C, puts the files back and the
server where it was: healthy with the old code (exit 6, or 130), else degraded with the manual commands (7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from oeactl.core.host import ServerState, Survey, Transaction
from oeactl.core.launch import launch_fault, launch_of
from oeactl.core.outcomes import Patched
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import AlreadyApplied, Planned, make_plan
from oeactl.core.proof import Verdict
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import Recipe
from oeactl.core.transform import Transformer
from oeactl.errors import ConnectionLost, Interrupted, OeactlError, Refused, RolledBack, Unreachable
from oeactl.flows.intent import Intent, Steps, on_one
from oeactl.flows.lease import LEASE_S, KeepingProgress, Lease
from oeactl.flows.lifecycle import (
    bring_up,
    describe,
    is_running,
    last_words,
    log_tail,
    remedy,
    server_of,
    startable,
    stop_question,
    take_down,
)
from oeactl.flows.probing import probe_of
from oeactl.flows.prove import inactive, prove, remedy_after_exercise, verdicts_of
from oeactl.flows.rollback import Rollback
from oeactl.flows.site import Site, awake, claim, look_only, look_settled, model_facts
from oeactl.ports import Failed


def patching(
    site: Site,
    recipe: Recipe,
    sets: Mapping[str, str],
    *,
    operation: str,
    applied_at: str,
    dry_run: bool,
    restart: bool,
    show: Callable[[Planned, Survey], None],
    transformer: Transformer | None = None,
) -> Steps[Patched]:
    """Apply ``recipe`` to the host. restart: replace the server and prove the change (else disk only).

    transformer: runs the recipe's own scripts, where that is allowed.
    Raises UsageError for parameters, Refused, Locked, RolledBack, Degraded, Interrupted.
    """
    bind(recipe, sets, {}, transformer)  # what is wrong with the words is said before anyone is contacted
    site.progress.step(f"looking at {site.host.name}")
    survey = look_only(site, recipe.modules) if dry_run else look_settled(site, recipe.modules)
    awake(site, survey)
    bound = bind(recipe, sets, model_facts(survey.model), transformer)
    plan = _plan(site, bound, survey, operation=operation, applied_at=applied_at)
    if isinstance(plan, AlreadyApplied):
        return _already(site, plan, bound)
    _need_launch(site, plan)
    if not dry_run:
        claim(site, survey.journal)
    show(plan, survey)
    restart = restart and site.server is not None
    was = server_of(site).state(health=False) if restart else None
    if was is not None:
        startable(site, plan.layers_after, alone=not is_running(was))
    notes = (*bound.notes, *plan.notes)
    if dry_run:
        return Patched(status="dry-run", plan=plan, live="unchanged", notes=(*notes, _would(site, was)))
    yield Intent(
        survey=survey,
        operation=operation,
        what=f"patch {plan.recipe}",
        question=stop_question(site, was, " and start it patched") if was is not None else None,
        lasting=was is not None,
    )
    change = _Change(site=site, survey=survey, plan=plan, operation=operation, was=was)
    written_notes, verdicts = change.carry_out()
    untried = () if restart else ("the import probe was skipped: it runs before a restart",)
    return Patched(
        status="patched",
        plan=plan,
        live=_live(site, was),
        verdicts=verdicts,
        notes=(*notes, *written_notes, *untried),
        operation=operation,
    )


patch = on_one(patching)


def _plan(
    site: Site, bound: Bound, survey: Survey, *, operation: str, applied_at: str
) -> Planned | AlreadyApplied:
    plan = make_plan(bound, survey, operation=operation, applied_at=applied_at, applied_by=site.holder)
    if isinstance(plan, Refusal):
        raise plan.error()
    return plan


def _need_launch(site: Site, plan: Planned) -> None:
    """Raise Refused where what the recipe adds to the launch would have no effect."""
    fault = launch_fault(site.host, plan.layer)
    if fault is not None:
        raise Refused(f"{plan.recipe}: {fault}", where=f"hosts.yaml: {site.host.name}.server")


def _already(site: Site, plan: AlreadyApplied, bound: Bound) -> Patched:
    """Nothing is to be done on disk. What the running server has shown of it so far is said, not changed."""
    verdicts: tuple[Verdict, ...] = ()
    notes = [*bound.notes, *plan.notes]
    if site.server is not None:
        state = site.server.state(health=False)
        if is_running(state):
            verdicts = verdicts_of((plan.layer,), state, site.server.proofs())
            notes += [f"{one.summary}: {one.remedy}" for one in verdicts if one.remedy]
        else:
            notes.append(f"no server runs: oeactl start --host {site.host.name}")
    return Patched(
        status="already applied", plan=plan, live="unchanged", verdicts=verdicts, notes=tuple(notes)
    )


@dataclass(kw_only=True)
class _Change:
    """A change under way: from the first byte written on, whatever fails puts everything back.

    was: the server before; None where it is left alone. touched: its stop has begun.
    """

    site: Site
    survey: Survey
    plan: Planned
    operation: str
    was: ServerState | None
    touched: bool = False

    def carry_out(self) -> tuple[tuple[str, ...], tuple[Verdict, ...]]:
        """Write, then restart and prove. Returns the write's notes and the proof."""
        try:
            notes, result = self._make()
        except KeyboardInterrupt:
            self._back("interrupted")
            raise Interrupted(f"interrupted; {self._as_before()}", where=self.site.host.name) from None
        except OeactlError as error:
            raise self._failed(error) from error
        except Exception as bug:
            self._back(f"a bug of oeactl ({type(bug).__name__})")
            raise
        return notes, result

    def _make(self) -> tuple[tuple[str, ...], tuple[Verdict, ...]]:
        site = self.site
        site.progress.step("writing the files")
        written = site.files.write(self._transaction())
        if self.was is None:
            return written.notes, ()
        lease = self._lease()
        self.site = site = replace(site, progress=KeepingProgress(site.progress, lease))
        self.touched = True
        take_down(site, self.was)
        outcome = bring_up(site, launch_of(site.host, self.plan.layers_after))
        result = outcome if isinstance(outcome, Failed) else prove(site, self.plan.layers_after)
        if isinstance(result, Failed):
            raise RolledBack(result.why, hint=remedy(site, result), details=last_words(result))
        bypassed = inactive(result)
        if bypassed is not None:
            raise RolledBack(
                f"{bypassed.summary}, though it was made to decode",
                hint=remedy_after_exercise(site, bypassed),
                details=(*log_tail(site), *bypassed.lines()),
            )
        lease.end()
        return written.notes, result

    def _lease(self) -> Lease:
        """The lease that the write took with it."""
        return Lease(
            self.site,
            root=self.survey.engine.root,
            operation=self.operation,
            what=f"patch {self.plan.recipe}",
            taken_at=self.site.clock.now(),
        )

    def _transaction(self) -> Transaction:
        host, restart = self.site.host, self.was is not None
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
            probe=probe_of(host, self.plan) if restart else None,
        )

    def _failed(self, error: OeactlError) -> OeactlError:
        """Put everything back and say so. Raises Degraded when that fails too."""
        if isinstance(error, Unreachable) and not isinstance(error, ConnectionLost) and not self.touched:
            return error  # nothing was sent
        lost = isinstance(error, ConnectionLost)  # what it left unknown is known by the end of this
        why = "the connection to the host broke" if lost else error.what
        untouched = self._back(why)
        if untouched and not lost and not isinstance(error, RolledBack):
            return error
        return RolledBack(
            f"{why}; {self._as_before()}",
            where=self.site.host.name,
            hint=error.hint if isinstance(error, RolledBack) else self._next(error),
            details=error.details,
        )

    def _next(self, error: OeactlError) -> str:
        name = self.site.host.name
        if isinstance(error, Unreachable):
            return f"try again once the connection holds: oeactl status --host {name}"
        return error.hint or f"oeactl logs --host {name}"

    def _back(self, why: str) -> bool:
        """Put files and server back. Returns True when the change had never reached the disk."""
        was = self.was if self.touched else None
        rollback = Rollback(self.site, self.survey, self.plan, was, operation=self.operation, why=why)
        try:
            rollback.run()
        finally:
            if self.was is not None:
                self._lease().end()
        return bool(rollback.untouched)

    def _as_before(self) -> str:
        if self.was is None:
            return "the files are as they were"
        if not is_running(self.was):
            return "the files are as they were, and the server is down as it was"
        if not self.touched:
            return "the files are as they were, and the server was not touched"
        return "the files are as they were, and the server is back and healthy with them"


def _would(site: Site, was: ServerState | None) -> str:
    if was is not None:
        return f"would restart {describe(was)}" if is_running(was) else "would start the server"
    return "would not touch the server" if site.server is not None else "there is no server to restart"


def _live(site: Site, was: ServerState | None) -> Literal["restarted", "started", "old code", "no server"]:
    if was is not None:
        return "restarted" if is_running(was) else "started"
    return "no server" if site.server is None else "old code"
