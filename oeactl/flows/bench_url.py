"""bench --url: a throughput sweep on any server that is up, known by its URL alone.

The story: see what answers there; write the plan; sweep as ever, without the looks that need the host (files,
proofs, lease); summarise. What cannot be seen is recorded as not seen, and its gates are *not measured*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oeactl.core.evidence import leader
from oeactl.core.host import ServerState
from oeactl.core.provenance import EngineRecord, HostRecord, ModelRecord, ServerRecord
from oeactl.core.redact import redact
from oeactl.core.results import clean_label, finite, moment
from oeactl.core.run import Trial
from oeactl.flows.bench import Benched, Order, done_before, fitted, measured, named
from oeactl.flows.site import Site
from oeactl.flows.sweep import Course
from oeactl.ports import Driver, Engine, Server, Store


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A server as its URL shows it. kind, version: by its own account, as info; vocabulary, gpus: None
    unknown.
    """

    url: str
    server: Server
    engine: Engine
    kind: str
    version: str | None
    info: dict[str, Any]
    host: HostRecord
    model: ModelRecord
    vocabulary: int | None = None
    gpus: int | None = None


def bench_url(site: Site, foreign: Foreign, driver: Driver, store: Store, order: Order) -> Benched:
    """Measure ``order.sweep``, or what is left of it. site: for its clock and progress alone.

    Raises Refused where it is another server than when the run began.
    """
    now = site.clock.now()
    order = fitted(site, order, foreign.info)
    trial = _begun(foreign, driver, order, foreign.server.state(health=False), now)
    return measured(_course(site, foreign, driver, store, order), order, trial, label=_label(foreign, order))


def _label(foreign: Foreign, order: Order) -> str:
    name = foreign.model.served_name or foreign.model.path or foreign.kind
    return clean_label(order.label or name.rstrip("/").rpartition("/")[2])


def _begun(foreign: Foreign, driver: Driver, order: Order, state: ServerState, now: float) -> Trial:
    process = leader(state)
    name, planned = named(order, now, _label(foreign, order))
    kept = {key: value for key, value in foreign.info.items() if key != "internal_states"}
    return Trial(
        run_id=name,
        name=planned.name,
        arm=planned.arm,
        order=planned.order,
        start=planned.start,
        started_at=moment(now),
        clock_offset_s=0.0,
        host=foreign.host,
        engine=EngineRecord(
            package=foreign.kind,
            root=None,
            version=foreign.version,
            python_version=None,
            editable=False,
            git_commit=None,
            git_dirty_sha256=None,
        ),
        model=foreign.model,
        server=ServerRecord(
            url=foreign.url,
            pid=process.pid if process else None,
            start_ticks=process.start_ticks if process else None,
            started_at=moment(state.started_at) if state.started_at is not None else None,
            args=finite(redact(kept)),
            environment={},
            gpus=foreign.gpus,
        ),
        driver=driver.describe(),
        recipes=(),
        targets=(),
    )


def _course(site: Site, foreign: Foreign, driver: Driver, store: Store, order: Order) -> Course:
    name = foreign.model.served_name or foreign.model.path or ""
    return Course(
        site=site,
        server=foreign.server,
        engine=foreign.engine,
        driver=driver,
        store=store,
        sweep=order.sweep,
        modules=(),
        survey=None,
        url=foreign.url,
        model=foreign.model.path or name,
        tokenizer=foreign.model.path or name,
        gpus=foreign.gpus,
        point_timeout_s=order.point_timeout_s,
        served_model=name,
        vocabulary=foreign.vocabulary,
        done=done_before(order),
    )
