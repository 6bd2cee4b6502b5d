"""The original engine on one host over time: one baseline a run, the band of past ones, and what changed.

Owns: which trials make a baseline, which runs are the same load, the band, and the suspects when the newest
baseline has left it. Refuses: to say why; a suspect is a fact that is new since, no more.

The band is the prediction interval of one more baseline after those before it, by Student's t:
mean +- t(n-1) * s * sqrt(1 + 1/n), on ln tok/s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Any

from oeactl.core import stats
from oeactl.core.compare import changed_arguments
from oeactl.core.host import Value
from oeactl.core.metrics import Spread
from oeactl.core.provenance import Moment
from oeactl.core.run import Run, Trial
from oeactl.core.telemetry import CardLoad
from oeactl.core.verdicts import is_finished

#: Fewer baselines make no band; older ones than the last so many say little about today.
FEWEST = 3
MOST = 20


class Level(Value, frozen=True, kw_only=True):
    """One level of the load. rate: arrivals a second, None for streams."""

    concurrency: int
    rate: float | None
    input_len: int
    output_len: int
    requests: int


class Load(Value, frozen=True, kw_only=True):
    """What must be the same for baselines to stand beside each other."""

    model: str
    config_sha256: str | None
    client: str
    dataset: str
    levels: tuple[Level, ...]


class Baseline(Value, frozen=True, kw_only=True):
    """One run's pristine trials. output_tokens_per_s: geometric mean over its levels and trials."""

    run_id: str
    at: Moment
    trials: int
    output_tokens_per_s: float


class Suspect(Value, frozen=True, kw_only=True):
    """A fact that no baseline before shared with the newest. before: of the one just before it."""

    what: str
    before: str
    now: str


class Series(Value, frozen=True, kw_only=True):
    """Baselines of one load, oldest first. low, high: the band of the newest, None with too few before it.

    left: the newest stands outside; suspects: what is new since then.
    """

    load: Load
    baselines: tuple[Baseline, ...]
    low: float | None = None
    high: float | None = None
    left: bool = False
    suspects: tuple[Suspect, ...] = ()


def history(runs: Iterable[Run], host: str) -> tuple[Series, ...]:
    """Every load that was measured on the original engine of ``host``, the one measured last at the end."""
    found: dict[Load, list[tuple[Baseline, Trial]]] = {}
    for run in runs:
        for load, trials in _pristine(run, host).items():
            found.setdefault(load, []).append((_baseline(run, trials), trials[0]))
    every = [_series(load, sorted(rows, key=lambda row: row[0].at)) for load, rows in found.items()]
    return tuple(sorted(every, key=lambda series: series.baselines[-1].at))


def _pristine(run: Run, host: str) -> dict[Load, list[Trial]]:
    """The run's whole trials of the engine as it came and as hosts.yaml starts it, warm-ups left out."""
    plain = {arm.name for arm in run.plan.arms if arm.plain}
    found: dict[Load, list[Trial]] = {}
    for trial in run.trials:
        counts = run.plan.design is None or trial.pair is not None
        if trial.host.name != host or trial.recipes or trial.arm not in plain or not counts:
            continue
        if is_finished(trial) and trial.points and all(map(_rate, trial.points)):
            found.setdefault(_load(run, trial), []).append(trial)
    return found


def _load(run: Run, trial: Trial) -> Load:
    levels = {
        Level(
            concurrency=one.point.concurrency,
            rate=one.point.rate,
            input_len=one.point.input_len,
            output_len=one.point.output_len,
            requests=one.point.requests,
        )
        for one in trial.points
    }
    return Load(
        model=trial.model.served_name or trial.model.path or "",
        config_sha256=trial.model.config_sha256,
        client=trial.driver.name,
        dataset=run.plan.sweep.dataset,
        levels=tuple(sorted(levels, key=lambda level: (level.concurrency, level.rate or 0.0, str(level)))),
    )


def _rate(point: Any) -> float | None:
    measured = point.measurement
    return measured.output_tokens_per_s or None if point.valid and measured is not None else None


def _baseline(run: Run, trials: Sequence[Trial]) -> Baseline:
    logs = [fmean(log(rate) for point in trial.points if (rate := _rate(point))) for trial in trials]
    return Baseline(
        run_id=run.plan.run_id,
        at=min(trial.started_at for trial in trials),
        trials=len(trials),
        output_tokens_per_s=exp(fmean(logs)),
    )


