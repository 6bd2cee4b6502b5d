"""A comparison as a person reads it, before it begins and after, and as a program does.

Owns: the tables of plan and outcome, and the words of a verdict. Refuses: to judge, and to call what is not
shown "no difference".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from oeactl.core import stats
from oeactl.core.experiment import Design, Effect, Foreseen, LevelEffect, Verdict
from oeactl.core.run import ArmAtLevel, Plan, Run, Trial
from oeactl.core.verdicts import result_of
from oeactl.render.attachments import attachment_lines
from oeactl.render.columns import Column, fitting, table
from oeactl.render.results import run_document

_DASH = "-"
_SPREADS = (0.005, 0.01, 0.02, 0.03)


def plan_view(plan: Plan, foreseen: Foreseen, *, width: int) -> Any:
    """What is about to be done, in order, what it takes, what it could see. A rich renderable."""
    from rich.console import Group
    from rich.text import Text

    design = _design(plan)
    return Group(
        *(Text(line) for line in (*arm_lines(plan), *launch_lines(plan, foreseen))),
        table(fitting(_trial_columns(plan), width)),
        *(Text(line) for line in (*_costs(plan, foreseen), *sees(design, len(plan.arms)), *_ways(design))),
        *(Text(note, style="dim") for note in foreseen.notes),
    )


def plan_document(plan: Plan, foreseen: Foreseen) -> dict[str, Any]:
    """For ``--plan-only --json``."""
    restarts = len(plan.trials)
    return {
        "plan": msgspec.to_builtins(plan),
        "restarts": restarts,
        "trial_s": foreseen.trial_s,
        "trial_s_from": foreseen.trial_s_from or None,
        "total_s": foreseen.trial_s * restarts if foreseen.trial_s else None,
        "gpu_hours": _gpu_hours(plan, foreseen),
        "smallest_effect": _smallest(_design(plan), len(plan.arms)),
        "on_host": list(foreseen.on_host),
        "launch": msgspec.to_builtins(foreseen.launch),
        "notes": list(foreseen.notes),
    }


def conclusion_view(run: Run, *, width: int, left: str | None = None) -> Any:
    """Verdicts first, then the levels they rest on, then every trial. left: how the host was left."""
    from rich.console import Group
    from rich.text import Text

    verdicts = run.analysis.verdicts if run.analysis else ()
    parts: list[Any] = [Text(line, style="bold") for line in arm_lines(run.plan)]
    for verdict in verdicts:
        parts += [Text(line) for line in verdict_lines(verdict, run.plan)]
        if verdict.by_level:
            parts.append(table(fitting(_level_columns(verdict, run), width)))
    parts.append(table(fitting(_outcome_columns(run), width)))
    parts += [Text(line, style="yellow") for line in failure_lines(run)]
    if left is not None:
        parts.append(Text(f"left: {left}"))
    parts += [Text(line) for line in attachment_lines(run)]
    return Group(*parts, Text(run.path))


def conclusion_document(run: Run, left: str | None = None) -> dict[str, Any]:
    """For ``--json``: the run as its files hold it."""
    return {**run_document(run), "left": left}


def arm_lines(plan: Plan) -> list[str]:
    """'A  pristine', 'B  oea (k0=4)'."""
    return [f"{arm.name}  {arm.described}" for arm in plan.arms]


def launch_lines(plan: Plan, foreseen: Foreseen) -> list[str]:
    """'launch: --max-running-requests 64 (A), 128 (B)': in what the servers are begun differently."""
    if not foreseen.launch:
        return ["all arms' servers are begun alike: same arguments, same environment"]
    return [
        f"launch: {one.name} "
        + ", ".join(
            f"{'not given' if value is None else value or 'given'} ({arm.name})"
            for arm, value in zip(plan.arms, one.values, strict=True)
        )
        for one in foreseen.launch
    ]


def verdict_lines(verdict: Verdict, plan: Plan) -> list[str]:
    """The verdict in one sentence, then what it rests on."""
    design = _design(plan)
    head = f"{verdict.arm} against {verdict.against}: {verdict.says}"
    effect = verdict.effect
    if effect is not None:
        head += f", {_ratio(effect)}"
    if verdict.says in ("improved", "regressed"):
        head += f"; {'material' if verdict.material else 'not material'} at a margin of {design.margin:.0%}"
    if verdict.says == "equivalent":
        head += f"; equivalent within {design.margin:.0%}"
    lines = [head]
    if effect is not None and verdict.levels:
        levels = ", ".join(str(level) for level in verdict.levels)
        pairs = "1 pair" if effect.pairs == 1 else f"{effect.pairs} pairs"
        lines.append(f"  the mean over levels {levels}, {pairs}, {design.analysis}")
    if verdict.smallest_effect is not None and verdict.trial_sd is not None:
        lines.append(
            f"  restarts varied by {verdict.trial_sd:.1%}: such a plan sees {verdict.smallest_effect:.1%} "
            "four times out of five"
        )
    elif effect is not None:
        lines.append("  no interval: fewer than two pairs, or figures that did not vary at all")
    return [*lines, *(f"  {reason}" for reason in verdict.reasons)]


def failure_lines(run: Run) -> list[str]:
    """One line a trial that was not measured, or not whole."""
    lines = []
    for trial in run.trials:
        if trial.failure is not None:
            lines.append(
                f"{trial.name} {trial.failure.kind}: {trial.failure.first_error or trial.failure.what}"
            )
        elif trial.outcome != "completed":
            lines.append(f"{trial.name} {trial.outcome}: {trial.outcome_reason or 'cut short'}")
        lines += [
            f"{trial.name}, level {point.point.concurrency} is void: {point.reasons[0]}"
            for point in trial.points
            if not point.valid and point.reasons and trial.failure is None
        ]
    left = [planned.name for planned in run.plan.trials if result_of(planned, run.trials) is None]
    if left:
        lines.append(f"not taken: {', '.join(left)}")
    return lines


def sees(design: Design, arms: int) -> list[str]:
    """The smallest effect that the plan shows four times out of five."""
    found = _smallest(design, arms)
    if design.known_sd is not None:
        seen = next(iter(found.values()))
        return [
            f"sees a difference of {_percent(seen)} four times out of five: restarts varied by "
            f"{design.known_sd:.1%} in past runs here"
        ]
    told = ", ".join(f"{_percent(effect)} if restarts vary by {sd}" for sd, effect in found.items())
    return [f"sees, four times out of five, {told}; how much they vary here is not known yet: oeactl aa"]


def _design(plan: Plan) -> Design:
    assert plan.design is not None
    return plan.design


def _smallest(design: Design, arms: int) -> dict[str, float | None]:
    alpha = design.alpha / max(1, arms - 1)
    spreads = (design.known_sd,) if design.known_sd is not None else _SPREADS
    return {
        f"{sd:.1%}": stats.smallest_effect(trial_sd=sd, pairs=design.pairs, alpha=alpha) for sd in spreads
    }


def _percent(effect: float | None) -> str:
    return "nothing" if effect is None else f"{effect:.1%}"


def _costs(plan: Plan, foreseen: Foreseen) -> Iterable[str]:
    restarts = len(plan.trials)
    if foreseen.trial_s is None:
        yield f"{restarts} restarts; what one takes here is not known yet (--trial-takes 12m tells it)"
        return
    total = duration(foreseen.trial_s * restarts)
    hours = _gpu_hours(plan, foreseen)
    gpus = f", {hours:.1f} GPU hours" if hours is not None else ""
    each = f"{duration(foreseen.trial_s)} each, {foreseen.trial_s_from}"
    yield f"{restarts} restarts, about {total}{gpus} ({each})"


def _gpu_hours(plan: Plan, foreseen: Foreseen) -> float | None:
    if foreseen.trial_s is None or not foreseen.gpus:
        return None
    return foreseen.trial_s * len(plan.trials) * foreseen.gpus / 3600


def _ways(design: Design) -> Iterable[str]:
    if design.budget_s is not None:
        yield f"{design.pairs} pairs: as many as fit into {duration(design.budget_s)}"
    looks = f", looks after pairs {', '.join(map(str, design.looks))}" if design.looks else ""
    yield (
        f"{design.analysis} analysis, alpha {design.alpha:g}{looks}, margin {design.margin:.0%}, "
        f"seed {design.seed}; the host is left {design.leave}"
    )


def duration(seconds: float) -> str:
    """'45 s', '12 min', '2 h 10 min'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _trial_columns(plan: Plan) -> tuple[Column, ...]:
    design = _design(plan)
    arms = {arm.name: arm for arm in plan.arms}
    trials = plan.trials

    def levels(pair: int | None) -> str:
        sweep = design.warm_sweep if pair is None else design.sweeps[pair - 1]
        return ",".join(str(point.concurrency) for point in sweep.points) if sweep else _DASH

    return (
        Column(head="trial", cells=tuple(t.name for t in trials), left=True),
        Column(head="pair", cells=tuple("warms up" if t.pair is None else str(t.pair) for t in trials)),
        Column(head="levels in order", cells=tuple(levels(t.pair) for t in trials), keep=1, left=True),
        Column(head="build", cells=tuple(arms[t.arm].described for t in trials), keep=2, left=True),
    )


