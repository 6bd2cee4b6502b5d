"""ab, aa, scan: a plan of trials, each a build on a fresh server start and one sweep.

The story: ask once; hold the host's lease; then trial by trial make the host run the arm's build, sweep it,
keep it. An arm that does not come up, is not active or dies under load is a row with its first error, and the
run goes on; an arm that was never measured in two starts is not started again. Ctrl-C and a lost connection
end the run. However it ends, the host is left as the plan declared, and ``resume`` goes on with the next
trial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from oeactl.core.activation import activations
from oeactl.core.caches import CachesSeen
from oeactl.core.compare import changed_arguments, listed, meant_arguments
from oeactl.core.experiment import Failure
from oeactl.core.load import Sweep
from oeactl.core.redact import redact_text
from oeactl.core.results import analyse, moment
from oeactl.core.resumption import attempt
from oeactl.core.run import Plan, PlannedTrial, Run, Trial
from oeactl.core.verdicts import is_finished, result_of, settled, verdicts
from oeactl.errors import (
    Degraded,
    Interrupted,
    Locked,
    OeactlError,
    Refused,
    Unreachable,
    UsageError,
    VoidMeasurement,
)
from oeactl.flows.build import Build, at, ensure, write
from oeactl.flows.describe import begun, course_of, engine_of
from oeactl.flows.lease import KeepingProgress, holding
from oeactl.flows.lifecycle import ask, describe, is_running, server_of, take_down
from oeactl.flows.planning import Prepared
from oeactl.flows.site import Site, look, look_settled
from oeactl.flows.sweep import run_sweep
from oeactl.ports import Driver, Store

POINT_TIMEOUT_S = 3600.0
_TRIES = 2
_TOLD = 8
#: What ends the run, for it says nothing about an arm.
_ENDS = (Unreachable, Locked, UsageError)


@dataclass(frozen=True, kw_only=True)
class Concluded:
    """How a comparison ended. run: all that was measured, at run.path. left: how the host was left.

    error: None when every trial was measured.
    """

    run: Run
    left: str
    error: OeactlError | None = None


def conduct(site: Site, driver: Driver, store: Store, prepared: Prepared) -> Concluded:
    """Carry a fresh plan out, after a yes. Raises Interrupted on a no, Locked: then nothing was begun."""
    _ask(site, prepared, len(prepared.plan.trials) + 1)
    run = _Run(site, driver, store, prepared)
    return run.begin(lambda: store.begin(prepared.plan, prepared.changes))


def resume(site: Site, driver: Driver, store: Store, prepared: Prepared, found: Run) -> Concluded:
    """Go on with a run that was cut short: the next trial, then the rest. Finished ones stay as they are."""
    left = [planned for planned in found.plan.trials if result_of(planned, found.trials) is None]
    run = _Run(site, driver, store, replace(prepared, changes=found.changes), found.trials)
    if left or not run.stands:
        _ask(site, prepared, len(left) + 1)
    return run.begin(lambda: found.path)


def operation_of(plan: Plan) -> str:
    """What the host's journal and lease call the run."""
    return f"{plan.what}-{plan.run_id.rpartition('-')[2]}"


def _ask(site: Site, prepared: Prepared, count: int) -> None:
    state = prepared.state
    if state.recorded is not None and state.listener is not None and state.foreign:
        raise Refused(
            f"two servers are here: the one that oeactl started (pid {state.recorded.pid}), and another on "
            f"its port (pid {state.listener.pid}, {state.listener.title})",
            where=site.host.name,
            hint="end the other one the way it was started",
        )
    assert prepared.plan.design is not None
    what = f"stop {describe(state)}" if is_running(state) else "start the server"
    emptied = ", empty the compilation caches each time" if prepared.plan.design.caches == "wipe" else ""
    off = f" take {', '.join(prepared.foreseen.on_host)} off," if prepared.foreseen.on_host else ""
    ask(
        site,
        f"{what.capitalize()} on {site.host.name},{off} restart it up to {count} times{emptied}, "
        f"and leave it {prepared.plan.design.leave}?",
    )


