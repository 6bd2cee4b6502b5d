"""From what a host answers to what a trial records of it, and what a sweep needs of it.

Owns: which facts go into a trial, for an attached bench and for a fresh restart alike. Refuses: to change the
host, and to keep a secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from typing import Any

import msgspec

from oeactl.core.evidence import leader, targets
from oeactl.core.host import ServerState, Survey
from oeactl.core.launch import launch_of
from oeactl.core.load import Sweep
from oeactl.core.provenance import EngineRecord, HostRecord, LaunchRecord, ModelRecord, ServerRecord
from oeactl.core.redact import redact
from oeactl.core.results import allowed_environment, finite, moment, record
from oeactl.core.run import AppliedRecipe, PlannedTrial, Trial
from oeactl.errors import UsageError
from oeactl.flows.lifecycle import server_of
from oeactl.flows.site import Site, model_facts
from oeactl.flows.sweep import Course
from oeactl.ports import Driver, Engine, Store


def engine_of(site: Site) -> Engine:
    """The host's engine as it answers. Raises UsageError where hosts.yaml describes no server."""
    if site.engine is None:
        raise UsageError(
            f"{site.host.name} has no server in hosts.yaml, and there is nothing to measure without one",
            hint=f"add hosts.{site.host.name}.server",
        )
    return site.engine


def begun(
    site: Site,
    driver: Driver,
    *,
    run_id: str,
    planned: PlannedTrial,
    at: float,
    survey: Survey,
    state: ServerState,
    info: Mapping[str, Any],
) -> Trial:
    """All that is known before the first level. at: when the trial began; info: the server's, {} if down."""
    described = driver.describe()
    return Trial(
        run_id=run_id,
        name=planned.name,
        arm=planned.arm,
        order=planned.order,
        pair=planned.pair,
        block=planned.block,
        start=planned.start,
        started_at=moment(at),
        clock_offset_s=round(survey.host.time - site.clock.now(), 3),
        host=_host_record(site, survey),
        engine=record(EngineRecord, survey.engine),
        model=model_record(survey, info),
        server=_server_record(site, survey, state, info),
        driver=msgspec.structs.replace(described, version=described.version or survey.engine.version),
        recipes=tuple(record(AppliedRecipe, layer) for layer in survey.journal.layers),
        targets=targets(survey, survey),
    )


def course_of(
    site: Site,
    driver: Driver,
    store: Store,
    sweep: Sweep,
    trial: Trial,
    *,
    survey: Survey,
    modules: tuple[str, ...],
    point_timeout_s: float,
    experts: bool = False,
) -> Course:
    """What ``run_sweep`` needs to measure ``sweep`` into ``trial``, which was begun."""
    return Course(
        site=site,
        server=server_of(site),
        engine=engine_of(site),
        driver=driver,
        store=store,
        sweep=sweep,
        modules=modules,
        survey=survey,
        url=trial.server.url,
        model=trial.model.path or trial.model.served_name or "",
        tokenizer=_text(trial.server.args.get("tokenizer_path")) or trial.model.path or "",
        gpus=trial.server.gpus,
        served_model=trial.model.served_name or trial.model.path or "",
        vocabulary=_vocabulary(survey),
        point_timeout_s=point_timeout_s,
        experts=experts,
    )


def _vocabulary(survey: Survey) -> int | None:
    """How many token ids the served model has."""
    size = model_facts(survey.model).get("vocab_size")
    return size if isinstance(size, int) and size > 0 else None


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


def model_record(survey: Survey, info: Mapping[str, Any]) -> ModelRecord:
    """What is served, as the server and its config.json say."""
    config = survey.model.config if survey.model else None
    architectures = (config or {}).get("architectures") or ()
    return ModelRecord(
        path=_text(info.get("model_path")) or (survey.model.path if survey.model else None),
        served_name=_text(info.get("served_model_name")),
        revision=_text(info.get("revision")) or (survey.model.revision if survey.model else None),
        quantization=_text(info.get("quantization")),
        architectures=tuple(str(name) for name in architectures),
        config_sha256=config_sha256(survey),
    )


def config_sha256(survey: Survey) -> str | None:
    """A name for the served model's config.json; None where it could not be read."""
    config = survey.model.config if survey.model else None
    return None if config is None else hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _server_record(site: Site, survey: Survey, state: ServerState, info: Mapping[str, Any]) -> ServerRecord:
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
        gpus=spec.gpus if spec.gpus is not None else gpus_of(info),
        launch=_launch_record(site, survey, state),
    )


def _launch_record(site: Site, survey: Survey, state: ServerState) -> LaunchRecord:
    """What hosts.yaml, the arm and the recipes make of the launch."""
    launch, spec = launch_of(site.host, survey.journal.layers), site.host.server
    assert spec is not None
    argv = spec.start if spec.manager == "commands" else launch.argv
    return LaunchRecord(
        manager=spec.manager,
        python=launch.python,
        argv=tuple(redact(argv)),
        cwd=spec.cwd,
        engine_root=site.host.engine.root,
        image=state.image,
        image_digest=state.image_digest,
        stop=tuple(redact(spec.stop)),
        status=tuple(redact(spec.status)),
    )


def gpus_of(info: Mapping[str, Any]) -> int | None:
    """How many GPUs the server's own arguments make it use; None where they do not say, or it uses none."""
    if info.get("device") != "cuda":
        return None
    names = ("tp_size", "pp_size") if info.get("enable_dp_attention") else ("tp_size", "pp_size", "dp_size")
    sizes = [size for name in names if isinstance(size := info.get(name), int)]
    return prod(sizes) if len(sizes) == len(names) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
