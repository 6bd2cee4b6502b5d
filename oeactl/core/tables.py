"""Runs as flat tables, for SQL and for other programs: a row a run, arm, trial, level, gate, verdict, figure.

Owns: the tables and their columns, with units in the names. Times are UTC. Refuses: to leave out what is void
or failed (columns say so), and to make up what was not measured (it is null).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from oeactl.core.evidence import Gate
from oeactl.core.experiment import Verdict
from oeactl.core.host import Value
from oeactl.core.load import Distribution
from oeactl.core.redact import is_secret_name, redact_text
from oeactl.core.run import Arm, Attachment, Listing, Metric, PointRecord, Run, Trial
from oeactl.core.telemetry import CardLoad
from oeactl.core.verdicts import is_finished

Kind = Literal["text", "integer", "number", "flag", "time"]


class Column(Value, frozen=True, kw_only=True):
    """kind: of its values; any may be null."""

    name: str
    kind: Kind


class Table(Value, frozen=True, kw_only=True):
    """rows: as long as columns, each value text, a number, a flag, an aware time, or None."""

    name: str
    about: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


def _spread(name: str, figure: str) -> Callable[[Run, Trial, PointRecord], float | None]:
    """One figure of a distribution that may not have been measured."""

    def value(run: Run, trial: Trial, point: PointRecord) -> float | None:
        found: Distribution | None = getattr(point.measurement, name, None)
        return None if found is None else float(getattr(found, figure))

    return value


def _seen(*path: str) -> Callable[..., Any]:
    """What ``path`` leads to from the last of the things that a row is of; None where a step is missing."""

    def value(*things: Any) -> Any:
        found = things[-1]
        for name in path:
            found = getattr(found, name, None)
        return found

    return value


#: name, kind, and where the value comes from.
_Columns = tuple[tuple[str, Kind, Callable[..., Any]], ...]

_RUNS: _Columns = (
    ("run_id", "text", lambda r: r.plan.run_id),
    ("what", "text", lambda r: r.plan.what),
    ("label", "text", lambda r: r.plan.label),
    ("created_at", "time", lambda r: r.plan.created_at),
    ("host", "text", lambda r: r.plan.host),
    ("driver", "text", lambda r: r.plan.driver),
    ("dataset", "text", lambda r: r.plan.sweep.dataset),
    ("arms", "integer", lambda r: len(r.plan.arms)),
    ("pairs", "integer", lambda r: r.plan.design and r.plan.design.pairs),
    ("margin", "number", lambda r: r.plan.design and r.plan.design.margin),
    ("analysis", "text", lambda r: r.plan.design and r.plan.design.analysis),
    ("trials_planned", "integer", lambda r: len(r.plan.trials)),
    ("trials_finished", "integer", lambda r: sum(map(is_finished, r.trials))),
    ("oeactl_version", "text", lambda r: r.plan.oeactl_version),
    ("path", "text", lambda r: r.path),
)
_ARMS: _Columns = (
    ("run_id", "text", lambda r, arm: r.plan.run_id),
    ("arm", "text", lambda r, arm: arm.name),
    ("build", "text", lambda r, arm: arm.described),
    ("recipes", "text", lambda r, arm: _recipes(arm)),
    ("args", "text", lambda r, arm: redact_text(" ".join(arm.args))),
    ("env", "text", lambda r, arm: _environment(arm)),
)
#: Of which trial a row is, before what it says of it.
_OF_TRIAL: _Columns = (
    ("run_id", "text", lambda r, t, *_: r.plan.run_id),
    ("what", "text", lambda r, t, *_: r.plan.what),
    ("host", "text", lambda r, t, *_: t.host.name),
    ("engine_version", "text", lambda r, t, *_: t.engine.version),
    ("model", "text", lambda r, t, *_: t.model.served_name or t.model.path),
    ("gpus", "integer", lambda r, t, *_: t.server.gpus),
    ("driver", "text", lambda r, t, *_: t.driver.name),
    ("trial", "text", lambda r, t, *_: t.name),
    ("arm", "text", lambda r, t, *_: t.arm),
    ("pair", "integer", lambda r, t, *_: t.pair),
    ("restart", "integer", lambda r, t, *_: t.order),
    ("start", "text", lambda r, t, *_: t.start),
    ("recipes", "text", lambda r, t, *_: _recipes(t)),
)
_TRIALS: _Columns = (
    *_OF_TRIAL,
    ("block", "integer", lambda r, t: t.block),
    ("started_at", "time", lambda r, t: t.started_at),
    ("ended_at", "time", lambda r, t: t.ended_at),
    ("ready_s", "number", lambda r, t: t.ready_s),
    ("outcome", "text", lambda r, t: t.outcome),
    ("outcome_reason", "text", lambda r, t: t.outcome_reason or None),
    ("failure", "text", lambda r, t: t.failure and t.failure.kind),
    ("first_error", "text", lambda r, t: t.failure and t.failure.first_error),
    ("levels", "integer", lambda r, t: len(t.points)),
    ("levels_valid", "integer", lambda r, t: sum(point.valid for point in t.points)),
    ("cached_files", "integer", lambda r, t: t.caches and t.caches.held),
    ("compiled_files", "integer", lambda r, t: t.caches and t.caches.written),
    ("cold", "flag", lambda r, t: t.caches and t.caches.cold),
    ("hostname", "text", lambda r, t: t.host.hostname),
    ("kernel", "text", lambda r, t: t.host.kernel),
    ("boot_id", "text", lambda r, t: t.host.boot_id),
    ("gpu", "text", lambda r, t: _gpu(t, "name")),
    ("gpu_driver", "text", lambda r, t: _gpu(t, "driver_version")),
    ("engine_commit", "text", lambda r, t: t.engine.git_commit),
    ("engine_dirty_sha256", "text", lambda r, t: t.engine.git_dirty_sha256),
    ("model_config_sha256", "text", lambda r, t: t.model.config_sha256),
    ("quantization", "text", lambda r, t: t.model.quantization),
    ("driver_version", "text", lambda r, t: t.driver.version),
    ("pid", "integer", lambda r, t: t.server.pid),
)
_POINTS: _Columns = (
    *_OF_TRIAL,
    ("started_at", "time", lambda r, t, p: p.started_at),
    ("concurrency", "integer", lambda r, t, p: p.point.concurrency),
    ("rate", "number", lambda r, t, p: p.point.rate),
    ("input_len", "integer", lambda r, t, p: p.point.input_len),
    ("output_len", "integer", lambda r, t, p: p.point.output_len),
    ("requests", "integer", lambda r, t, p: p.point.requests),
    ("seed", "integer", lambda r, t, p: p.point.seed),
    ("workload_sha256", "text", lambda r, t, p: p.workload_sha256),
    ("valid", "flag", lambda r, t, p: p.valid),
    ("reasons", "text", lambda r, t, p: "; ".join(p.reasons)),
    ("completed", "integer", lambda r, t, p: p.measurement and p.measurement.completed),
    ("output_tokens", "integer", lambda r, t, p: p.measurement and p.measurement.output_tokens),
    ("duration_s", "number", lambda r, t, p: p.measurement and p.measurement.duration_s),
    ("output_tokens_per_s", "number", lambda r, t, p: p.measurement and p.measurement.output_tokens_per_s),
    ("output_tokens_per_s_per_gpu", "number", lambda r, t, p: p.output_tokens_per_s_per_gpu),
    *(
        (f"{name}_{figure}", "number", _spread(name, figure))
        for name in ("ttft_ms", "tpot_ms", "e2e_ms")
        for figure in ("mean", "median", "p99")
    ),
    ("experts_distinct_mean", "number", lambda r, t, p: p.experts and p.experts.distinct_mean),
    ("steady_tokens_per_s", "number", _seen("steady", "output_tokens_per_s")),
    ("warmed_up", "flag", _seen("warm_up", "steady")),
    ("running_mean", "number", _seen("watched", "engine", "running", "mean")),
    ("waiting_mean", "number", _seen("watched", "engine", "waiting", "mean")),
    ("queue_s", "number", _seen("watched", "engine", "queue_s")),
    ("kv_used_tokens_max", "number", _seen("watched", "engine", "kv_used_tokens", "max")),
    ("kv_available_tokens_min", "number", _seen("watched", "engine", "kv_available_tokens", "min")),
    ("kv_total_tokens", "integer", _seen("watched", "engine", "kv_total_tokens")),
    ("accept_length", "number", _seen("accept_length")),
    ("cpu_busy_mean", "number", _seen("watched", "cpu_busy", "mean")),
    ("clock_offset_s", "number", _seen("watched", "clock_offset_s")),
)
_CARDS: _Columns = (
    ("run_id", "text", lambda r, t, p, c: r.plan.run_id),
    ("trial", "text", lambda r, t, p, c: t.name),
    ("concurrency", "integer", lambda r, t, p, c: p.point.concurrency),
    ("card", "integer", _seen("index")),
    ("uuid", "text", _seen("uuid")),
    ("used", "flag", _seen("used")),
    ("samples", "integer", _seen("samples")),
    ("sm_mhz_mean", "number", _seen("sm_mhz", "mean")),
    ("sm_mhz_min", "number", _seen("sm_mhz", "min")),
    ("memory_mhz_mean", "number", _seen("memory_mhz", "mean")),
    ("power_w_mean", "number", _seen("power_w", "mean")),
    ("power_w_max", "number", _seen("power_w", "max")),
    ("power_limit_w", "number", _seen("power_limit_w")),
    ("temperature_c_max", "number", _seen("temperature_c", "max")),
    ("busy_percent_mean", "number", _seen("busy_percent", "mean")),
    ("memory_used_mib_max", "number", _seen("memory_used_mib", "max")),
    ("memory_total_mib", "number", _seen("memory_total_mib")),
    ("throttled", "text", lambda r, t, p, c: _throttled(c)),
)
_GATES: _Columns = (
    ("run_id", "text", lambda r, t, p, g: r.plan.run_id),
    ("trial", "text", lambda r, t, p, g: t.name),
    ("concurrency", "integer", lambda r, t, p, g: p.point.concurrency),
    ("gate", "text", lambda r, t, p, g: g.name),
    ("outcome", "text", lambda r, t, p, g: g.outcome),
    ("warning", "flag", lambda r, t, p, g: g.warning),
    ("reason", "text", lambda r, t, p, g: g.reason or None),
)
_VERDICTS: _Columns = (
    ("run_id", "text", lambda r, v: r.plan.run_id),
    ("arm", "text", lambda r, v: v.arm),
    ("against", "text", lambda r, v: v.against),
    ("says", "text", lambda r, v: v.says),
    ("material", "flag", lambda r, v: v.material),
    ("ratio", "number", lambda r, v: v.effect and v.effect.ratio),
    ("low", "number", lambda r, v: v.effect and v.effect.low),
    ("high", "number", lambda r, v: v.effect and v.effect.high),
    ("p", "number", lambda r, v: v.effect and v.effect.p),
    ("confidence", "number", lambda r, v: v.effect and v.effect.confidence),
    ("pairs", "integer", lambda r, v: v.effect and v.effect.pairs),
    ("restart_sd", "number", lambda r, v: v.trial_sd),
    ("smallest_effect", "number", lambda r, v: v.smallest_effect),
    ("reasons", "text", lambda r, v: "; ".join(v.reasons)),
)
_METRICS: _Columns = (
    ("run_id", "text", lambda r, a, m: r.plan.run_id),
    ("tool", "text", lambda r, a, m: a.tool),
    ("file", "text", lambda r, a, m: a.file),
    ("task", "text", lambda r, a, m: m.task),
    ("metric", "text", lambda r, a, m: m.metric),
    ("value", "number", lambda r, a, m: m.value),
    ("stderr", "number", lambda r, a, m: m.stderr),
    ("samples", "integer", lambda r, a, m: m.samples),
)
_SKIPPED: _Columns = (
    ("path", "text", lambda s: s.path),
    ("why", "text", lambda s: s.why),
)


def tables(listing: Listing) -> tuple[Table, ...]:
    """All tables of a results folder, in the order in which they explain each other."""
    runs = listing.runs
    skipped = [*listing.skipped, *(one for run in runs for one in run.skipped)]
    return (
        _table("runs", "what was planned, one row a run", _RUNS, ((run,) for run in runs)),
        _table("arms", "the builds of a run", _ARMS, _arms(runs)),
        _table("trials", "one server start of one build", _TRIALS, _trials(runs)),
        points(runs),
        _table("cards", "each GPU while a level was measured", _CARDS, _cards(runs)),
        _table("gates", "what each level was judged by", _GATES, _gates(runs)),
        _table("verdicts", "each arm against the first", _VERDICTS, _verdicts(runs)),
        _table("metrics", "what other tools measured of the same build", _METRICS, _metrics(runs)),
        _table("skipped", "files that were not taken", _SKIPPED, ((one,) for one in skipped)),
    )


def points(runs: Iterable[Run]) -> Table:
    """The table of levels by itself."""
    return _table("points", "one level of a trial", _POINTS, _points(runs))


def _table(name: str, about: str, columns: _Columns, things: Iterable[Sequence[Any]]) -> Table:
    return Table(
        name=name,
        about=about,
        columns=tuple(Column(name=column, kind=kind) for column, kind, _ in columns),
        rows=tuple(tuple(value(*thing) for _, _, value in columns) for thing in things),
    )


def _arms(runs: Iterable[Run]) -> Iterable[tuple[Run, Arm]]:
    return ((run, arm) for run in runs for arm in run.plan.arms)


def _trials(runs: Iterable[Run]) -> Iterable[tuple[Run, Trial]]:
    return ((run, trial) for run in runs for trial in run.trials)


def _points(runs: Iterable[Run]) -> Iterable[tuple[Run, Trial, PointRecord]]:
    return ((run, trial, point) for run, trial in _trials(runs) for point in trial.points)


def _gates(runs: Iterable[Run]) -> Iterable[tuple[Run, Trial, PointRecord, Gate]]:
    return ((run, trial, point, gate) for run, trial, point in _points(runs) for gate in point.gates)


def _cards(runs: Iterable[Run]) -> Iterable[tuple[Run, Trial, PointRecord, CardLoad]]:
    return (
        (run, trial, point, card)
        for run, trial, point in _points(runs)
        if point.watched is not None
        for card in point.watched.cards
    )


def _throttled(card: CardLoad) -> str | None:
    """'power cap 12%'; empty where nothing held it down, None where it does not say."""
    if card.throttled is None:
        return None
    return ", ".join(f"{reason} {share:.0%}" for reason, share in sorted(card.throttled.items()))


def _verdicts(runs: Iterable[Run]) -> Iterable[tuple[Run, Verdict]]:
    return ((run, verdict) for run in runs if run.analysis for verdict in run.analysis.verdicts)


def _metrics(runs: Iterable[Run]) -> Iterable[tuple[Run, Attachment, Metric]]:
    return ((run, kept, metric) for run in runs for kept in run.attachments for metric in kept.metrics)


def _recipes(of: Arm | Trial) -> str:
    """``[["oea", 1, {"k0": 4}]]``, or '' for the original engine."""
    told = [[recipe.recipe, recipe.revision, recipe.parameters] for recipe in of.recipes]
    return json.dumps(told, sort_keys=True) if told else ""


def _environment(arm: Arm) -> str:
    told = {name: "***" if is_secret_name(name) else text for name, text in arm.env.items()}
    return json.dumps(told, sort_keys=True) if told else ""


def _gpu(trial: Trial, key: str) -> str | None:
    """What all GPUs of the host have in common, or each of them."""
    return ", ".join(sorted({gpu[key] for gpu in trial.host.gpus if key in gpu})) or None
