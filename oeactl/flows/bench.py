"""bench: a throughput sweep on the server as it runs, into the results folder.

The story: the server must be up, the host settled and nobody at work on it; look at engine, model, files and
recipes; write the plan; make patched workers show their branch if they have not; sweep; summarise. Nothing is
patched, nothing is restarted. Ends with a value even when it ends badly: the levels that finished are in it,
and ``error`` is what the command must exit with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import msgspec

from oeactl.core.activation import activations
from oeactl.core.gates import leader
from oeactl.core.host import Journal, ServerState, Survey
from oeactl.core.load import Sweep
from oeactl.core.redact import redact
from oeactl.core.results import allowed_environment, analyse, clean_label, finite, moment, record, run_id
from oeactl.core.run import (
    AppliedRecipe,
    Arm,
    EngineRecord,
    HostRecord,
    ModelRecord,
    Plan,
    PlannedTrial,
    Run,
    ServerRecord,
    Trial,
)
from oeactl.errors import Degraded, Interrupted, OeactlError, Unreachable, UsageError, VoidMeasurement
from oeactl.flows.lease import KeepingProgress, holding
from oeactl.flows.lifecycle import server_of
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, look
from oeactl.flows.sweep import Course, run_sweep, targets
from oeactl.ports import Driver, Engine, Failed, Server, Store

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
    server, engine = server_of(site), _engine_of(site)
    state = _up(site, server)
    info = engine.info()
    survey = look(site, order.modules, data=False)
    _settled(site, survey.journal)
    trial = _begun(site, driver, order, survey=survey, state=state, info=info)
    plan = _plan(site, order, trial)
    with holding(site, root=survey.engine.root, operation=trial.run_id, what="bench") as lease:
        kept = replace(site, progress=KeepingProgress(site.progress, lease))
        course = _course(kept, driver, store, order, survey=survey, trial=trial)
        _show_proof(course, state)
        path = store.begin(plan)
        store.begin_trial(trial)
        trial, broken = run_sweep(course, trial)
    analysis = analyse(plan, (trial,), site.clock.now())
    store.save_analysis(analysis)
    run = Run(path=path, plan=plan, trials=(trial,), analysis=analysis)
    return Benched(run=run, error=_error(run, trial, broken))


def _course(
    site: Site, driver: Driver, store: Store, order: Order, *, survey: Survey, trial: Trial
) -> Course:
    return Course(
        site=site,
        server=server_of(site),
        engine=_engine_of(site),
        driver=driver,
        store=store,
        sweep=order.sweep,
        modules=order.modules,
        survey=survey,
        url=trial.server.url,
        model=trial.model.path or trial.model.served_name or "",
        tokenizer=_text(trial.server.args.get("tokenizer_path")) or trial.model.path or "",
        gpus=trial.server.gpus,
        point_timeout_s=order.point_timeout_s,
        experts=order.experts,
    )


def _engine_of(site: Site) -> Engine:
    if site.engine is None:
        raise UsageError(
            f"{site.host.name} has no server in hosts.yaml, and bench needs one that is up",
            hint=f"add hosts.{site.host.name}.server",
        )
    return site.engine


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
    """Raise where a change of this engine began and did not end."""
    if journal.pending is not None:
        raise Degraded(
            f"a {journal.pending.kind} began here and did not end, so what runs is not known",
            where=site.host.name,
            hint=f"oeactl status --host {site.host.name}",
        )


def _show_proof(course: Course, state: ServerState) -> None:
    """Let patched workers decode a few rows at once, so that a sweep beginning at 1 is proven too."""
    layers = course.survey.journal.layers
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
    described = driver.describe()
    recipes = tuple(record(AppliedRecipe, layer) for layer in survey.journal.layers)
    return Trial(
        run_id=run_id(now, _label(order, recipes), order.token),
        name=_TRIAL,
        arm=_ARM,
        order=1,
        start="attached",
        started_at=moment(now),
        clock_offset_s=round(survey.host.time - now, 3),
        host=_host_record(site, survey),
        engine=record(EngineRecord, survey.engine),
        model=_model_record(survey, info),
        server=_server_record(site, state, info),
        driver=msgspec.structs.replace(described, version=described.version or survey.engine.version),
        recipes=recipes,
        targets=targets(survey, survey),
    )


def _host_record(site: Site, survey: Survey) -> HostRecord:
    host = survey.host
    return HostRecord(
        name=site.host.name,
        hostname=host.hostname,
        kernel=host.kernel,
        cpus=host.cpus,
        memory_bytes=host.memory_bytes,
        boot_id=host.boot_id,
        gpus=host.gpus,
    )


def _model_record(survey: Survey, info: Mapping[str, Any]) -> ModelRecord:
    config = survey.model.config if survey.model else None
    architectures = (config or {}).get("architectures") or ()
    text = json.dumps(config, sort_keys=True) if config is not None else None
    return ModelRecord(
        path=_text(info.get("model_path")) or (survey.model.path if survey.model else None),
        served_name=_text(info.get("served_model_name")),
        revision=_text(info.get("revision")) or (survey.model.revision if survey.model else None),
        quantization=_text(info.get("quantization")),
        architectures=tuple(str(name) for name in architectures),
        config_sha256=hashlib.sha256(text.encode()).hexdigest() if text is not None else None,
    )


def _server_record(site: Site, state: ServerState, info: Mapping[str, Any]) -> ServerRecord:
    spec, process = site.host.server, leader(state)
    assert spec is not None
    kept = {key: value for key, value in info.items() if key != "internal_states"}
    return ServerRecord(
        url=spec.url.rstrip("/"),
        pid=process.pid if process else None,
        start_ticks=process.start_ticks if process else None,
        started_at=moment(state.started_at) if state.started_at is not None else None,
        args=finite(redact(kept)),
        environment=allowed_environment(spec.env),
        gpus=spec.gpus if spec.gpus is not None else _gpus(info),
    )


def _gpus(info: Mapping[str, Any]) -> int | None:
    """How many GPUs the server's own arguments make it use; None where they do not say, or it uses none."""
    if info.get("device") != "cuda":
        return None
    names = ("tp_size", "pp_size") if info.get("enable_dp_attention") else ("tp_size", "pp_size", "dp_size")
    sizes = [size for name in names if isinstance(size := info.get(name), int)]
    return prod(sizes) if len(sizes) == len(names) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _error(run: Run, trial: Trial, broken: OeactlError | None) -> OeactlError | None:
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