def _level_columns(verdict: Verdict, run: Run) -> tuple[Column, ...]:
    levels = verdict.by_level
    return (
        Column(head="level", cells=tuple(str(level.concurrency) for level in levels)),
        *(
            Column(head=f"{arm}\ntok/s", cells=tuple(_rate(run, level, arm) for level in levels), keep=2)
            for arm in (verdict.against, verdict.arm)
        ),
        Column(
            head="ratio", cells=tuple(_DASH if x.effect is None else f"{x.effect.ratio:.3f}" for x in levels)
        ),
        Column(head=f"interval\n{_confidence(levels)}", cells=tuple(map(_interval, levels)), keep=1),
        Column(
            head="p\nHolm",
            cells=tuple(_DASH if x.p_adjusted is None else f"{x.p_adjusted:.3f}" for x in levels),
            keep=3,
        ),
        Column(head="shown", cells=tuple("yes" if level.shown else "no" for level in levels), left=True),
        *(
            Column(head=f"{arm}\nexperts", cells=tuple(_experts(run, x, arm) for x in levels), keep=4)
            for arm in (verdict.against, verdict.arm)
            if _design(run.plan).experts
        ),
    )


def _experts(run: Run, level: LevelEffect, arm: str) -> str:
    """Distinct experts a layer and step, the mean over the arm's trials that could see them."""
    seen = [
        point.experts.distinct_mean
        for trial in run.trials
        for point in trial.points
        if trial.arm == arm and point.point.concurrency == level.concurrency and point.experts is not None
        if point.experts.distinct_mean is not None
    ]
    return f"{sum(seen) / len(seen):.1f}" if seen else _DASH


