"""quality: record how a build answers, and set it against how another one did.

The story of a recording: the same prompts go out greedily, one at a time and then many at once, several times
over; the prefix cache is emptied before each pass where the engine can. Nothing is patched and nothing is
restarted: a comparison is of two recordings, one before and one after, so the order is the person's:

    oeactl quality            the pristine build (again after a restart, for a floor that includes it)
    oeactl patch …
    oeactl quality --against last

On a host its lease is held, the server must be the same process at the end, and a recipe that did not run in
every worker voids the recording. Of a bare URL only the answers are known.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from oeactl.core.activation import activations
from oeactl.core.evidence import Activation, leader
from oeactl.core.host import ServerState, Survey
from oeactl.core.prompts import prompts_sha256
from oeactl.core.provenance import EngineRecord, ModelRecord
from oeactl.core.quality import (
    CONDITIONS,
    Answer,
    Pass,
    compare,
    decode,
    encode,
    floor,
    least_changed,
    order_of,
)
from oeactl.core.recording import Comparison, Floor, Recording, Settings, check_comparable
from oeactl.core.results import clean_label, moment, record, run_id
from oeactl.core.run import AppliedRecipe, RawFile
from oeactl.errors import Degraded, Unreachable, VoidMeasurement
from oeactl.flows.describe import engine_of, model_record
from oeactl.flows.lease import KeepingProgress, holding
from oeactl.flows.lifecycle import server_of
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, even, look
from oeactl.ports import Clock, Engine, Progress, Recordings

_BETWEEN_LEASES = 8  # prompts sent between two signs of life


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a recording is asked for. token: 8 hex digits. label: None, and the recipes name it."""

    prompts: tuple[str, ...]
    settings: Settings
    token: str
    oeactl_version: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """path: its folder."""

    recording: Recording
    path: str


def settings(
    prompts: tuple[str, ...], *, output_len: int, top_logprobs: int, passes: int, concurrency: int
) -> Settings:
    """How these prompts are asked."""
    return Settings(
        prompts=len(prompts),
        prompts_sha256=prompts_sha256(prompts),
        output_len=output_len,
        top_logprobs=top_logprobs,
        passes=passes,
        concurrency=concurrency,
    )


def record_host(site: Site, store: Recordings, wanted: Wanted) -> Recorded:
    """Record the build that runs on ``site``.

    Raises Unreachable (not up), Degraded (a patch half done), Locked, VoidMeasurement (an answer failed, the
    server was replaced, a recipe did not run), UsageError (no log-probabilities). Nothing is kept then.
    """
    site.progress.step(f"looking at {site.host.name}")
    server, engine = server_of(site), engine_of(site)
    state = server.state()
    _up(site, state)
    survey = look(site, (), data=False)
    _settled(site, survey)
    even(site, survey)
    at = site.clock.now()
    name = run_id(at, _label(wanted, survey), wanted.token)
    with holding(site, root=survey.engine.root, operation=name, what="quality") as lease:
        kept = replace(site, progress=KeepingProgress(site.progress, lease))
        if survey.journal.layers:
            prove(kept, survey.journal.layers)
        passes = _passes(engine, kept.progress, wanted)
        seen = _same_build(kept, survey, state)
    process = leader(state)
    return _kept(
        store,
        passes,
        wanted,
        recording_id=name,
        label=_label(wanted, survey),
        created_at=moment(at),
        ended_at=moment(site.clock.now()),
        host=site.host.name,
        api=site.host.engine.kind,
        model=model_record(survey, engine.info()),
        engine=record(EngineRecord, survey.engine),
        pid=process.pid if process else None,
        start_ticks=process.start_ticks if process else None,
        recipes=tuple(record(AppliedRecipe, layer) for layer in survey.journal.layers),
        activations=seen,
    )


def record_url(
    engine: Engine, url: str, store: Recordings, wanted: Wanted, *, clock: Clock, progress: Progress
) -> Recorded:
    """Record whatever answers OpenAI's API at ``url``. Raises as ``record_host`` does."""
    at = clock.now()
    models = engine.info().get("models") or [{}]
    label = clean_label(wanted.label or "url")
    passes = _passes(engine, progress, wanted)
    return _kept(
        store,
        passes,
        wanted,
        recording_id=run_id(at, label, wanted.token),
        label=label,
        created_at=moment(at),
        ended_at=moment(clock.now()),
        host=url,
        api="openai",
        model=ModelRecord(served_name=str(models[0].get("id"))),
    )


