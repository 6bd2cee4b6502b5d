"""ensure: a host runs exactly this build on a fresh server start, or it is said why not.

The story: finish what was cut short; take off what the build does not have and put on what it has, each in
one transaction; stop what runs; start the server as the build wants it; make it decode and read the proof.
What goes wrong with the build is a value, for a comparison records it; a host that cannot be reached, a lease
that somebody else has, and Ctrl-C are raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from oeactl.core.afterwards import afterwards
from oeactl.core.caches import CacheState
from oeactl.core.experiment import Failure, FailureKind
from oeactl.core.host import FileWrite, Layer, Survey, Transaction
from oeactl.core.launch import launch_of
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import AlreadyApplied, Planned, make_plan
from oeactl.core.reasons import Refusal
from oeactl.core.recipe import Recipe
from oeactl.core.revert import GoneByUpgrade, Reverting, plan_revert
from oeactl.core.run import Arm
from oeactl.core.transform import Transformer
from oeactl.errors import OeactlError, Refused, UsageError
from oeactl.flows.caches import caches_of
from oeactl.flows.lease import LEASE_S
from oeactl.flows.lifecycle import bring_up, server_of, startable, take_down
from oeactl.flows.probing import probe_of
from oeactl.flows.prove import inactive, prove
from oeactl.flows.site import Site, look, look_settled, model_facts
from oeactl.ports import Failed


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A recipe with its values as text, and what runs its scripts if it has any."""

    recipe: Recipe
    sets: Mapping[str, str]
    transformer: Transformer | None = None

    def bound(self, survey: Survey | None = None) -> Bound:
        """The recipe with its values, checked against the served model where a survey is given."""
        facts = model_facts(survey.model) if survey is not None else {}
        return bind(self.recipe, self.sets, facts, self.transformer)


@dataclass(frozen=True, kw_only=True)
class Build:
    """An arm, and the recipes that make it, bottom first."""

    arm: Arm
    wanted: tuple[Wanted, ...] = ()

    @property
    def modules(self) -> tuple[str, ...]:
        """The files that its recipes change."""
        return tuple(dict.fromkeys(module for one in self.wanted for module in one.recipe.modules))


@dataclass(frozen=True, kw_only=True)
class Ensured:
    """A host that runs its build. caches: as they were when the server began; None: not seen."""

    survey: Survey
    caches: tuple[CacheState, ...] | None = None


def at(site: Site, arm: Arm) -> Site:
    """The site with the arm's own arguments and environment in the server's launch."""
    server = site.host.server
    if server is None or not (arm.args or arm.env):
        return site
    changed = msgspec.structs.replace(server, argv=(*server.argv, *arm.args), env={**server.env, **arm.env})
    return replace(site, host=msgspec.structs.replace(site.host, server=changed))


def ensure(
    site: Site, build: Build, *, operation: str, modules: tuple[str, ...], wipe: bool = False
) -> Ensured | Failure:
    """Make ``site`` run ``build`` on a fresh start, under the lease of ``operation``.

    modules: the files to survey, at least the build's own. wipe: empty the compilation caches before.
    """
    here = at(site, build.arm)
    survey = _reachable(site, modules)
    try:
        layers = write(site, build, survey, operation=operation, modules=modules)
    except Refused as refused:
        return _failure("not written", refused)
    try:
        startable(here, layers)
    except UsageError as fault:
        return _failure("not started", fault)
    take_down(site, server_of(site).state(health=False))
    try:
        caches = caches_of(here, wipe=wipe)
        outcome = bring_up(here, launch_of(here.host, layers))
    except Refused as refused:
        return _failure("not started", refused)
    proven = outcome if isinstance(outcome, Failed) else prove(here, layers)
    if isinstance(proven, Failed):
        return Failure(kind="not started", what=proven.why, first_error=proven.first_error, tail=proven.tail)
    bypassed = inactive(proven)
    if bypassed is not None:
        return Failure(kind="not active", what=bypassed.summary, tail=bypassed.lines())
    return Ensured(survey=look(site, modules, data=False), caches=caches)


def _reachable(site: Site, modules: tuple[str, ...]) -> Survey:
    """The host, settled. A container that went down with its server is begun first: its files are inside."""
    survey = look_settled(site, modules)
    if not survey.at_rest:
        return survey
    bring_up(site, launch_of(site.host, survey.journal.layers))
    return look_settled(site, modules)


def write(
    site: Site, build: Build, survey: Survey, *, operation: str, modules: tuple[str, ...]
) -> tuple[Layer, ...]:
    """Bring the files to the build, whatever of ours is on them. Raises Refused; leaves the server alone."""
    ours = {wanted.recipe.id for wanted in build.wanted}
    if any(layer.recipe not in ours for layer in survey.journal.layers):
        survey = _take_off(site, survey, operation=operation, modules=modules)
    for wanted in build.wanted:
        plan = planned(site, wanted, survey, operation=operation)
        if isinstance(plan, Planned):
            site.progress.step(f"writing {wanted.recipe.id}")
            files = _transaction(site, survey, plan.writes(), plan.layers_after, operation)
            site.files.write(msgspec.structs.replace(files, kind="patch", probe=probe_of(site.host, plan)))
            survey = look(site, modules)
    found = {layer.recipe: layer.digest for layer in survey.journal.layers}
    if found != {recipe.recipe: recipe.digest for recipe in build.arm.recipes}:
        raise Refused(
            "the change is another one than was planned: engine, recipe or model changed since",
            where=site.host.name,
            hint="begin a new run",
        )
    return survey.journal.layers


def planned(site: Site, wanted: Wanted, survey: Survey, *, operation: str) -> Planned | AlreadyApplied:
    """Plan one recipe on what is there. Raises Refused with every reason, UsageError for its values."""
    applied_at = datetime.fromtimestamp(site.clock.now(), UTC).isoformat(timespec="seconds")
    bound = wanted.bound(survey)
    plan = make_plan(bound, survey, operation=operation, applied_at=applied_at, applied_by=site.holder)
    if isinstance(plan, Refusal):
        raise plan.error()
    return plan


def pristine(survey: Survey) -> Survey:
    """The host as it is without any recipe of ours. Raises Refused over a foreign edit."""
    plan = plan_revert(survey, recipe=None, force=False)
    if isinstance(plan, Refusal):
        raise plan.error()
    return afterwards(survey, plan.files, ()) if isinstance(plan, Reverting) else survey


def _take_off(site: Site, survey: Survey, *, operation: str, modules: tuple[str, ...]) -> Survey:
    """Every recipe off the host."""
    plan = plan_revert(survey, recipe=None, force=False)
    if isinstance(plan, Refusal):
        raise plan.error()
    if isinstance(plan, GoneByUpgrade):
        raise Refused("the engine was upgraded since", where=survey.engine.root, hint="begin a new run")
    site.progress.step("putting the original bytes back")
    files = plan.writes() if isinstance(plan, Reverting) else ()
    site.files.write(_transaction(site, survey, files, plan.layers_after, operation))
    return look(site, modules)


def _transaction(
    site: Site, survey: Survey, files: tuple[FileWrite, ...], layers: tuple[Layer, ...], operation: str
) -> Transaction:
    return Transaction(
        operation=operation,
        kind="revert",
        root=survey.engine.root,
        state_dir=site.host.state_dir,
        files=files,
        layers=layers,
        holder=site.holder,
        what=operation,
        lease_s=LEASE_S,
    )


def _failure(kind: FailureKind, error: OeactlError) -> Failure:
    return Failure(kind=kind, what=error.what, tail=error.details[-20:])