class _Run:
    """One comparison under way. touched: the host may no longer be as it was found."""

    def __init__(
        self, site: Site, driver: Driver, store: Store, prepared: Prepared, trials: tuple[Trial, ...] = ()
    ) -> None:
        assert prepared.plan.design is not None
        self._site = site
        self._driver = driver
        self._store = store
        self._prepared = prepared
        self._plan = prepared.plan
        self._design = prepared.plan.design
        self._operation = operation_of(prepared.plan)
        self._trials = list(trials)
        self._live: str | None = None
        self._compared: set[str] = set()
        self._touched = bool(trials)

    def begin(self, keep: Callable[[], str]) -> Concluded:
        """The whole run. keep: begins or finds its folder, once the lease is held."""
        root = self._prepared.survey.engine.root
        with holding(self._site, root=root, operation=self._operation, what=self._plan.what) as lease:
            self._site = replace(self._site, progress=KeepingProgress(self._site.progress, lease))
            path = keep()
            try:
                broken = self._guarded()
            finally:  # also after a bug
                left, failed = self._leave()
        run = self._kept(path)
        return Concluded(run=run, left=left, error=self._error(run, broken, failed))

    def _guarded(self) -> OeactlError | None:
        """Take the trials; what ended them early, else None."""
        try:
            self._take()
        except KeyboardInterrupt:
            return Interrupted("interrupted", where=self._site.host.name, hint=self._resume_hint)
        except OeactlError as problem:
            return problem
        return None

    def _take(self) -> None:
        for planned in self._plan.trials:
            if result_of(planned, self._trials) is not None:
                continue
            if self._over(planned):
                break
            if planned.arm in self._given_up:
                continue
            self._touched = True
            trial, broken = self._trial(planned)
            self._trials.append(trial)
            self._store.save_analysis(analyse(self._plan, tuple(self._trials), self._site.clock.now()))
            if trial.outcome == "interrupted":
                raise KeyboardInterrupt
            if isinstance(broken, _ENDS):
                raise broken
            self._compare_arguments()

    def _over(self, planned: PlannedTrial) -> bool:
        """Whether there is nothing more to learn: no two arms are left, or a look has decided."""
        left = [arm for arm in self._plan.arms if arm.name not in self._given_up]
        if len(left) < 2 or self._plan.arms[0].name in self._given_up:
            return True
        first = planned.pair is not None and not any(
            trial.pair == planned.pair and is_finished(trial) for trial in self._trials
        )
        if not first or planned.pair is None or planned.pair - 1 not in self._design.looks:
            return False
        return settled(verdicts(self._plan, self._trials))

    @property
    def _given_up(self) -> frozenset[str]:
        """Arms that were never measured in two starts: they are not started again."""
        names = set()
        for arm in self._plan.arms:
            tried = [t for t in self._trials if t.arm == arm.name and is_finished(t)]
            if len(tried) >= _TRIES and not any(point.valid for trial in tried for point in trial.points):
                names.add(arm.name)
        return frozenset(names)

    def _trial(self, planned: PlannedTrial) -> tuple[Trial, OeactlError | None]:
        site, build = self._site, self._prepared.builds[planned.arm]
        name = attempt(planned, self._trials)
        done = sum(result_of(one, self._trials) is not None for one in self._plan.trials)
        site.progress.step(f"trial {done + 1} of {len(self._plan.trials)}: {name}, {build.arm.described}")
        started, self._live = site.clock.now(), None
        ready = ensure(
            site,
            build,
            operation=self._operation,
            modules=self._prepared.modules,
            wipe=self._design.caches == "wipe",
        )
        if isinstance(ready, Failure):
            return self._failed(planned, name, started, ready), None
        server = server_of(site)
        trial = begun(
            at(site, build.arm),
            self._driver,
            run_id=self._plan.run_id,
            planned=msgspec.structs.replace(planned, name=name),
            at=started,
            survey=ready.survey,
            state=server.state(health=False),
            info=engine_of(site).info(),
        )
        caches = None if ready.caches is None else CachesSeen(before=ready.caches)
        trial = msgspec.structs.replace(trial, ready_s=round(site.clock.now() - started, 3), caches=caches)
        self._store.begin_trial(trial)
        self._live = planned.arm
        course = course_of(
            at(site, build.arm),
            self._driver,
            self._store,
            self._sweep(planned),
            trial,
            survey=ready.survey,
            modules=self._prepared.modules,
            point_timeout_s=POINT_TIMEOUT_S,
            experts=self._design.experts and planned.pair is not None,
        )
        course = replace(course, before=tuple(self._trials), first_arm=self._plan.arms[0].name)
        trial, broken = run_sweep(course, trial)
        if trial.failure is not None:
            self._live = None
        return trial, broken

    def _sweep(self, planned: PlannedTrial) -> Sweep:
        if planned.pair is not None:
            return self._design.sweeps[planned.pair - 1]
        assert self._design.warm_sweep is not None
        return self._design.warm_sweep

    def _failed(self, planned: PlannedTrial, name: str, started: float, failure: Failure) -> Trial:
        """An arm that could not be measured, kept like any other trial."""
        site = self._site
        site.progress.warn(f"{name}: {failure.kind}: {failure.first_error or failure.what}")
        trial = begun(
            at(site, self._prepared.builds[planned.arm].arm),
            self._driver,
            run_id=self._plan.run_id,
            planned=msgspec.structs.replace(planned, name=name),
            at=started,
            survey=look(site, self._prepared.modules, data=False),
            state=server_of(site).state(health=False),
            info={},
        )
        trial = msgspec.structs.replace(
            trial,
            ended_at=moment(site.clock.now()),
            outcome="failed",
            outcome_reason=failure.what,
            failure=failure,
        )
        self._store.save_trial(trial)
        return trial

    def _compare_arguments(self) -> None:
        """Once an arm: say in what its server says it differs, and ask where that is more than was meant."""
        first, *others = self._plan.arms
        started = {trial.arm: trial for trial in reversed(self._trials) if trial.points}
        for arm in others:
            if arm.name in self._compared or not {first.name, arm.name} <= started.keys():
                continue
            self._compared.add(arm.name)
            one, other = (started[name].server.args for name in (first.name, arm.name))
            changed = changed_arguments(one, other)
            if changed:
                told = ", ".join(_told(name, one.get(name), other.get(name)) for name in changed[:_TOLD])
                self._site.progress.note(f"the servers of {first.name} / {arm.name} report: {told}")
            meant = meant_arguments((first, arm))
            more = tuple(name for name in changed if name not in meant)
            if more:
                said = f"arms {first.name} and {arm.name} differ in more than was meant: {listed(more)}"
                self._site.progress.warn(said)
                ask(self._site, f"{said}. Go on?")

    def _leave(self) -> tuple[str, OeactlError | None]:
        """Leave the host as the plan declared: what was done, and why it could not be."""
        if not self._touched:
            return "as it was", None
        try:
            try:
                return self._left(self._last_build), None
            except KeyboardInterrupt:
                self._site.progress.warn(
                    "still leaving the host in order; Ctrl-C again leaves it as it is now"
                )
                return self._left(self._last_build), None
        except KeyboardInterrupt:
            return "as it is", self._not_left("interrupted")
        except OeactlError as problem:
            return "as it is", self._not_left(problem.what)

    @property
    def _last_build(self) -> Build:
        arm = self._plan.arms[-1 if self._design.leave == "patched" else 0]
        return self._prepared.builds[arm.name]

    @property
    def stands(self) -> bool:
        """Whether the host is as the plan leaves it already: the files, and a server that runs them."""
        arm = self._last_build.arm
        layers = look_settled(self._site, self._prepared.modules).journal.layers
        if {layer.recipe: layer.digest for layer in layers} != {
            one.recipe: one.digest for one in arm.recipes
        }:
            return False
        server = server_of(self._site)
        if not self._design.running:
            return not is_running(server.state(health=False))
        launched_alike = not any(other.args or other.env for other in self._plan.arms)
        if self._live != arm.name and not launched_alike:
            return False
        state = server.state()
        seen = activations(layers, state, server.proofs())
        return state.healthy is True and all(one.outcome != "fail" for one in seen)

    def _left(self, build: Build) -> str:
        site = self._site
        told = build.arm.described
        if not self._design.running:
            site.progress.step(f"leaving the host {self._design.leave}, its server down as it was")
            survey = look_settled(site, self._prepared.modules)
            write(site, build, survey, operation=self._operation, modules=self._prepared.modules)
            take_down(site, server_of(site).state(health=False))
            return f"{told}, the server down as it was"
        if self.stands:
            return f"{told}, the server up"
        site.progress.step(f"leaving the host {self._design.leave}")
        self._live = None
        ready = ensure(site, build, operation=self._operation, modules=self._prepared.modules)
        if isinstance(ready, Failure):
            raise Degraded(f"{ready.kind}: {ready.first_error or ready.what}", details=ready.tail)
        return f"{told}, the server up"

    def _not_left(self, why: str) -> Degraded:
        name = self._site.host.name
        return Degraded(
            f"the host could not be left {self._design.leave}: {why}",
            where=name,
            hint=self._resume_hint,
            details=(f"or by hand: oeactl revert --host {name}; oeactl restart --host {name}",),
        )

    @property
    def _resume_hint(self) -> str:
        return f"oeactl run resume {self._plan.run_id}"

    def _kept(self, path: str) -> Run:
        analysis = analyse(self._plan, tuple(self._trials), self._site.clock.now())
        self._store.save_analysis(analysis)
        return Run(
            path=path,
            plan=self._plan,
            trials=tuple(self._trials),
            analysis=analysis,
            changes=self._prepared.changes,
        )

    def _error(self, run: Run, broken: OeactlError | None, failed: OeactlError | None) -> OeactlError | None:
        """What the command exits with: what ended it, a host not in order, then what was not measured."""
        ended = broken or failed
        if ended is not None:
            done = sum(result_of(planned, run.trials) is not None for planned in run.plan.trials)
            kept = f"{done} of {len(run.plan.trials)} trials are kept in {run.path}"
            ended.details = (*ended.details, *((failed.what,) if broken and failed else ()), kept)
            return ended
        wrong = [t for t in run.trials if is_finished(t) and (t.failure or (t.pair and _has_void(t)))]
        judged = run.analysis.verdicts if run.analysis else ()
        void = [verdict for verdict in judged if verdict.says == "void"]
        if not wrong and not void:
            return None
        what = f"{len(wrong)} of {len(run.trials)} trials failed or have void levels"
        hint = f"oeactl results show {run.plan.run_id}"
        return VoidMeasurement(what, where=run.path, hint=hint)


def _told(name: str, one: object, other: object) -> str:
    return f"{name} {redact_text(str(one))} / {redact_text(str(other))}"


def _has_void(trial: Trial) -> bool:
    return any(not point.valid for point in trial.points)