def _series(load: Load, rows: Sequence[tuple[Baseline, Trial]]) -> Series:
    *before, (newest, trial) = rows[-MOST - 1 :]
    band = _band([log(one.output_tokens_per_s) for one, _ in before])
    left = band is not None and not band[0] <= newest.output_tokens_per_s <= band[1]
    return Series(
        load=load,
        baselines=tuple(one for one, _ in rows),
        low=band[0] if band else None,
        high=band[1] if band else None,
        left=left,
        suspects=_suspects([one for _, one in before], trial) if left else (),
    )


def _band(logs: Sequence[float]) -> tuple[float, float] | None:
    """Where one more baseline would lie in 95 of 100 cases; None where the ones before do not tell."""
    if len(logs) < FEWEST or stdev(logs) <= 0:
        return None
    mean, count = fmean(logs), len(logs)
    half = stats.critical(count - 1, stats.ALPHA) * stdev(logs) * sqrt(1 + 1 / count)
    return exp(mean - half), exp(mean + half)


#: What may be behind a change, most likely first.
_FACTS: tuple[tuple[str, Callable[[Trial], object]], ...] = (
    ("GPUs", lambda t: _cards(t, "name")),
    ("GPU driver", lambda t: _cards(t, "driver_version")),
    ("power limit", lambda t: _cards(t, "power.limit")),
    ("engine version", lambda t: t.engine.version),
    ("engine commit", lambda t: t.engine.git_commit),
    ("engine's uncommitted changes", lambda t: t.engine.git_dirty_sha256),
    ("Python", lambda t: t.engine.python_version),
    ("model revision", lambda t: t.model.revision),
    ("kernel", lambda t: t.host.kernel),
    ("machine", lambda t: t.host.hostname),
    ("CPUs", lambda t: t.host.cpus),
    ("load client's version", lambda t: t.driver.version),
    ("server's environment", lambda t: t.server.environment),
    ("start", lambda t: t.start),
    ("boot", lambda t: t.host.boot_id),
)


#: What the cards did while the levels were measured.
_UNDER_LOAD: tuple[tuple[str, Callable[[CardLoad], Spread | None], str], ...] = (
    ("SM clock under load", lambda card: card.sm_mhz, "MHz"),
    ("memory clock under load", lambda card: card.memory_mhz, "MHz"),
    ("temperature under load", lambda card: card.temperature_c, "°C"),
)
_SLACK = 0.01


def _cards(trial: Trial, key: str) -> list[str]:
    return sorted(gpu[key] for gpu in trial.host.gpus if key in gpu)


def _suspects(before: Sequence[Trial], newest: Trial) -> tuple[Suspect, ...]:
    """Facts of the newest that none of the trials before it had, then the server's arguments."""
    last = before[-1]
    found = [
        Suspect(what=name, before=_told(fact(last)), now=_told(fact(newest)))
        for name, fact in _FACTS
        if all(fact(one) != fact(newest) for one in before)
    ]
    found += _clocks(before, newest)
    new = set(changed_arguments(last.server.args, newest.server.args))
    for one in before:
        new &= set(changed_arguments(one.server.args, newest.server.args))
    found += [
        Suspect(
            what=f"argument {name}",
            before=_told(last.server.args.get(name)),
            now=_told(newest.server.args.get(name)),
        )
        for name in sorted(new)
    ]
    return tuple(found)


def _clocks(before: Sequence[Trial], newest: Trial) -> list[Suspect]:
    """Clock and temperature under load, where the newest lies a hundredth or more beyond all before it."""
    found = []
    for name, figure, unit in _UNDER_LOAD:
        past = [mean for one in before if (mean := _mean(one, figure)) is not None]
        now = _mean(newest, figure)
        if now is None or not past or (1 - _SLACK) * min(past) <= now <= (1 + _SLACK) * max(past):
            continue
        found.append(Suspect(what=name, before=f"{past[-1]:,.0f} {unit}", now=f"{now:,.0f} {unit}"))
    return found


def _mean(trial: Trial, figure: Callable[[CardLoad], Spread | None]) -> float | None:
    """Over the levels and the cards that the server uses; None where the cards were not watched."""
    cards = [card for point in trial.points if point.watched for card in point.watched.loaded]
    seen = [spread.mean for card in cards if (spread := figure(card)) is not None]
    return fmean(seen) if seen else None


def _told(value: object) -> str:
    """A fact in a few words."""
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        counts = {one: value.count(one) for one in value}
        return ", ".join(one if count == 1 else f"{count} x {one}" for one, count in counts.items())
    if isinstance(value, dict):
        return " ".join(f"{key}={text}" for key, text in sorted(value.items())) or "none"
    text = str(value)
    return f"{text[:12]}…" if len(text) > 40 and " " not in text else text
