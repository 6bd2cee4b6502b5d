"""bench: a throughput sweep on the server as it runs, into the results folder.

The story: the server must be up, the host settled and nobody at work on it; look at engine, model, files and
recipes; write the plan; make patched workers show their branch if they have not; sweep; summarise. Nothing is
patched, nothing is restarted. Ends with a value even when it ends badly: the levels that finished are in it,
and ``error`` is what the command must exit with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from oeactl.core.activation import activations
from oeactl.core.change import Change
from oeactl.core.evidence import leader
from oeactl.core.host import Journal, ServerState, Survey
from oeactl.core.load import Sweep
from oeactl.core.matrix import capacity, with_room
from oeactl.core.recipe import Recipe
from oeactl.core.results import analyse, clean_label, record, run_id
from oeactl.core.resumption import attempt, changed, done_levels, kept_levels
from oeactl.core.run import AppliedRecipe, Arm, Plan, PlannedTrial, PointRecord, Run, Sending, Trial
from oeactl.errors import Degraded, Interrupted, OeactlError, Refused, Unreachable, VoidMeasurement
from oeactl.flows.changes import changes_there
from oeactl.flows.describe import begun, course_of, engine_of
from oeactl.flows.lease import KeepingProgress, holding
from oeactl.flows.lifecycle import server_of
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, claim, even, look
from oeactl.flows.sweep import Course, run_sweep
from oeactl.ports import Driver, Failed, Server, Store

_ONLY = PlannedTrial(name="001-A", arm="A", order=1, start="attached")
POINT_TIMEOUT_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a bench is asked for. label: None, and the recipes on the host name it. token: 8 hex digits.

    modules: the files to hash beside those of the journal; recipes: those known here. point_timeout_s: the
    longest one burst may take.
    sending: what going on with it will need. found: the run to go on with, whose sweep this is.
    """

    sweep: Sweep
    token: str
    modules: tuple[str, ...]
    oeactl_version: str
    label: str | None = None
    point_timeout_s: float = POINT_TIMEOUT_S
    sending: Sending = field(default_factory=Sending)
    found: Run | None = None
    recipes: tuple[Recipe, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Benched:
    """How ``bench`` ended. run: everything measured and kept, at run.path. error: None when all is valid."""

    run: Run
    error: OeactlError | None = None


def bench(site: Site, driver: Driver, store: Store, order: Order) -> Benched:
    """Measure ``order.sweep``, or what is left of it, holding the lease so that nobody patches underneath.

    Raises Unreachable (server not up), UsageError, Locked, Degraded, Refused (it is not what it was when the
    run began): then nothing was begun. Whatever happens afterwards comes back as ``Benched.error``.
    """
    site.progress.step(f"looking at {site.host.name}")
    server, engine = server_of(site), engine_of(site)
    state = _up(site, server)
    info = engine.info()
    order = fitted(site, order, info)
    survey = look(site, order.modules, data=False)
    _settled(site, survey.journal)
    even(site, survey)
    trial = _begun(site, driver, order, survey=survey, state=state, info=info)
    with holding(site, root=survey.engine.root, operation=trial.run_id, what="bench") as lease:
        kept = replace(site, progress=KeepingProgress(site.progress, lease))
        course = _course(kept, driver, store, order, survey=survey, trial=trial)
        _show_proof(course, survey, state)
        changes = _changes(site, order, survey, trial)
        return measured(course, order, trial, label=_label(order, trial.recipes), changes=changes)


def measured(
    course: Course, order: Order, trial: Trial, *, label: str, changes: tuple[Change, ...] = ()
) -> Benched:
    """Keep the plan, unless an earlier attempt did; sweep; sum up. Raises Refused where the build changed."""
    store, found = course.store, order.found
    if found is None:
        found = _planned(course, order, trial, label, changes)
    else:
        _still_the_same(found, trial)
    store.begin_trial(trial)
    trial, broken = run_sweep(course, trial)
    trials = (*found.trials, trial)
    analysis = analyse(found.plan, trials, course.site.clock.now())
    store.save_analysis(analysis)
    run = msgspec.structs.replace(found, trials=trials, analysis=analysis)
    return Benched(run=run, error=error_of(run, trial, broken))


def fitted(site: Site, order: Order, info: Mapping[str, Any]) -> Order:
    """The order without the cells of a matrix that have no room; each is said. Raises UsageError."""
    if order.found is not None:
        return order
    sweep = with_room(order.sweep, info)
    for cell in sweep.skipped:
        site.progress.note(f"left out: {cell.described}")
    if sweep.matrix and capacity(info) is None:
        site.progress.note("the server does not say how much its KV cache holds, so no cell is left out")
    return replace(order, sweep=sweep)


def named(order: Order, at: float, label: str) -> tuple[str, PlannedTrial]:
    """The run's id, and the trial as this attempt at it is called. at: now, unix seconds."""
    if order.found is None:
        return run_id(at, label, order.token), _ONLY
    name = attempt(_ONLY, order.found.trials)
    return order.found.plan.run_id, msgspec.structs.replace(_ONLY, name=name)


def done_before(order: Order) -> tuple[PointRecord, ...]:
    """The levels that earlier attempts kept."""
    return done_levels(order.found) if order.found else ()


def _changes(site: Site, order: Order, survey: Survey, trial: Trial) -> tuple[Change, ...]:
    """What is on the host, seen with its bytes; the looks between levels do without them."""
    if not survey.journal.layers or order.found is not None:
        return ()
    seen = look(site, order.modules)
    return changes_there(site, seen, order.recipes, run=trial.run_id, arm=trial.arm)


def _planned(course: Course, order: Order, trial: Trial, label: str, changes: tuple[Change, ...]) -> Run:
    plan = Plan(
        run_id=trial.run_id,
        what="bench",
        label=label,
        created_at=trial.started_at,
        oeactl_version=order.oeactl_version,
        host=trial.host.name,
        driver=trial.driver.name,
        sweep=order.sweep,
        arms=(Arm(name=_ONLY.arm, recipes=trial.recipes),),
        trials=(_ONLY,),
        sending=order.sending,
    )
    return Run(path=course.store.begin(plan, changes), plan=plan, trials=(), changes=changes)


def _still_the_same(found: Run, trial: Trial) -> None:
    other = changed(found.trials[0], trial) if found.trials else ()
    if other:
        raise Refused(
            f"since the sweep began {', '.join(other)} changed, so its levels would not belong together",
            where=found.path,
            hint="put it back as it was, or begin a new run",
        )


def _course(
    site: Site, driver: Driver, store: Store, order: Order, *, survey: Survey, trial: Trial
) -> Course:
    course = course_of(
        site,
        driver,
        store,
        order.sweep,
        trial,
        survey=survey,
        modules=order.modules,
        point_timeout_s=order.point_timeout_s,
        experts=order.sending.experts,
    )
    return replace(course, done=done_before(order))


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


def _label(order: Order, recipes: tuple[AppliedRecipe, ...]) -> str:
    return clean_label(order.label or "-".join(recipe.recipe for recipe in recipes) or "pristine")


def _begun(
    site: Site, driver: Driver, order: Order, *, survey: Survey, state: ServerState, info: Mapping[str, Any]
) -> Trial:
    """All that is known before the first level."""
    now = site.clock.now()
    recipes = tuple(record(AppliedRecipe, layer) for layer in survey.journal.layers)
    name, planned = named(order, now, _label(order, recipes))
    return begun(site, driver, run_id=name, planned=planned, at=now, survey=survey, state=state, info=info)


def error_of(run: Run, trial: Trial, broken: OeactlError | None) -> OeactlError | None:
    """What the command exits with: interruption and failure before voidness; None when all is valid."""
    levels, planned = kept_levels(run), len(run.plan.sweep.points)
    kept = f"{len(levels)} of {planned} levels are kept"
    go_on = f"oeactl run resume {run.plan.run_id}"
    if trial.outcome == "interrupted":
        return Interrupted(f"interrupted; {kept}", where=run.path, hint=go_on)
    if broken is not None:
        broken.details = (*broken.details, f"{kept} in {run.path}", f"to go on: {go_on}")
        return broken
    void = sum(not point.valid for point in levels)
    if not void:
        return None
    if trial.outcome == "server_lost":
        what = f"{trial.outcome_reason}; {len(levels) - void} of {planned} levels are valid"
        return VoidMeasurement(what, where=run.path, hint=f"when it is up again: {go_on}")
    what = f"{void} of {len(levels)} levels measured {'is' if void == 1 else 'are'} void"
    return VoidMeasurement(what, where=run.path, hint=f"oeactl results show {run.plan.run_id}")
