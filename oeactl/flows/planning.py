"""Before a comparison: look at the host, fix everything, and say what it will take and could see.

The story: the words alone are checked first; then the host is looked at, every arm planned on the engine's
original bytes; order, prompts and stopping rule come from the seed; past runs tell the time and the noise.
Nothing is written on the host.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from oeactl.core import stats
from oeactl.core.caches import Policy, caches_line
from oeactl.core.change import Change
from oeactl.core.compare import launch_differences
from oeactl.core.design import arrange, fitting_pairs, sweeps, warm_sweep
from oeactl.core.experiment import Analysed, Design, Foreseen, LaunchDifference, Leave
from oeactl.core.host import ServerState, Survey
from oeactl.core.inventory import Host
from oeactl.core.launch import added_fault, launch_fault
from oeactl.core.load import Sweep
from oeactl.core.past import gpus_used, known_sd, trial_seconds
from oeactl.core.results import clean_label, moment, record, run_id
from oeactl.core.run import AppliedRecipe, Arm, Plan, PlannedTrial, Run
from oeactl.errors import Refused, UsageError
from oeactl.flows.build import Build, Wanted, planned, pristine
from oeactl.flows.caches import caches_of
from oeactl.flows.changes import changes_to_come
from oeactl.flows.describe import config_sha256, engine_of
from oeactl.flows.lifecycle import is_running, server_of, startable
from oeactl.flows.site import Site, awake, claim, look_only, look_settled
from oeactl.ports import Driver, Store

_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LABEL = 24


@dataclass(frozen=True, kw_only=True)
class ArmOrder:
    """An arm as asked for: recipes over the original engine, arguments and environment over hosts.yaml."""

    wanted: tuple[Wanted, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A comparison as asked for. looks: look after every pair from the third on, and stop when decided.

    api: what the light client asks by. experts: also see which are used, after each level of a pair.
    token: 8 hex digits. modules: files to hash beside those of the recipes. trial_s: what one trial takes, if
    somebody knows better than past runs. caches: kept warm, or wiped before every start.
    budget_s: makes the number of pairs.
    """

    what: Literal["ab", "aa", "scan"]
    arms: tuple[ArmOrder, ...]
    sweep: Sweep
    pairs: int
    seed: int
    token: str
    oeactl_version: str
    looks: bool = False
    margin: float = 0.03
    analysis: Analysed = "paired"
    leave: Leave = "pristine"
    warm: bool = True
    modules: tuple[str, ...] = ()
    label: str | None = None
    trial_s: float | None = None
    api: str | None = None
    caches: Policy = "keep"
    experts: bool = False
    budget_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan, what builds its arms, and what is known before. modules: all that are surveyed.

    changes: of the arms that change anything on the host.
    """

    plan: Plan
    builds: Mapping[str, Build]
    modules: tuple[str, ...]
    survey: Survey
    state: ServerState
    foreseen: Foreseen
    changes: tuple[Change, ...] = ()


def prepare(site: Site, driver: Driver, store: Store, order: Order, *, only: bool = False) -> Prepared:
    """Fix a comparison. only: it will not be carried out, so nothing is put in order, nor a lease minded.

    Raises UsageError, Refused where a recipe cannot be planned, Locked, Unreachable.
    """
    runs = store.list().runs
    past = trial_seconds(runs, site.host.name, order.sweep)
    order = _fitted(order, past)
    _check(site, order)
    for arm in order.arms:
        for wanted in arm.wanted:
            wanted.bound()
    engine_of(site)
    site.progress.step(f"looking at {site.host.name}")
    modules = _modules([wanted for arm in order.arms for wanted in arm.wanted], order.modules)
    survey = look_only(site, modules) if only else look_settled(site, modules)
    awake(site, survey)
    if not only:
        claim(site, survey.journal)
        startable(site, survey.journal.layers)
    state = server_of(site).state(health=False)
    original = pristine(survey)
    builds, notes = _builds(site, order.arms, original)
    plan = _plan(site, driver, order, builds, survey, runs, running=is_running(state))
    return Prepared(
        plan=plan,
        builds={build.arm.name: build for build in builds},
        modules=modules,
        survey=survey,
        state=state,
        foreseen=Foreseen(
            trial_s=order.trial_s or past,
            trial_s_from="as told" if order.trial_s else "past trials here" if past else "",
            gpus=_gpus(site, runs),
            on_host=tuple(layer.recipe for layer in survey.journal.layers),
            notes=(*notes, *_cache_notes(site, order)),
            launch=_launch_differences(site, plan.arms, order),
        ),
        changes=changes_to_come(site, builds, original, plan.run_id),
    )


def prepare_again(
    site: Site, plan: Plan, wanted_of: Callable[[AppliedRecipe], Wanted], modules: tuple[str, ...]
) -> Prepared:
    """Take up a plan that was begun. Raises Refused when the engine or the launch is another one since."""
    assert plan.design is not None  # a comparison's
    site.progress.step(f"looking at {site.host.name}")
    builds = tuple(Build(arm=arm, wanted=tuple(map(wanted_of, arm.recipes))) for arm in plan.arms)
    modules = _modules([wanted for build in builds for wanted in build.wanted], modules)
    survey = look_settled(site, modules)
    claim(site, survey.journal)
    _wipeable(site, plan.design.caches)
    _still_the_same(site, plan, builds, pristine(survey))
    return Prepared(
        plan=plan,
        builds={build.arm.name: build for build in builds},
        modules=modules,
        survey=survey,
        state=server_of(site).state(health=False),
        foreseen=Foreseen(on_host=tuple(layer.recipe for layer in survey.journal.layers)),
    )


def _gpus(site: Site, runs: Sequence[Run]) -> int | None:
    """As hosts.yaml says, else as past runs saw."""
    stated = site.host.server.gpus if site.host.server else None
    return gpus_used(runs, site.host.name) if stated is None else stated


def _fitted(order: Order, past_s: float | None) -> Order:
    """The order with as many pairs as its budget holds. Raises UsageError where no two fit, or none knows."""
    if order.budget_s is None:
        return order
    trial_s = order.trial_s or past_s
    if trial_s is None:
        raise UsageError(
            "what one trial takes is not known, so nobody can tell how many fit",
            where="--budget",
            hint="--trial-takes 12m; after a first run on this host with this load it is known",
        )
    arms, warm = len(order.arms), _warms(order)
    pairs = fitting_pairs(order.budget_s, trial_s, arms, warm=warm)
    if pairs < 2:
        least = trial_s * ((arms if warm else 0) + 2 * arms + 1)
        raise UsageError(
            f"the budget holds no two pairs: at {trial_s:.0f} s a trial they take {least / 60:.0f} minutes",
            where="--budget",
            hint=f"--budget {math.ceil(least / 60)}m, a lighter load, or --no-warm",
        )
    return replace(order, pairs=pairs)


def _launch_differences(site: Site, arms: Sequence[Arm], order: Order) -> tuple[LaunchDifference, ...]:
    """In what the arms are begun differently. Raises UsageError for two arms that are one build."""
    server = site.host.server
    found = launch_differences(server.argv, server.env, arms) if server else ()
    seen: dict[object, str] = {}
    for at, arm in enumerate(arms):
        build = (tuple(recipe.digest for recipe in arm.recipes), tuple(one.values[at] for one in found))
        if build in seen and order.what != "aa":
            raise UsageError(
                f"arms {seen[build]} and {arm.name} are the same build: {arm.described}",
                hint="values that differ, also from hosts.yaml; oeactl aa compares a build with itself",
            )
        seen.setdefault(build, arm.name)
    return found


def _check(site: Site, order: Order) -> None:
    host: Host = site.host
    if order.looks and stats.look_alpha(order.pairs) is None:
        raise UsageError(
            f"there is no plan of looks up to {order.pairs} pairs",
            where="--pairs",
            hint="--pairs 3..6 or 3..10; or a fixed number: --pairs 4",
        )
    if order.pairs < 2:
        raise UsageError("one pair allows no interval", where="--pairs", hint="--pairs 4")
    if order.analysis == "regression" and order.pairs < 3:
        raise UsageError("the regression needs six restarts", where="--analysis", hint="--pairs 3 or more")
    _wipeable(site, order.caches)
    if len(order.arms) < 2:
        raise UsageError("one build compares with nothing: two arms are needed", hint="give a second value")
    if len(order.arms) > len(_NAMES):
        raise UsageError(f"{len(order.arms)} arms are more than {len(_NAMES)}")
    for arm in order.arms:
        fault = added_fault(host, args=arm.args, env=arm.env)
        if fault is not None:
            raise UsageError(f"an arm's launch: {fault}", where=f"hosts.yaml: {host.name}.server")


def _wipeable(site: Site, caches: Policy) -> None:
    if caches == "wipe" and site.caches is None:
        raise UsageError(
            "the compilation caches of this server are not seen, so they cannot be emptied",
            where=f"hosts.yaml: {site.host.name}.server.manager",
            hint="--caches keep, in a new run",
        )


def _modules(wanted: Sequence[Wanted], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(m for one in wanted for m in one.recipe.modules), *more]))


def _builds(
    site: Site, arms: Sequence[ArmOrder], survey: Survey
) -> tuple[tuple[Build, ...], tuple[str, ...]]:
    """The arms with their plans' digests. survey: the host without any recipe."""
    builds: list[Build] = []
    notes: dict[str, None] = {}
    for name, order in zip(_NAMES, arms, strict=False):
        recipes = []
        for wanted in order.wanted:
            plan = planned(site, wanted, survey, operation="plan")
            fault = launch_fault(site.host, plan.layer)
            if fault is not None:
                raise Refused(f"{wanted.recipe.id}: {fault}", where=f"hosts.yaml: {site.host.name}.server")
            notes.update(dict.fromkeys((*wanted.bound(survey).notes, *plan.notes)))
            recipes.append(record(AppliedRecipe, plan.layer))
        arm = Arm(name=name, recipes=tuple(recipes), args=order.args, env=dict(order.env))
        builds.append(Build(arm=arm, wanted=order.wanted))
    return tuple(builds), tuple(notes)


