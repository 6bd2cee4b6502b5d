"""Measure a sweep on a server that is up: level by level, each judged and kept before the next begins.

The story of one level: note which server this is; warm up with prompts that nobody measures; have the prefix
cache flushed, and confirmed; send the measured load; ask for one more token; look at the files, the workers
and their proofs again; let every gate judge; keep it. A void level is kept with its reasons and the sweep
goes on, unless the server is gone. Ctrl-C, a lost connection and a dead server end the sweep and lose
nothing that was finished.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from oeactl.core.activation import activations
from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.evidence import Evidence, leader, targets
from oeactl.core.experiment import Failure, first_error
from oeactl.core.figures import has_settled, steady
from oeactl.core.gates import failures, judge, warnings
from oeactl.core.host import ProofFile, Reply, ServerState, Survey
from oeactl.core.load import PerRequest, Point, Sweep
from oeactl.core.provenance import ProofRecord
from oeactl.core.results import moment, record, saturated
from oeactl.core.routing import ExpertsSeen, unseen
from oeactl.core.run import Outcome, PointRecord, RawFile, Trial, WarmUp
from oeactl.core.saturation import Saturation, goodput
from oeactl.errors import OeactlError
from oeactl.flows.caches import seen_after
from oeactl.flows.earlier import looking_back
from oeactl.flows.experts import see_experts
from oeactl.flows.lifecycle import TAIL_LINES, log_tail
from oeactl.flows.site import Site, look
from oeactl.flows.watching import Window, clock_offset_s, seen, watching
from oeactl.ports import Driver, Engine, Samples, Server, Store

_FLUSH_TRIES = 3  # the engine itself asks for a while each time
_FLUSH_PAUSE_S = 2.0
_START_S = 300.0  # a client that imports its engine from a cold disk
_SLOWER = 5.0  # how many times slower than its warm-up a level may be before it is given up
_WARM_UPS = 8  # bursts at most, and none begins after so long
_WARM_UP_S = 900.0
_TAIL_LINES = 20
_LOST_LINES = 200  # the first error stands above what follows from it
_TOKEN_PROMPT = (11, 12, 13, 14, 15, 16, 17, 18)
_NOT_SERVED = (404, 405, 501)  # such a server has no such request
_NOT_FLUSHED = "not sent: the prefix cache still held the warm-up"


@dataclass(frozen=True, kw_only=True)
class Course:
    """What one sweep needs. url, model, tokenizer: as seen on the host; survey: the host before the sweep,
    None of a server that is known by its URL alone.

    gpus: how many the server uses, None unknown. point_timeout_s: the longest that one burst may take.
    experts: also see, after each level, which experts a small batch of its own uses. served_model,
    vocabulary: as ports.PointRequest has them. done: levels that an earlier attempt kept.
    samples: of the host while the sweep runs. before: the run's trials so far, None for a
    bench; first_arm: the one that the others are compared with.
    """

    site: Site
    server: Server
    engine: Engine
    driver: Driver
    store: Store
    sweep: Sweep
    modules: tuple[str, ...]
    survey: Survey | None
    url: str
    model: str
    tokenizer: str
    gpus: int | None
    point_timeout_s: float
    experts: bool = False
    served_model: str = ""
    vocabulary: int | None = None
    done: tuple[PointRecord, ...] = ()
    samples: Samples | None = None
    before: tuple[Trial, ...] | None = None
    first_arm: str = ""


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """One level as kept, and what the look after it showed."""

    kept: PointRecord
    evidence: Evidence
    proofs: tuple[ProofFile, ...]
    interrupted: bool = False  # after it was measured

    @property
    def server_gone(self) -> bool:
        gone = leader(self.evidence.before) is not None and leader(self.evidence.after) is None
        return gone or self.evidence.token_after is False


def run_sweep(course: Course, trial: Trial) -> tuple[Trial, OeactlError | None]:
    """Measure every level not done yet into ``trial``, which was begun in the store, and end it there.

    Returns the ended trial, and what broke the sweep off; None where its outcome says it all.
    """
    levels: list[_Seen] = []
    outcome: Outcome = "completed"
    reason = ""
    broken: OeactlError | None = None
    try:
        with watching(course.site, course.server.state(health=False)) as samples:
            course = replace(course, samples=samples)
            for index, point in enumerate(course.sweep.points, start=1):
                if any(kept.index == index for kept in course.done):
                    continue
                levels.append(_level(course, trial, index, point))
                _say_once(course, levels)
                if levels[-1].interrupted:
                    raise KeyboardInterrupt
                if levels[-1].server_gone:
                    outcome, reason = "server_lost", f"the server did not survive level {point.concurrency}"
                if levels[-1].server_gone or _saturated(course, levels):
                    break
    except KeyboardInterrupt:
        outcome, reason = "interrupted", "Ctrl-C"
    except OeactlError as problem:
        outcome, reason, broken = "failed", problem.what, problem
    return _ended(course, trial, levels, outcome, reason), broken


def _saturated(course: Course, levels: list[_Seen]) -> Saturation | None:
    """Whether the last level was not worth its streams, beside those of an earlier attempt too."""
    return saturated(course.sweep, [*course.done, *(level.kept for level in levels)]) if levels else None


def _say_once(course: Course, levels: list[_Seen]) -> None:
    """Pass on what the last level warns of, unless a level before it did."""
    *before, last = (dict(warnings(level.kept.gates)) for level in levels)
    for name, reason in last.items():
        if not any(name in earlier for earlier in before):
            course.site.progress.note(f"level {levels[-1].kept.point.concurrency}: {name}: {reason}")


def _level(course: Course, trial: Trial, index: int, point: Point) -> _Seen:
    """Measure, judge and keep one level."""
    site = course.site
    site.progress.step(
        f"level {index} of {len(course.sweep.points)}: {_asked(point)}, "
        f"{point.input_len} tokens in, {point.output_len} out"
    )
    started = site.clock.now()
    before = course.server.state(health=False)
    measured, warm_up, window = _burst(course, point)
    evidence, proofs = _look_again(course, point, before, measured, warm_up)
    back = looking_back(course.store, trial, course.before, course.first_arm, point)
    watched, samples = seen(course.samples, window, site.clock, course.engine)
    evidence = msgspec.structs.replace(evidence, watched=watched, **back)
    gates = judge(evidence)
    reasons = failures(gates)
    ended = site.clock.now()
    experts, interrupted = _experts(course, trial, evidence)
    kept = PointRecord(
        index=index,
        point=point,
        started_at=moment(started),
        ended_at=moment(ended),
        argv=measured.argv,
        workload_sha256=measured.workload_sha256 or _workload(course, trial, point),
        valid=not reasons,
        reasons=reasons,
        gates=gates,
        measurement=measured.measurement,
        output_tokens_per_s_per_gpu=_per_gpu(course, measured),
        warm_up=warm_up,
        raw=save_rows(course.store, trial.run_id, measured.requests),
        client=measured.client,
        steady=steady(measured.requests, measured.measurement, point),
        goodput=goodput(measured.requests, measured.measurement, course.sweep.targets),
        tail=measured.tail[-_TAIL_LINES:],
        experts=experts,
        watched=watched,
        watched_raw=course.store.save_raw(trial.run_id, samples) if samples else None,
    )
    course.store.save_point(trial, kept)
    for line in reasons:
        site.progress.warn(f"level {point.concurrency} is void: {line}")
    return _Seen(kept=kept, evidence=evidence, proofs=proofs, interrupted=interrupted)


def _asked(point: Point) -> str:
    return f"{point.concurrency} at once" if point.rate is None else f"{point.rate:g} arrivals/s"


def _burst(course: Course, point: Point) -> tuple[PointMeasured, WarmUp | None, Window]:
    """Warm up, flush, measure. What spoils one of them spoils the level, and is its failure.

    The window is that of the load which is measured.
    """
    progress = course.site.progress
    progress.update("warming up")
    warmed, rates = _warmed(course, point)
    if warmed.measurement is None:
        failure = f"the warm-up failed: {warmed.failure}"
        return msgspec.structs.replace(warmed, failure=failure), None, Window(progress, course.site.clock)
    flushed, attempts = _flush(course)
    window = Window(progress, course.site.clock)
    sent = _request(course, point, None).requests
    warm_up = WarmUp(
        requests=sent * len(rates),
        completed=warmed.measurement.completed + sent * (len(rates) - 1),
        duration_s=warmed.measurement.duration_s,
        output_tokens_per_s=warmed.measurement.output_tokens_per_s,
        flushed=flushed,
        flush_attempts=attempts,
        rates=rates,
        steady=has_settled(rates, warmed.requests),
    )
    if flushed is False:
        return PointMeasured(argv=warmed.argv, failure=_NOT_FLUSHED), warm_up, window
    progress.update("measuring")
    return course.driver.run(_request(course, point, warm_up), window), warm_up, window


def _warmed(course: Course, point: Point) -> tuple[PointMeasured, tuple[float, ...]]:
    """Bursts with prompts of their own until the server has settled; the last one, and the rate of each."""
    rates: list[float] = []
    begun = course.site.clock.now()
    for number in range(_WARM_UPS):
        request = msgspec.structs.replace(_request(course, point, None), round=number)
        warmed = course.driver.run(request, course.site.progress)
        if warmed.measurement is None:
            break
        rates.append(warmed.measurement.output_tokens_per_s)
        late = course.site.clock.now() - begun > _WARM_UP_S
        if late or warmed.measurement.failed or has_settled(rates, warmed.requests):
            break
        course.site.progress.update("warming up: it is still getting faster")
    return warmed, tuple(rates)


def _request(course: Course, point: Point, warm_up: WarmUp | None) -> PointRequest:
    """The measured burst is bounded by what its warm-up took, so that one stuck stream costs minutes."""
    deadline_s = course.point_timeout_s
    if warm_up is not None:
        expected_s = warm_up.duration_s * point.requests * len(warm_up.rates) / warm_up.requests
        expected_s = max(expected_s, point.requests / point.rate if point.rate else 0.0)
        expected_s = max(expected_s, point.duration_s or 0.0)
        deadline_s = min(deadline_s, _START_S + _SLOWER * expected_s)
    return PointRequest(
        phase="measured" if warm_up else "warm-up",
        point=point,
        url=course.url,
        model=course.model,
        tokenizer=course.tokenizer,
        deadline_s=deadline_s,
        dataset=course.sweep.dataset,
        served_model=course.served_model,
        vocabulary=course.vocabulary,
    )


def _flush(course: Course) -> tuple[bool | None, int]:
    """Ask until it is confirmed: right after a load the engine is busy, and refuses."""
    for attempt in range(1, _FLUSH_TRIES):
        flushed = course.engine.flush_cache()
        if flushed is not False:
            return flushed, attempt
        course.site.clock.sleep(_FLUSH_PAUSE_S)
    return course.engine.flush_cache(), _FLUSH_TRIES


def _look_again(
    course: Course, point: Point, before: ServerState, measured: PointMeasured, warm_up: WarmUp | None
) -> tuple[Evidence, tuple[ProofFile, ...]]:
    """See what is there after the level: a token, the files, the server, the proofs."""
    (reply,) = course.engine.complete(prompts=[_TOKEN_PROMPT], output_len=1, concurrency=1)
    begun, survey = course.survey, look(course.site, course.modules, data=False) if course.survey else None
    after, proofs = course.server.state(health=False), course.server.proofs()
    evidence = Evidence(
        point=point,
        before=before,
        after=after,
        measurement=measured.measurement,
        requests=measured.requests,
        failure=measured.failure,
        flushed=warm_up.flushed if warm_up else None,
        warm_up_rates=warm_up.rates if warm_up else (),
        warmed_up=warm_up is None or warm_up.steady is not False,
        token_after=None if reply.status in _NOT_SERVED else _tokens_in(reply) > 0,
        token_problem=reply.error or f"HTTP {reply.status}",
        targets=targets(begun, survey) if begun and survey else (),
        activations=activations(begun.journal.layers, after, proofs) if begun else None,
        gpus=len(survey.host.gpus) if survey else 0,
        client=measured.client,
        dataset=course.sweep.dataset,
        eos_ignored=measured.eos_ignored,
        input_exact=measured.input_exact,
    )
    return evidence, proofs


def _tokens_in(reply: Reply) -> int:
    """How many tokens a completion really brought, by the server's own count; 0 for anything else."""
    if reply.status != 200:
        return 0
    try:
        body: Any = json.loads(reply.body)
    except ValueError:
        return 0
    counts = (body.get("meta_info") or body.get("usage")) if isinstance(body, dict) else None
    count = counts.get("completion_tokens") if isinstance(counts, dict) else None
    return count if isinstance(count, int) else 0


