"""A comparison as a Markdown text for a pull request, in the order in which an engine's reviewers ask: what
it changes, accuracy, speed, the exact commands, what it ran on.

Owns: its headings and tables. Refuses: an accuracy that nobody measured, and a verdict of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from oeactl.core.run import Plan, Run, Trial
from oeactl.core.series import (
    counted,
    distinct_experts,
    figure_of,
    level_name,
    levels,
    mean,
    output_rate,
    unseen_because,
)
from oeactl.render.commands import client_commands, launch_command, no_command, own_command
from oeactl.render.experiment import arm_lines, failure_lines, verdict_lines
from oeactl.render.figures import effect_text, uniform_experts
from oeactl.render.markdown import code, folded, table
from oeactl.render.meaning import meanings
from oeactl.render.page_tables import LATENCIES, number

#: GitHub takes 65,536 characters; the tables need some of them.
_DIFF_AT_MOST = 40_000


def pr_report(run: Run) -> str:
    """The whole text. The run must be a comparison."""
    assert run.plan.design is not None
    parts = [
        _head(run),
        _modifications(run),
        _accuracy(run),
        _speed(run),
        _commands(run),
        ground(run),
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
        yield ""
        yield from (f"- {line.strip()}" for line in rest)


def _title(run: Run) -> str:
    said = [f"{verdict.arm} {verdict.says}" for verdict in run.analysis.verdicts] if run.analysis else []
    return ", ".join(said) or "no verdict"


def _modifications(run: Run) -> Iterator[str]:
    """What the arms change, in words and as a difference."""
    yield "### Modifications"
    yield ""
    told = [f"**{words}**" if warning else words for warning, words in meanings(run)]
    for words in told:
        yield from (words, "")
    for change in run.changes:
        for recipe in change.recipes:
            link = f" ({recipe.url})" if recipe.url else ""
            summary = f": {recipe.summary}" if recipe.summary else ""
            yield from (f"{recipe.title}{summary}{link}", "")
        for file in change.files:
            was, now = file.before_sha256[:12] or "no file", file.after_sha256[:12] or "no file"
            yield f"- {change.arm}: `{file.path}`, sha256 {was}… to {now}…"
        if 0 < len(change.diff) <= _DIFF_AT_MOST:
            yield ""
            yield from folded(f"The difference of {change.arm}", code(change.diff, "diff"))
        elif change.diff:
            yield from ("", f"The difference is too long for here: `changes/{change.arm}.json` of the run.")
        yield ""
    added = [arm for arm in run.plan.arms if arm.args or arm.env]
    yield from (f"- {arm.name} changes the launch: {arm.described}" for arm in added)
    if not told and not added:
        yield "None: every trial ran the engine as it was."


def _accuracy(run: Run) -> Iterator[str]:
    """What was attached to the run; nothing is claimed of what was not."""
    yield "### Accuracy Tests"
    yield ""
    rows = []
    for attached in run.attachments:
        for one in attached.metrics:
            error = "" if one.stderr is None else f"{one.stderr:.4f}"
            samples = "" if one.samples is None else f"{one.samples}"
            rows.append((attached.tool, one.task, one.metric, f"{one.value:.4f}", error, samples))
    if rows:
        yield from table(("tool", "task", "metric", "value", "standard error", "samples"), rows, left=3)
    said = [f"- {attached.tool}: {attached.said}" for attached in run.attachments if attached.said]
    yield from said
    if not rows and not said:
        yield "Not measured in this run (`oeactl results attach` keeps an evaluation beside it)."


def _speed(run: Run) -> Iterator[str]:
    yield "### Speed Tests and Profiling"
    yield ""
    for verdict in run.analysis.verdicts if run.analysis else ():
        rows = []
        for level in verdict.by_level:
            point = next(one for one in levels(run) if one.concurrency == level.concurrency)
            rows.append(
                (
                    f"{level.concurrency}",
                    f"{level.input_len}/{level.output_len}",
                    number(mean(run, verdict.against, point, output_rate)),
                    number(mean(run, verdict.arm, point, output_rate)),
                    effect_text(level.effect) if level.effect else "",
                    "yes" if level.shown else "no",
                )
            )
        sides = (f"{verdict.against} tok/s", f"{verdict.arm} tok/s")
        heads = ("concurrency", "tokens in/out", *sides, "ratio (interval)", "shown (Holm)")
        yield from table(heads, rows)
        yield ""
    yield "Latency in milliseconds, means over restarts:"
    yield ""
    yield from latency_table(run)
    yield ""
    yield from _experts(run)
    names = [f"{level_name(level)} tok/s" for level in levels(run)]
    every = table(("restart", "pair", *names, "ended"), [_trial_row(run, trial) for trial in run.trials])
    yield from folded("Every restart", every)


def latency_table(run: Run) -> Iterator[str]:
    rows = [
        (
            level_name(level),
            arm.name,
            *(number(mean(run, arm.name, level, figure), places) for _, figure, places in LATENCIES),
        )
        for level in levels(run)
        for arm in run.plan.arms
    ]
    return table(("concurrency", "arm", *(head for head, _, _ in LATENCIES)), rows, left=2)


def _experts(run: Run) -> Iterator[str]:
    """What was seen of the routing, or why it was not; nothing where nobody looked."""
    arms, blind = [arm.name for arm in run.plan.arms], unseen_because(run)
    if any(mean(run, arm, level, distinct_experts) is not None for arm in arms for level in levels(run)):
        yield "Distinct experts a layer and decode step, seen on the live server in a batch of that size:"
        yield ""
        rows = [
            (
                level_name(level),
                *(number(mean(run, arm, level, distinct_experts)) for arm in arms),
                number(uniform_experts(run, level)),
            )
            for level in levels(run)
        ]
        yield from table(("concurrency", *arms, "if routed uniformly"), rows)
        yield ""
    elif blind:
        yield from (f"Distinct experts were not measured: {'; '.join(blind)}.", "")


def _trial_row(run: Run, trial: Trial) -> tuple[str, ...]:
    return (
        trial.name,
        "warm-up" if trial.pair is None else str(trial.pair),
        *(number(figure_of(trial, level, output_rate)) for level in levels(run)),
        trial.failure.kind if trial.failure else trial.outcome,
    )


def _commands(run: Run) -> Iterator[str]:
    yield "### Commands"
    yield ""
    own = own_command(run)
    if own is not None:
        yield from code(own, "bash")
    else:
        yield no_command(run)
    yield ""
    yield _beforehand(run.plan)
    for arm in run.plan.arms:
        launch = launch_command(run, arm.name)
        if launch:
            yield from ("", f"{arm.name}'s server:", "")
            yield from code(launch, "bash")
    clients = client_commands(run)
    if clients:
        yield ""
        yield from folded("The load, level by level", code("\n".join(line for _, line in clients), "bash"))


def _beforehand(plan: Plan) -> str:
    design = plan.design
    assert design is not None
    looks = f", looks after pairs {', '.join(map(str, design.looks))}" if design.looks else ""
    return (
        f"Fixed beforehand: {design.pairs} pairs of restarts, {design.analysis} analysis, "
        f"alpha {design.alpha:g}{looks}, margin {design.margin:.0%}, seed {design.seed}."
    )


def ground(run: Run) -> Iterator[str]:
    """What it was measured on."""
    measured = [trial for trial in counted(run) if trial.points]
    if not measured:
        return
    trial = measured[0]
    gpus = sorted({gpu.get("name", "GPU") for gpu in trial.host.gpus})
    drivers = sorted({gpu["driver_version"] for gpu in trial.host.gpus if "driver_version" in gpu})
    commit = f", commit {trial.engine.git_commit}" if trial.engine.git_commit else ""
    rows = [
        ("engine", f"{trial.engine.package} {trial.engine.version or 'of unknown version'}{commit}"),
        ("model", trial.model.path or trial.model.served_name or "unknown"),
        ("revision", trial.model.revision or "unpinned"),
        ("quantization", trial.model.quantization or "none said"),
        ("GPUs", f"{len(trial.host.gpus)} x {', '.join(gpus)}" if gpus else "none"),
        *([("GPU driver", ", ".join(drivers))] if drivers else []),
        ("load client", f"{trial.driver.name} {trial.driver.version or ''}".strip()),
        ("host", f"{trial.host.cpus or '?'} CPUs, Linux {trial.host.kernel or 'unknown'}"),
    ]
    yield "### Measured on"
    yield ""
    yield from table(("what", "is"), rows, left=2)


def _not_measured(run: Run) -> Iterator[str]:
    lines = failure_lines(run)
    if lines:
        yield "### Not measured"
        yield ""
        yield from (f"- {line}" for line in lines)