def _plan(
    site: Site,
    driver: Driver,
    order: Order,
    builds: Sequence[Build],
    survey: Survey,
    runs: Sequence[Run],
    *,
    running: bool,
) -> Plan:
    now = site.clock.now()
    arms = tuple(build.arm for build in builds)
    rng = random.Random(order.seed)
    slots = arrange([arm.name for arm in arms], order.pairs, rng)
    label = clean_label(order.label or _label(order, arms))[:_LABEL].strip("-")
    design = Design(
        pairs=order.pairs,
        seed=order.seed,
        margin=order.margin,
        alpha=(stats.look_alpha(order.pairs) if order.looks else None) or stats.ALPHA,
        sweeps=sweeps(order.sweep, order.pairs, rng),
        warm_sweep=warm_sweep(order.sweep, rng) if _warms(order) else None,
        analysis=order.analysis,
        api=order.api,
        looks=tuple(range(stats.FIRST_LOOK, order.pairs)) if order.looks else (),
        leave=order.leave,
        budget_s=order.budget_s,
        caches=order.caches,
        launch_sha256=launch_sha256(site.host),
        known_sd=known_sd(
            runs,
            site.host.name,
            order.sweep,
            engine=survey.engine.version,
            model_sha256=config_sha256(survey),
        ),
        running=running,
        experts=order.experts,
    )
    warm = [
        PlannedTrial(name=f"000-{arm.name}", arm=arm.name, order=at - len(arms), start="fresh")
        for at, arm in enumerate(arms if _warms(order) else (), start=1)
    ]
    return Plan(
        run_id=run_id(now, label, order.token),
        what=order.what,
        label=label,
        created_at=moment(now),
        oeactl_version=order.oeactl_version,
        host=site.host.name,
        driver=driver.describe().name,
        sweep=order.sweep,
        arms=arms,
        trials=(
            *warm,
            *(
                PlannedTrial(
                    name=slot.name,
                    arm=slot.arm,
                    order=slot.order,
                    start="fresh",
                    pair=slot.pair,
                    block=slot.block,
                )
                for slot in slots
            ),
        ),
        design=design,
    )


