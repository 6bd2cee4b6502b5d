"""Runs as a person reads them on a terminal of any width, and as a program does.

Owns: the tables of ``bench`` and ``results``, which columns give way when it is narrow, and the wording of
void levels. Figures stand right, units stand in the heads. Refuses: to print, to judge, and to call one
trial a side a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from oeactl.core.compare import differences
from oeactl.core.load import Distribution, Measurement, Sweep
from oeactl.core.results import same_level
from oeactl.core.resumption import sweeps_of
from oeactl.core.run import Listing, PointRecord, Run, Trial
from oeactl.render.arms import arms_document, arms_view
from oeactl.render.attachments import attachment_lines
from oeactl.render.columns import Column, fitting, table
from oeactl.render.matrix import matrix_table
from oeactl.render.sweeps import earlier_attempts, how_far, level_name
from oeactl.render.watched import unseen_line, watched_table

_DASH = "-"


def run_view(run: Run, *, width: int) -> Any:
    """One run: what was measured, its levels, why some are void, where it lies. A rich renderable."""
    from rich.console import Group
    from rich.text import Text

    parts = [part for trial in sweeps_of(run) for part in _trial_parts(run, trial, width)]
    return Group(*parts, *(Text(line) for line in attachment_lines(run)), _end(run))


def level_table(trial: Trial, *, width: int) -> Any:
    """One row a level."""
    points = trial.points
    columns = (
        Column(head="level", cells=_each(points, level_name)),
        Column(head="tokens\nin/out", cells=_each(points, _lengths), keep=3),
        Column(head="output\ntok/s", cells=_measured(points, lambda m: f"{m.output_tokens_per_s:,.1f}")),
        Column(head="steady\ntok/s", cells=_each(points, _steady), keep=1),
        Column(head="tok/s\nper GPU", cells=_each(points, _per_gpu), keep=1),
        Column(head="goodput\nreq/s", cells=_each(points, _goodput), keep=1),
        Column(head="TTFT ms\nmean", cells=_measured(points, lambda m: f"{m.ttft_ms.mean:,.1f}"), keep=2),
        Column(head="TTFT ms\np99", cells=_measured(points, lambda m: f"{m.ttft_ms.p99:,.1f}"), keep=4),
        Column(head="TPOT ms\nmean", cells=_measured(points, lambda m: _mean(m.tpot_ms)), keep=2),
        Column(head="TPOT ms\np99", cells=_measured(points, lambda m: _p99(m.tpot_ms)), keep=5),
        Column(head="experts\na step", cells=_each(points, _experts), keep=6),
        Column(head="valid", cells=_each(points, _valid), left=True),
    )
    return table(fitting(columns, width), dim=[not point.valid for point in points])


def comparison_view(one: Run, other: Run, *, width: int, names: tuple[str, str] | None = None) -> Any:
    """Two runs side by side, level by level. Only levels that are valid on both sides have a ratio."""
    from rich.console import Group
    from rich.text import Text

    first, second = names or (one.plan.label, other.plan.label)
    if first == second:
        first, second = f"{first} (1)", f"{second} (2)"
    if _has_restarts(one, other):
        return arms_view(one, other, names=(first, second), width=width)
    pairs = _pairs(one, other)
    ratios = tuple(_ratio(a, b) for a, b in pairs)
    columns = (
        Column(head="level", cells=tuple(f"{a.point.concurrency}" for a, _ in pairs)),
        *_sides(pairs, first, second, "tok/s", lambda m: f"{m.output_tokens_per_s:,.1f}", keep=0),
        Column(head="ratio\ntok/s", cells=tuple(_DASH if r is None else f"{r:.3f}" for r in ratios)),
        *_sides(pairs, first, second, "TTFT ms", lambda m: f"{m.ttft_ms.mean:,.1f}", keep=2),
        *_sides(pairs, first, second, "TPOT ms", lambda m: _mean(m.tpot_ms), keep=1),
        Column(head=f"{first}\nexperts", cells=tuple(_experts(a) for a, _ in pairs), keep=3),
        Column(head=f"{second}\nexperts", cells=tuple(_experts(b) for _, b in pairs), keep=3),
        Column(head="valid", cells=tuple(_both_valid(a, b, first, second) for a, b in pairs), left=True),
    )
    lines = [f"{first}: {_described(one)}", f"{second}: {_described(other)}"]
    notes = [f"they differ in {what}" for what in differences(one, other)]
    notes.append("one server start a side: an indication, not a verdict")
    return Group(
        *(Text(line) for line in lines),
        table(fitting(columns, width), dim=[ratio is None for ratio in ratios]),
        *(Text(line, style="dim") for line in notes),
        *(Text(run.path) for run in (one, other)),
    )


def listing_view(listing: Listing, *, width: int) -> Any:
    """One row a run, oldest first, and every file that was passed over."""
    from rich.console import Group
    from rich.text import Text

    runs = listing.runs
    columns = (
        Column(head="run", cells=tuple(run.plan.run_id for run in runs), left=True),
        Column(head="host", cells=tuple(run.plan.host for run in runs), keep=1, left=True),
        Column(head="what", cells=tuple(run.plan.what for run in runs), keep=3, left=True),
        Column(head="level", cells=tuple(_concurrencies(run) for run in runs), keep=2, left=True),
        Column(head="valid", cells=tuple(_valid_of(run) for run in runs)),
        Column(head="ended", cells=tuple(_outcome(run) for run in runs), keep=4, left=True),
    )
    if not runs and not listing.skipped:
        return Text(f"no runs in {listing.path}")
    skipped = [*listing.skipped, *(skipped for run in runs for skipped in run.skipped)]
    return Group(
        *([table(fitting(columns, width))] if runs else []),
        *(Text(f"skipped {one.path}: {one.why}", style="yellow") for one in skipped),
    )


def run_document(run: Run) -> dict[str, Any]:
    """For ``--json``: the run as its files hold it, and its folder."""
    return {
        "path": run.path,
        "plan": msgspec.to_builtins(run.plan),
        "trials": msgspec.to_builtins(run.trials),
        "analysis": msgspec.to_builtins(run.analysis),
        "attachments": msgspec.to_builtins(run.attachments),
        "skipped": msgspec.to_builtins(run.skipped),
    }


def listing_document(listing: Listing) -> dict[str, Any]:
    """For ``--json``: one entry a run."""
    return {
        "path": listing.path,
        "runs": [
            {
                "run_id": run.plan.run_id,
                "path": run.path,
                "host": run.plan.host,
                "what": run.plan.what,
                "label": run.plan.label,
                "created_at": msgspec.to_builtins(run.plan.created_at),
                "outcomes": [trial.outcome for trial in run.trials],
                "levels_planned": len(run.plan.trials) * len(run.plan.sweep.points),
                "levels_measured": len(_points(run)),
                "levels_valid": sum(point.valid for point in _points(run)),
            }
            for run in listing.runs
        ],
        "skipped": msgspec.to_builtins(
            [*listing.skipped, *(one for run in listing.runs for one in run.skipped)]
        ),
    }


def comparison_document(one: Run, other: Run) -> dict[str, Any]:
    """For ``--json``: the ratio of output tok/s a level, null where a side is void or missing."""
    if _has_restarts(one, other):
        return arms_document(one, other)
    return {
        "runs": [one.plan.run_id, other.plan.run_id],
        "differences": list(differences(one, other)),
        "levels": [
            {
                "concurrency": a.point.concurrency,
                "input_len": a.point.input_len,
                "output_len": a.point.output_len,
                "output_tokens_per_s": [_rate(a), _rate(b)],
                "ratio": _ratio(a, b),
                "distinct_experts": [_distinct(a), _distinct(b)],
                "valid": [a.valid, b is not None and b.valid],
            }
            for a, b in _pairs(one, other)
        ],
    }


def _trial_parts(run: Run, trial: Trial, width: int) -> Iterable[Any]:
    from rich.text import Text

    yield Text(f"{trial.host.name}: {_described(run)}", style="bold")
    if trial.points:
        yield level_table(trial, width=width)
        watched = watched_table(trial, width=width)
        if watched is not None:
            yield watched
    yield from _matrix(run.plan.sweep, trial, width)
    for point in trial.points:
        at = f" at context {point.point.input_len}" if run.plan.sweep.matrix else ""
        for reason in point.reasons:
            yield Text(f"level {level_name(point)}{at} is void: {reason}", style="yellow")
    for line in _warned(trial):
        yield Text(line, style="dim")
    yield from (Text(line, style="dim") for line in earlier_attempts(run, trial))
    for line in how_far(run.plan.sweep, trial):
        yield Text(line, style="yellow" if trial.saturation else "dim")
    if trial.outcome not in ("completed",):
        planned = len(run.plan.sweep.points)
        why = f" ({trial.outcome_reason})" if trial.outcome_reason else ""
        yield Text(
            f"{trial.outcome.replace('_', ' ')}{why}: {len(trial.points)} of {planned} levels", style="yellow"
        )


def _matrix(sweep: Sweep, trial: Trial, width: int) -> Iterable[Any]:
    from rich.text import Text

    grid = matrix_table(sweep, trial, width=width) if sweep.matrix else None
    if grid is not None:
        yield grid
    yield from (Text(f"left out: {cell.described}", style="dim") for cell in sweep.skipped)


def _end(run: Run) -> Any:
    from rich.text import Text

    lines = [f"skipped {one.path}: {one.why}" for one in run.skipped]
    return Text("\n".join([*lines, run.path]))


def _described(run: Run) -> str:
    """'oea (k0=4, min_tokens=2) on sglang 0.5.20, /models/glm5'."""
    if not run.trials:
        return f"{run.plan.label}, no trial"
    trial = run.trials[0]
    bare = "pristine" if trial.engine.root is not None else "as it runs"
    recipes = ", ".join(recipe.described for recipe in trial.recipes) or bare
    model = trial.model.served_name or trial.model.path or "unknown model"
    return f"{recipes} on {trial.engine.package} {trial.engine.version or 'unknown'}, {model}"


def _warned(trial: Trial) -> Iterable[str]:
    """Warnings once a gate, with their levels; then, in one line, what nobody could measure."""
    warned: dict[str, list[PointRecord]] = {}
    unseen: dict[str, None] = {}
    for point in trial.points:
        for gate in point.gates:
            if gate.warning and gate.outcome != "fail":
                warned.setdefault(gate.name, []).append(point)
            elif gate.outcome == "not_measured" and point.measurement is not None:
                unseen[gate.name] = None
    for name, points in warned.items():
        levels = ", ".join(str(point.point.concurrency) for point in points)
        reason = next(gate.reason for gate in points[-1].gates if gate.name == name)
        yield f"{name}, level {levels}: {reason}"
    if unseen:
        yield f"not measured: {', '.join(unseen)}"
    unseen_of_host = unseen_line(trial)
    if unseen_of_host:
        yield unseen_of_host
    blind = {p.experts.reason: None for p in trial.points if p.experts and p.experts.outcome != "measured"}
    yield from (f"experts not measured: {reason}" for reason in blind)


def _each(points: Sequence[PointRecord], text: Callable[[PointRecord], str]) -> tuple[str, ...]:
    return tuple(text(point) for point in points)


def _measured(points: Sequence[PointRecord], text: Callable[[Measurement], str]) -> tuple[str, ...]:
    return tuple(_DASH if p.measurement is None else text(p.measurement) for p in points)


def _mean(distribution: Distribution | None) -> str:
    return _DASH if distribution is None else f"{distribution.mean:,.2f}"


def _p99(distribution: Distribution | None) -> str:
    return _DASH if distribution is None else f"{distribution.p99:,.2f}"


def _lengths(point: PointRecord) -> str:
    return f"{point.point.input_len}/{point.point.output_len}"


def _per_gpu(point: PointRecord) -> str:
    rate = point.output_tokens_per_s_per_gpu
    return _DASH if rate is None else f"{rate:,.1f}"


def _steady(point: PointRecord) -> str:
    """While all streams were busy, beside the whole."""
    return _DASH if point.steady is None else f"{point.steady.output_tokens_per_s:,.1f}"


def _distinct(point: PointRecord | None) -> float | None:
    return None if point is None or point.experts is None else point.experts.distinct_mean


def _experts(point: PointRecord | None) -> str:
    distinct = _distinct(point)
    return _DASH if distinct is None else f"{distinct:.1f}"


def _goodput(point: PointRecord) -> str:
    """Requests a second that met the targets, and their share."""
    return (
        _DASH if point.goodput is None else f"{point.goodput.requests_per_s:,.2f} ({point.goodput.share:.0%})"
    )


def _valid(point: PointRecord) -> str:
    return "yes" if point.valid else f"void: {point.reasons[0].partition(':')[0]}"


def _has_restarts(*runs: Run) -> bool:
    return any(run.plan.design is not None for run in runs)


Pair = tuple[PointRecord, PointRecord | None]


def _points(run: Run) -> tuple[PointRecord, ...]:
    return tuple(point for trial in sweeps_of(run) for point in trial.points)


def _pairs(one: Run, other: Run) -> tuple[Pair, ...]:
    others = _points(other)
    return tuple(
        (point, next((o for o in others if same_level(o.point, point.point)), None)) for point in _points(one)
    )


def _sides(
    pairs: Sequence[Pair],
    first: str,
    second: str,
    unit: str,
    text: Callable[[Measurement], str],
    *,
    keep: int,
) -> tuple[Column, Column]:
    left = tuple(_DASH if a.measurement is None else text(a.measurement) for a, _ in pairs)
    right = tuple(_DASH if b is None or b.measurement is None else text(b.measurement) for _, b in pairs)
    return (
        Column(head=f"{first}\n{unit}", cells=left, keep=keep),
        Column(head=f"{second}\n{unit}", cells=right, keep=keep),
    )


def _rate(point: PointRecord | None) -> float | None:
    return None if point is None or point.measurement is None else point.measurement.output_tokens_per_s


def _ratio(one: PointRecord, other: PointRecord | None) -> float | None:
    """How many times faster ``other`` is, by output tokens a second."""
    before, after = _rate(one), _rate(other)
    if other is None or not (one.valid and other.valid) or not before or after is None:
        return None
    return after / before


def _both_valid(one: PointRecord, other: PointRecord | None, first: str, second: str) -> str:
    if other is None:
        return f"{first} only"
    void = [name for name, point in ((first, one), (second, other)) if not point.valid]
    return f"void: {', '.join(void)}" if void else "yes"


def _concurrencies(run: Run) -> str:
    return ",".join(str(point.concurrency) for point in run.plan.sweep.points)


def _valid_of(run: Run) -> str:
    points = _points(run)
    planned = len(run.plan.trials) * len(run.plan.sweep.points)
    return f"{sum(point.valid for point in points)}/{planned}"


def _outcome(run: Run) -> str:
    """'completed', of many trials '5 completed, 1 failed'."""
    counts = Counter(trial.outcome.replace("_", " ") for trial in run.trials)
    told = [outcome if run.plan.design is None else f"{n} {outcome}" for outcome, n in counts.items()]
    return ", ".join(told) or "before its first trial"
