"""One host with all that a flow may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from oeactl.core.host import Holder, Journal, Lease, ModelFacts, Survey, SurveyRequest
from oeactl.core.inventory import Host
from oeactl.core.launch import model_of
from oeactl.core.nodes import uneven
from oeactl.errors import Degraded, Locked, Refused, Unreachable
from oeactl.ports import Caches, Clock, Engine, Files, Progress, Prompt, Server, Telemetry


@dataclass(frozen=True, kw_only=True)
class Site:
    """server and engine are None where the host's entry describes none: file work only.

    alive: whether a process of this machine (the client's) still runs. telemetry: of the server's host.
    caches: the engine's compilation caches, None where they are not seen.
    """

    host: Host
    files: Files
    server: Server | None
    engine: Engine | None
    clock: Clock
    progress: Progress
    prompt: Prompt
    holder: Holder
    alive: Callable[[int], bool] = lambda pid: True
    telemetry: Telemetry | None = None
    caches: Caches | None = None


def look(site: Site, modules: tuple[str, ...], *, data: bool = True) -> Survey:
    """Survey the engine, the named modules, every file the journal answers for, and the served model."""
    return site.files.survey(survey_request(site.host, modules, data=data))


def look_only(site: Site, modules: tuple[str, ...]) -> Survey:
    """Look, for a plan that nobody carries out. Raises Degraded where a command was cut short: what is on
    disk is half done then, and nothing can be planned on it.
    """
    survey = look(site, modules)
    present(site, survey)
    pending = survey.journal.pending
    if pending is not None and pending.kind != "clear":
        raise Degraded(
            f"a {pending.kind} of {pending.started_at} was cut short, so there is nothing to plan on yet",
            where=site.host.name,
            hint="the next patch or revert puts that in order first",
        )
    return survey


def look_settled(site: Site, modules: tuple[str, ...], *, data: bool = True, force: bool = False) -> Survey:
    """Look, after finishing or undoing what an interrupted command left half done on the host.

    force: also over a file that somebody changed since (a copy is kept); else Refused names it.
    """
    survey = look(site, modules, data=data)
    present(site, survey)
    if survey.journal.pending is None:
        return survey
    journal = site.files.recover(root=survey.engine.root, state_dir=site.host.state_dir, force=force)
    if journal.recovered:
        site.progress.note(journal.recovered)
    return look(site, modules, data=data)


def present(site: Site, survey: Survey) -> None:
    """Raise Unreachable where a node of the server is away."""
    for node, why in survey.away.items():
        raise Unreachable(
            f"{node} cannot be reached: {why}",
            where=site.host.name,
            hint=f"oeactl status --host {site.host.name}; oeactl stop ends what runs on the others",
        )


def even(site: Site, survey: Survey) -> None:
    """Raise where the nodes of one server are not all there, or carry different engines or recipes."""
    present(site, survey)
    difference = uneven(survey)
    if difference is not None:
        raise Refused(
            difference,
            where=site.host.name,
            hint=f"oeactl patch brings all to one state, oeactl revert --host {site.host.name} all back",
        )


def awake(site: Site, survey: Survey) -> None:
    """Raise Refused where the engine's files are in a container that does not run."""
    if survey.at_rest:
        raise Refused(
            "the container does not run, and its files are inside",
            where=site.host.name,
            hint=f"oeactl start --host {site.host.name}; then this again",
        )


def claim(site: Site, journal: Journal) -> None:
    """Raise Locked while somebody else is at work on this engine.

    The lease of a command of this very user on this very machine that no longer runs is ended instead.
    """
    lease = journal.lease
    if lease is None or lease.holder == site.holder:
        return
    here = (lease.holder.user, lease.holder.host) == (site.holder.user, site.holder.host)
    if here and not site.alive(lease.holder.pid):
        site.files.settle(root=journal.root, state_dir=site.host.state_dir, operation=lease.operation)
        site.progress.note(f"ended the lease of your {lease.what}, which no longer runs")
        return
    raise locked(site, lease)


def locked(site: Site, lease: Lease) -> Locked:
    """What a second operator is told: who, where, since when, until when, and the way out."""
    name = site.host.name
    return Locked(
        f"{lease.holder.user}@{lease.holder.host} is at work on this engine: {lease.what}",
        where=name,
        hint=f"wait, or ask them; where nobody is at work any more: oeactl unlock --force --host {name}",
        details=(f"{times(lease)} (pid {lease.holder.pid} there)",),
    )


def times(lease: Lease) -> str:
    """Since when, and until when at most."""
    since, until = (datetime.fromtimestamp(seconds, UTC) for seconds in (lease.since, lease.until))
    return f"since {since:%Y-%m-%d %H:%M:%S} UTC, at most until {until:%Y-%m-%d %H:%M:%S} UTC"


def survey_request(host: Host, modules: tuple[str, ...], *, data: bool) -> SurveyRequest:
    """What to look at on ``host``: the engine as its server's interpreter and environment find it."""
    server = host.server
    return SurveyRequest(
        package=host.engine.kind,
        modules=modules,
        python=host.engine.python or "python3",
        root=host.engine.root,
        cwd=server.cwd if server else None,
        env=dict(server.env) if server else {},
        state_dir=host.state_dir,
        model=model_of(server.argv) if server else None,
        data=data,
    )


def model_facts(model: ModelFacts | None) -> Mapping[str, Any]:
    """The model's config.json with a nested text configuration lifted; empty when it could not be read."""
    if model is None or model.config is None:
        return {}
    nested = model.config.get("text_config")
    return {**model.config, **(nested if isinstance(nested, dict) else {})}