def _warms(order: Order) -> bool:
    """Whether each arm is started once beforehand: for nothing, where every start is to be cold."""
    return order.warm and order.caches == "keep"


def _cache_notes(site: Site, order: Order) -> tuple[str, ...]:
    """What lies in the compilation caches now, and what becomes of it."""
    found = caches_of(site)
    if found is None:
        return ("compilation caches are not seen here: a first run that is slow shows in no record",)
    told = caches_line(found) or "nothing yet"
    if order.caches == "wipe":
        return (f"compilation caches, emptied before every start: {told}",)
    return (f"compilation caches: {told}",)


def _label(order: Order, arms: Sequence[Arm]) -> str:
    recipes = dict.fromkeys(recipe.recipe for arm in arms for recipe in arm.recipes)
    return "-".join([order.what, *recipes])


def launch_sha256(host: Host) -> str:
    """A name for what hosts.yaml makes of the server's launch."""
    server = host.server
    told = [server.argv, server.start, sorted(server.env.items())] if server else []
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _still_the_same(site: Site, plan: Plan, builds: Sequence[Build], survey: Survey) -> None:
    assert plan.design is not None
    if plan.design.launch_sha256 != launch_sha256(site.host):
        raise Refused(
            "hosts.yaml starts the server in another way than when the run began",
            where=site.host.name,
            hint="put it back as it was, or begin a new run",
        )
    for build in builds:
        found = tuple(
            record(AppliedRecipe, planned(site, wanted, survey, operation="plan").layer)
            for wanted in build.wanted
        )
        if [one.digest for one in found] != [one.digest for one in build.arm.recipes]:
            raise Refused(
                f"arm {build.arm.name} would be another change now: engine or recipe changed since",
                where=site.host.name,
                hint="begin a new run",
            )
