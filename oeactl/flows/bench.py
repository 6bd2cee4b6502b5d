"""bench: a throughput sweep on the server as it runs, into the results folder.

The story: the server must be up, the host settled and nobody at work on it; look at engine, model, files and
recipes; write the plan; make patched workers show their branch if they have not; sweep; summarise. Nothing is
patched, nothing is restarted. Ends with a value even when it ends badly: the levels that finished are in it,
and ``error`` is what the command must exit with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from oeactl.core.activation import activations
from oeactl.core.evidence import leader
from oeactl.core.host import Journal, ServerState, Survey
from oeactl.core.load import Sweep
from oeactl.core.results import analyse, clean_label, record, run_id
from oeactl.core.run import (
    AppliedRecipe,
    Arm,
    Plan,
    PlannedTrial,
    Run,
    Trial,
)
from oeactl.errors import Degraded, Interrupted, OeactlError, Unreachable, VoidMeasurement
from oeactl.flows.describe import begun, course_of, engine_of
from oeactl.flows.lease import KeepingProgress, holding
from oeactl.flows.lifecycle import server_of
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, claim, look
from oeactl.flows.sweep import Course, run_sweep
from oeactl.ports import Driver, Failed, Server, Store

_ARM = "A"
_TRIAL = "001-A"
POINT_TIMEOUT_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a bench is asked for. label: None, and the recipes on the host name it. token: 8 hex digits.

    modules: the files to hash beside those of the journal. point_timeout_s: the longest one burst may take.
    experts: also see which experts are used, in a batch of its own after each level.
    """

    sweep: Sweep
    token: str
    modules: tuple[str, ...]
    oeactl_version: str
    label: str | None = None
    point_timeout_s: float = POINT_TIMEOUT_S
    experts: bool = False


@dataclass(frozen=True, kw_only=True)
class Benched:
    """How ``bench`` ended. run: everything measured and kept, at run.path. error: None when all is valid."""

    run: Run
    error: OeactlError | None = None


def bench(site: Site, driver: Driver, store: Store, order: Order) -> Benched:
    """Measure ``order.sweep`` on ``site``, holding its lease so that nobody patches underneath.

    Raises Unreachable (server not up), UsageError, Locked, Degraded: then nothing was begun. Whatever happens
    after the plan is written comes back as ``Benched.error``.
    """
    site.progress.step(f"looking at {site.host.name}")
    server, engine = server_of(site), engine_of(site)
    state = _up(site, server)
    info = engine.info()
    survey = look(site, order.modules, data=False)
    _settled(site, survey.journal)
    trial = _begun(site, driver, order, survey=survey, state=state, info=info)
    plan = _plan(site, order, trial)
    with holding(site, root=survey.engine.root, operation=trial.run_id, what="bench") as lease:
        kept = replace(site, progress=KeepingProgress(site.progress, lease))
        course = _course(kept, driver, store, order, survey=survey, trial=trial)
        _show_proof(course, survey, state)
        path = store.begin(plan)
        store.begin_trial(trial)
        trial, broken = run_sweep(course, trial)
    analysis = analyse(plan, (trial,), site.clock.now())
    store.save_analysis(analysis)
    run = Run(path=path, plan=plan, trials=(trial,), analysis=analysis)
    return Benched(run=run, error=error_of(run, trial, broken))


def _course(
    site: Site, driver: Driver, store: Store, order: Order, *, survey: Survey, trial: Trial
) -> Course:
    return course_of(
        site,
        driver,
        store,
        order.sweep,
        trial,
        survey=survey,
        modules=order.modules,
        point_timeout_s=order.point_timeout_s,
        experts=order.experts,
    )


def _up(site: Site, server: Server) -> ServerState:
    """The server's state, if it serves. Raises Unreachable."""
    state = server.state()
    if state.healthy or (leader(state) is not None and state.healthy is not False):
        return state
    why = state.health or ("it is not healthy" if leader(state) else "nothing listens there")
    url = site.host.server.url if site.host.server else ""
    raise Unreachable(
        f"the server is not up: {why}",
        where=f"{site.host.name}: {url}",
        hint=f"oeactl start --host {site.host.name}",
    )


def _settled(site: Site, journal: Journal) -> None:
    """Raise where a change of this engine began and did not end, or somebody is at work on it."""
    claim(site, journal)
    if journal.pending is not None and journal.pending.kind != "clear":
        raise Degraded(
            f"a {journal.pending.kind} began here and did not end, so what runs is not known",
            where=site.host.name,
            hint=f"oeactl status --host {site.host.name}",
        )


def _show_proof(course: Course, survey: Survey, state: ServerState) -> None:
    """Let patched workers decode a few rows at once, so that a sweep beginning at 1 is proven too."""
    layers = survey.journal.layers
    shown = activations(layers, state, course.server.proofs())
    if layers and any(recipe.outcome == "fail" for recipe in shown):
        failed = prove(course.site, layers)
        if isinstance(failed, Failed):
            course.site.progress.warn(failed.why)


def _plan(site: Site, order: Order, trial: Trial) -> Plan:
    return Plan(
        run_id=trial.run_id,
        what="bench",
        label=_label(order, trial.recipes),
        created_at=trial.started_at,
        oeactl_version=order.oeactl_version,
        host=site.host.name,
        driver=trial.driver.name,
        sweep=order.sweep,
        arms=(Arm(name=_ARM, recipes=trial.recipes),),
        trials=(PlannedTrial(name=_TRIAL, arm=_ARM, order=1, start="attached"),),
    )


def _label(order: Order, recipes: tuple[AppliedRecipe, ...]) -> str:
    return clean_label(order.label or "-".join(recipe.recipe for recipe in recipes) or "pristine")


def _begun(
    site: Site, driver: Driver, order: Order, *, survey: Survey, state: ServerState, info: Mapping[str, Any]
) -> Trial:
    """All that is known before the first level."""
    now = site.clock.now()
    recipes = tuple(record(AppliedRecipe, layer) for layer in survey.journal.layers)
    return begun(
        site,
        driver,
        run_id=run_id(now, _label(order, recipes), order.token),
        planned=PlannedTrial(name=_TRIAL, arm=_ARM, order=1, start="attached"),
        at=now,
        survey=survey,
        state=state,
        info=info,
    )


def error_of(run: Run, trial: Trial, broken: OeactlError | None) -> OeactlError | None:
    """What the command exits with: interruption and failure before voidness; None when all is valid."""
    planned, measured = len(run.plan.sweep.points), len(trial.points)
    kept = f"{measured} of {planned} levels are kept"
    hint = f"oeactl results show {run.plan.run_id}"
    if trial.outcome == "interrupted":
        return Interrupted(f"interrupted; {kept}", where=run.path, hint=hint)
    if broken is not None:
        broken.details = (*broken.details, f"{kept} in {run.path}")
        return broken
    void = sum(not point.valid for point in trial.points)
    if not void:
        return None
    what = f"{void} of {measured} levels measured {'is' if void == 1 else 'are'} void"
    if trial.outcome == "server_lost":
        what = f"{trial.outcome_reason}; {measured - void} of {planned} levels are valid"
    return VoidMeasurement(what, where=run.path, hint=hint)
