"""One host with all that a flow may ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oeactl.core.host import Holder, ModelFacts, Survey, SurveyRequest
from oeactl.core.inventory import Host
from oeactl.core.launch import model_of
from oeactl.ports import Clock, Engine, Files, Progress, Prompt, Server


@dataclass(frozen=True, kw_only=True)
class Site:
    """server and engine are None where the host's entry describes none: file work only."""

    host: Host
    files: Files
    server: Server | None
    engine: Engine | None
    clock: Clock
    progress: Progress
    prompt: Prompt
    holder: Holder


def look(site: Site, modules: tuple[str, ...], *, data: bool = True) -> Survey:
    """Survey the engine, the named modules, every file the journal answers for, and the served model."""
    return site.files.survey(survey_request(site.host, modules, data=data))


def look_settled(site: Site, modules: tuple[str, ...]) -> Survey:
    """Look, after finishing or undoing what an interrupted command left half done on the host."""
    survey = look(site, modules)
    if survey.journal.pending is None:
        return survey
    journal = site.files.recover(root=survey.engine.root, state_dir=site.host.state_dir)
    if journal.recovered:
        site.progress.note(
            f"a command of {survey.journal.pending.started_at} was cut short: {journal.recovered}"
        )
    return look(site, modules)


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
