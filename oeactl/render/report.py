"""A comparison as a Markdown text for a pull request: verdict, speed, accuracy, how to make it again.

Owns: its headings and tables. Refuses: an accuracy that nobody measured, and a verdict of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oeactl.core.load import make_point
from oeactl.core.run import Plan, Run, Trial
from oeactl.render.experiment import arm_lines, failure_lines, verdict_lines


def pr_report(run: Run) -> str:
    """The whole text. The run must be a comparison."""
    assert run.plan.design is not None
    parts = [
        _head(run),
        _speed(run),
        _accuracy(run),
        _commands(run.plan),
        _ground(run),
        _not_measured(run),
    ]
    return "\n".join(line for part in parts for line in (*part, "")).rstrip() + "\n"


def _head(run: Run) -> Iterator[str]:
    yield f"## {run.plan.label}: {_title(run)}"
    yield ""
    yield from (f"- **{line[0]}**{line[1:]}" for line in arm_lines(run.plan))
    yield ""
    for verdict in run.analysis.verdicts if run.analysis else ():
        first, *rest = verdict_lines(verdict, run.plan)
        yield f"**{first}**"
        yield from (f"- {line.strip()}" for line in rest)
    changing = sorted({recipe.recipe for arm in run.plan.arms for recipe in arm.recipes})
    if changing:
        yield ""
        yield (
            f"The engine's source is changed by {', '.join(changing)}. Speed is all that this run measured: "
            "whether the answers stay as good is another question (below)."
        )


def _title(run: Run) -> str:
    said = [f"{verdict.arm} {verdict.says}" for verdict in run.analysis.verdicts] if run.analysis else []
    return ", ".join(said) or "no verdict"


def _speed(run: Run) -> Iterator[str]:
    yield "### Speed"
    yield ""
    for verdict in run.analysis.verdicts if run.analysis else ():
        rows = []
        for level in verdict.by_level:
            effect = level.effect
            interval = (
                "" if effect is None or effect.low is None else f"{effect.low:.3f} to {effect.high:.3f}"
            )
            rows.append(
                (
                    f"{level.concurrency}",
                    f"{level.input_len}/{level.output_len}",
                    _mean(run, level.concurrency, verdict.against),
                    _mean(run, level.concurrency, verdict.arm),
                    f"{effect.ratio:.3f}" if effect else "",
                    interval,
                    "yes" if level.shown else "no",
                )
            )
        heads = (
            "concurrency",
            "tokens in/out",
            f"{verdict.against} tok/s",
            f"{verdict.arm} tok/s",
            "ratio",
            "interval",
            "shown (Holm)",
        )
        yield from _table(heads, rows)
        yield ""
    columns = ("restart", "pair", *(f"{p.concurrency} tok/s" for p in run.plan.sweep.points), "ended")
    yield from _table(columns, [_trial_row(run.plan, trial) for trial in run.trials])


def _trial_row(plan: Plan, trial: Trial) -> tuple[str, ...]:
    rates = {
        point.point.concurrency: (
            f"{point.measurement.output_tokens_per_s:,.1f}" if point.measurement and point.valid else "void"
        )
        for point in trial.points
    }
    return (
        trial.name,
        "warm-up" if trial.pair is None else str(trial.pair),
        *(rates.get(point.concurrency, "") for point in plan.sweep.points),
        trial.failure.kind if trial.failure else trial.outcome,
    )


def _mean(run: Run, level: int, arm: str) -> str:
    for summary in run.analysis.levels if run.analysis else ():
        if summary.concurrency == level:
            for one in summary.arms:
                if one.arm == arm and one.output_tokens_per_s is not None:
                    return f"{one.output_tokens_per_s:,.1f}"
    return ""


def _accuracy(run: Run) -> Iterator[str]:
    """What was attached to the run; nothing is claimed of what was not."""
    yield "### Accuracy"
    yield ""
    rows = []
    for attached in run.attachments:
        for one in attached.metrics:
            error = "" if one.stderr is None else f"{one.stderr:.4f}"
            samples = "" if one.samples is None else f"{one.samples}"
            rows.append((attached.tool, one.task, one.metric, f"{one.value:.4f}", error, samples))
    if rows:
        yield from _table(("tool", "task", "metric", "value", "standard error", "samples"), rows)
    said = [f"- {attached.tool}: {attached.said}" for attached in run.attachments if attached.said]
    yield from said
    if not rows and not said:
        yield "Not measured in this run (`oeactl results attach` keeps an evaluation beside it)."


def _commands(plan: Plan) -> Iterator[str]:
    design = plan.design
    assert design is not None
    yield "### Commands"
    yield ""
    yield "```"
    yield command_line(plan)
    yield "```"
    looks = f", looks after pairs {', '.join(map(str, design.looks))}" if design.looks else ""
    yield ""
    yield (
        f"Fixed beforehand: {design.pairs} pairs of restarts, {design.analysis} analysis, "
        f"alpha {design.alpha:g}{looks}, margin {design.margin:.0%}, seed {design.seed}."
    )


def command_line(plan: Plan) -> str:
    """The command that makes this run again, as far as one does (``scan`` names its arms one by one)."""
    design = plan.design
    assert design is not None
    words = ["oeactl", plan.what, "--host", plan.host]
    if plan.what == "ab":
        for recipe in plan.arms[-1].recipes:
            words += ["--recipe", recipe.recipe]
            words += [
                word
                for key, value in sorted(recipe.parameters.items())
                for word in ("--set", f"{key}={value}")
            ]
    first = plan.sweep.points[0]
    levels = ",".join(str(point.concurrency) for point in plan.sweep.points)
    words += ["--pairs", f"3..{design.pairs}" if design.looks else str(design.pairs)]
    words += [
        "--concurrency",
        levels,
        "--input-len",
        str(first.input_len),
        "--output-len",
        str(first.output_len),
    ]
    usual = make_point(first.concurrency, input_len=1, output_len=1, seed=0).requests
    words += [] if first.requests == usual else ["--requests", str(first.requests)]
    words += ["--seed", str(design.seed), "--margin", f"{design.margin:g}"]
    words += ["--analysis", "regression"] if design.analysis == "regression" else []
    words += ["--driver", plan.driver, "--dataset", plan.sweep.dataset] if plan.driver == "light" else []
    words += ["--api", design.api] if design.api else []
    words += [] if design.warm_sweep else ["--no-warm"]
    return " ".join(words)


def _ground(run: Run) -> Iterator[str]:
    measured = [trial for trial in run.trials if trial.points]
    if not measured:
        return
    trial = measured[0]
    gpus = sorted({gpu.get("name", "GPU") for gpu in trial.host.gpus})
    yield "### Measured on"
    yield ""
    yield from _table(
        ("what", "is"),
        [
            ("engine", f"{trial.engine.package} {trial.engine.version or 'of unknown version'}"),
            ("model", trial.model.path or trial.model.served_name or "unknown"),
            ("revision", trial.model.revision or "unpinned"),
            ("GPUs", f"{len(trial.host.gpus)} x {', '.join(gpus)}" if gpus else "none"),
            ("load client", f"{trial.driver.name} {trial.driver.version or ''}".strip()),
            ("host", f"{trial.host.cpus} CPUs, Linux {trial.host.kernel}"),
        ],
    )


def _not_measured(run: Run) -> Iterator[str]:
    lines = failure_lines(run)
    if lines:
        yield "### Not measured"
        yield ""
        yield from (f"- {line}" for line in lines)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