def against(
    store: Recordings, baseline: tuple[Recording, ...], candidate: Recording, clock: Clock
) -> tuple[Comparison, str]:
    """Compare two recordings and keep what came out; the comparison and its file. Raises UsageError."""
    notes = check_comparable(baseline, candidate)
    starts: dict[tuple[int, int], list[Pass]] = {}
    for number, each in enumerate(baseline):
        starts.setdefault(each.start or (-1, number), []).extend(decode(store.load_answers(each)))
    theirs = decode(store.load_answers(candidate))
    restarted = candidate.start is not None and candidate.start not in starts
    verdict, conditions = compare(tuple(starts.values()), theirs, restarted=restarted)
    dealt = (len(starts), 1) if restarted and len(starts) > 1 else _passes_of(baseline, candidate)
    comparison = Comparison(
        made_at=moment(clock.now()),
        baseline=tuple(one.recording_id for one in baseline),
        baseline_build=baseline[0].build,
        candidate=candidate.recording_id,
        candidate_build=candidate.build,
        recipes=candidate.recipes,
        verdict=verdict,
        starts=len(starts) if candidate.start is not None else None,
        restarted=restarted if candidate.start is not None else None,
        least_changed=least_changed(*dealt),
        conditions=conditions,
        notes=notes,
    )
    return comparison, store.save_comparison(comparison)


def _passes_of(baseline: tuple[Recording, ...], candidate: Recording) -> tuple[int, int]:
    return sum(one.settings.passes for one in baseline), candidate.settings.passes


def _passes(engine: Engine, progress: Progress, wanted: Wanted) -> tuple[Pass, ...]:
    """Every condition in turn, as often as wanted; the same orders each time this is called."""
    passes: list[Pass] = []
    total = wanted.settings.passes * len(CONDITIONS)
    for number in range(wanted.settings.passes):
        for condition in CONDITIONS:
            done = len(passes)
            progress.step(f"pass {done + 1} of {total}: {condition.replace('_', ' ')}")
            passes.append(_one_pass(engine, progress, wanted, number, under_load=condition == "under_load"))
    return tuple(passes)


def _one_pass(engine: Engine, progress: Progress, wanted: Wanted, number: int, *, under_load: bool) -> Pass:
    asked, prompts = wanted.settings, wanted.prompts
    order = order_of(len(prompts), number) if under_load else tuple(range(len(prompts)))
    engine.flush_cache()
    chunk = len(prompts) if under_load else _BETWEEN_LEASES
    found: list[Answer] = []
    for at in range(0, len(order), chunk):
        progress.update("answers", done=at, total=len(order))
        found += engine.answers(
            prompts=[prompts[which] for which in order[at : at + chunk]],
            output_len=asked.output_len,
            top_logprobs=asked.top_logprobs,
            concurrency=asked.concurrency if under_load else 1,
        )
    by_prompt = dict(zip(order, found, strict=True))
    return Pass(
        condition="under_load" if under_load else "alone",
        order=order,
        answers=tuple(by_prompt[which] for which in range(len(prompts))),
    )


def _kept(store: Recordings, passes: tuple[Pass, ...], wanted: Wanted, **facts: Any) -> Recorded:
    data = encode(passes)
    recording = Recording(
        oeactl_version=wanted.oeactl_version,
        settings=wanted.settings,
        floors=tuple(Floor(condition=one, agreement=floor(passes, one)) for one in CONDITIONS),
        answers=RawFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)),
        **facts,
    )
    return Recorded(recording=recording, path=store.save_recording(recording, data))


def _up(site: Site, state: ServerState) -> None:
    if state.healthy or (leader(state) is not None and state.healthy is not False):
        return
    raise Unreachable(
        f"the server is not up: {state.health or 'nothing listens there'}",
        where=site.host.name,
        hint=f"oeactl start --host {site.host.name}",
    )


def _settled(site: Site, survey: Survey) -> None:
    pending = survey.journal.pending
    if pending is not None:
        raise Degraded(
            f"a {pending.kind} began here and did not end, so what runs is not known",
            where=site.host.name,
            hint=f"oeactl status --host {site.host.name}",
        )


def _same_build(site: Site, before: Survey, state: ServerState) -> tuple[Activation, ...]:
    """What the workers showed. Raises VoidMeasurement: another process, other files, a recipe not running."""
    server = server_of(site)
    after = server.state(health=False)
    first, last = leader(state), leader(after)
    if first is None or last is None or (first.pid, first.start_ticks) != (last.pid, last.start_ticks):
        raise VoidMeasurement("the server was replaced while it answered", where=site.host.name)
    now = look(site, (), data=False)
    if [one.digest for one in now.journal.layers] != [one.digest for one in before.journal.layers]:
        raise VoidMeasurement("the files were changed while it answered", where=site.host.name)
    seen = activations(before.journal.layers, after, server.proofs())
    for one in seen:
        if one.outcome == "fail":
            raise VoidMeasurement(
                f"{one.recipe} did not answer: {one.reason}",
                where=site.host.name,
                hint=f"oeactl status --host {site.host.name}",
            )
    return seen


def _label(wanted: Wanted, survey: Survey) -> str:
    return clean_label(wanted.label or "-".join(one.recipe for one in survey.journal.layers) or "pristine")