def _rate(run: Run, level: LevelEffect, arm: str) -> str:
    found = _at(run, level, arm)
    rate = found.output_tokens_per_s if found else None
    return _DASH if rate is None else f"{rate:,.1f}"


def _at(run: Run, level: LevelEffect, arm: str) -> ArmAtLevel | None:
    wanted = (level.concurrency, level.input_len, level.output_len)
    for summary in run.analysis.levels if run.analysis else ():
        if (summary.concurrency, summary.input_len, summary.output_len) == wanted:
            return next((one for one in summary.arms if one.arm == arm), None)
    return None


def _confidence(levels: Sequence[LevelEffect]) -> str:
    effects = [level.effect for level in levels if level.effect is not None]
    return f"{effects[0].confidence:.1%}" if effects else ""


def _interval(level: LevelEffect) -> str:
    effect = level.effect
    if effect is None or effect.low is None or effect.high is None:
        return _DASH
    return f"{effect.low:.3f} … {effect.high:.3f}"


def _ratio(effect: Effect) -> str:
    told = f"{effect.ratio:.3f} times the tok/s"
    if effect.low is None or effect.high is None:
        return told
    return f"{told} ({effect.low:.3f} to {effect.high:.3f} at {effect.confidence:.1%})"


def _outcome_columns(run: Run) -> tuple[Column, ...]:
    trials = run.trials
    return (
        Column(head="trial", cells=tuple(trial.name for trial in trials), left=True),
        Column(head="pair", cells=tuple("warm-up" if t.pair is None else str(t.pair) for t in trials)),
        Column(
            head="ready\ns",
            cells=tuple(_DASH if t.ready_s is None else f"{t.ready_s:.1f}" for t in trials),
            keep=2,
        ),
        *(
            Column(
                head=f"{point.concurrency}\ntok/s",
                cells=tuple(_cell(trial, point.concurrency) for trial in trials),
                keep=1,
            )
            for point in run.plan.sweep.points
        ),
        Column(head="ended", cells=tuple(_ended(trial) for trial in trials), left=True),
    )


def _cell(trial: Trial, level: int) -> str:
    for point in trial.points:
        if point.point.concurrency == level and point.measurement is not None:
            return f"{point.measurement.output_tokens_per_s:,.1f}" if point.valid else "void"
    return _DASH


def _ended(trial: Trial) -> str:
    return trial.failure.kind if trial.failure is not None else trial.outcome.replace("_", " ")