def _experts(course: Course, trial: Trial, evidence: Evidence) -> tuple[ExpertsSeen | None, bool]:
    """Which experts a batch as large as the level uses, now that the level is over; None: not asked for.

    Nothing that happens here may cost the level, which was measured. True: Ctrl-C came meanwhile.
    """
    if not course.experts or course.survey is None:
        return None, False
    requests = evidence.point.concurrency
    if evidence.token_after is False:
        return unseen(requests, "the server no longer answered after the level"), False
    course.site.progress.update("seeing which experts are used")
    try:
        seen, usage = see_experts(course.engine, course.server, course.survey, requests)
    except KeyboardInterrupt:
        return unseen(requests, "interrupted"), True
    except OeactlError as problem:
        return unseen(requests, problem.what), False
    if usage is None:
        return seen, False
    data = json.dumps(msgspec.to_builtins(usage), sort_keys=True, separators=(",", ":")).encode()
    digest = course.store.save_raw(trial.run_id, data).sha256
    return msgspec.structs.replace(seen, counts_sha256=digest), False


def _per_gpu(course: Course, measured: PointMeasured) -> float | None:
    if not course.gpus or measured.measurement is None:
        return None
    return measured.measurement.output_tokens_per_s / course.gpus


def save_rows(store: Store, run_id: str, requests: PerRequest | None) -> RawFile | None:
    """Keep the rows of one level, where there are any."""
    if requests is None:
        return None
    rows = msgspec.to_builtins(requests)
    data = json.dumps(rows, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return store.save_raw(run_id, data)


def _workload(course: Course, trial: Trial, point: Point) -> str:
    """A name for the prompts: the client makes them, so what it makes them from is hashed."""
    made_from = {
        "dataset": course.sweep.dataset,
        "client": [trial.driver.name, trial.driver.version],
        "tokenizer": course.tokenizer,
        "shape": [point.input_len, point.output_len, point.requests],
        "seed": point.seed,
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def _lost(course: Course, reason: str) -> Failure:
    """A server that died under load, with what its log says of it."""
    lines = log_tail(course.site, _LOST_LINES)
    return Failure(
        kind="lost under load", what=reason, first_error=first_error(lines), tail=lines[-TAIL_LINES:]
    )


def _ended(course: Course, trial: Trial, levels: list[_Seen], outcome: Outcome, reason: str) -> Trial:
    """Write the whole trial, with the files and proofs as the look after its last level showed them."""
    ended = msgspec.structs.replace(
        trial,
        ended_at=moment(course.site.clock.now()),
        outcome=outcome,
        outcome_reason=reason,
        points=tuple(level.kept for level in levels),
        clock_offset_s=clock_offset_s([level.kept.watched for level in levels], trial.clock_offset_s),
        saturation=_saturated(course, levels),
        failure=_lost(course, reason) if outcome == "server_lost" else None,
        caches=seen_after(course.site, trial),
    )
    if levels:
        ended = msgspec.structs.replace(
            ended,
            targets=levels[-1].evidence.targets,
            activations=levels[-1].evidence.activations or (),
            proofs=tuple(record(ProofRecord, proof) for proof in levels[-1].proofs),
        )
    course.store.save_trial(ended)
    return ended
