"""The numbers behind a report's figures, and its other tables, as HTML.

Owns: columns and their order. Refuses: a number that was not measured: such a cell is a dash.
"""

from __future__ import annotations

from collections import Counter

from oeactl.core.load import Distribution, Measurement
from oeactl.core.metrics import Spread
from oeactl.core.run import PointRecord, Run
from oeactl.core.series import (
    Figure,
    at_level,
    card_spread,
    counted,
    distinct_experts,
    figure_of,
    level_label,
    level_name,
    levels,
    mean,
    mean_tpot_ms,
    output_rate,
    relative,
)
from oeactl.render.figures import CARDS, rate_by_gpu, uniform_experts
from oeactl.render.markup import Child, Markup, el, joined, table

DASH = "-"


def number(value: float | None, places: int = 1) -> str:
    return DASH if value is None else f"{value:,.{places}f}"


def ratios(run: Run) -> Markup:
    made = []
    for verdict in run.analysis.verdicts if run.analysis else ():
        rows: list[list[Child]] = []
        for level in verdict.by_level:
            effect = level.effect
            point = next(p for p in levels(run) if p.concurrency == level.concurrency)
            interval = DASH
            if effect is not None and effect.low is not None and effect.high is not None:
                interval = f"{effect.low:.4f} to {effect.high:.4f}"
            rows.append(
                [
                    f"{level.concurrency}",
                    f"{level.input_len}/{level.output_len}",
                    number(mean(run, verdict.against, point, output_rate)),
                    number(mean(run, verdict.arm, point, output_rate)),
                    number(effect.ratio if effect else None, 4),
                    interval,
                    number(level.p_adjusted, 4),
                    "yes" if level.shown else "no",
                ]
            )
        against, arm = verdict.against, verdict.arm
        confidence = next((f"{one.effect.confidence:.2%}" for one in verdict.by_level if one.effect), "")
        heads = (
            "level",
            "tokens\nin/out",
            f"{against}\ntok/s",
            f"{arm}\ntok/s",
            "ratio",
            f"interval\n{confidence}",
        )
        made.append(table((*heads, "p\n(Holm)", "shown"), rows))
    return joined(made)


def rates(run: Run) -> Markup:
    """Every trial, every level."""
    shown = levels(run)
    rows = []
    for trial in counted(run):
        cells: list[Child] = [trial.name, trial.arm]
        for level in shown:
            found = at_level(trial, level)
            rate = figure_of(trial, level, output_rate)
            cells.append("void" if found is not None and not found.valid else number(rate))
        rows.append(cells)
    return table(
        ("trial", "arm", *(f"{level_label(run, level)}\ntok/s" for level in shown)), rows, left=(0, 1)
    )


def pairs(run: Run) -> Markup:
    """The ratio of each pair at each level, and over those that both arms have."""
    names = [arm.name for arm in run.plan.arms]
    rows: list[list[Child]] = []
    for pair in sorted({trial.pair for trial in counted(run) if trial.pair}):
        here = {trial.arm: trial for trial in counted(run) if trial.pair == pair}
        for name in names[1:]:
            cells: list[Child] = [f"{pair}", f"{name} / {names[0]}"]
            for level in levels(run):
                sides = [
                    figure_of(here[one], level, output_rate) if one in here else None
                    for one in (name, names[0])
                ]
                other, base = sides
                cells.append(number(other / base if other and base else None, 4))
            rows.append(cells)
    return table(("pair", "ratio", *(level_label(run, level) for level in levels(run))), rows, left=(0, 1))


def trials(run: Run) -> Markup:
    """Every start in the order taken, warm-ups too; of the cards mean, least and most."""
    rows: list[list[Child]] = []
    cards = [
        (name, unit)
        for name, unit in CARDS
        if any(card_spread(trial, name) is not None for trial in run.trials)
    ]
    for trial in run.trials:
        rows.append(
            [
                trial.name,
                "warm-up" if trial.pair is None else f"{trial.pair}",
                f"{trial.started_at:%Y-%m-%d %H:%M:%S}",
                trial.failure.kind if trial.failure else trial.outcome.replace("_", " "),
                number(trial.ready_s),
                number(relative(run, trial), 4) if trial.pair is not None else DASH,
                *(_spread(card_spread(trial, name)) for name, _ in cards),
            ]
        )
    told = (unit.replace(", ", "\n") for _, unit in cards)
    first = run.plan.arms[0].name
    heads = ("trial", "pair", "began (UTC)", "ended", "ready\ns", f"over {first}'s\nmean", *told)
    dim = [at for at, trial in enumerate(run.trials) if trial.pair is None]
    return table(heads, rows, left=(0, 1, 2, 3), dim=dim)


def _spread(found: Spread | None) -> str:
    return DASH if found is None else f"{found.mean:,.0f} ({found.min:,.0f} to {found.max:,.0f})"


def tradeoffs(run: Run) -> Markup:
    rate, unit = rate_by_gpu(run)
    return _by_arm(run, ((unit, rate, 1), ("TPOT ms", mean_tpot_ms, 2)))


def experts(run: Run) -> Markup:
    rows = [
        [
            level_label(run, level),
            *(number(mean(run, arm.name, level, distinct_experts)) for arm in run.plan.arms),
            number(uniform_experts(run, level)),
        ]
        for level in levels(run)
    ]
    return table(("level", *(arm.name for arm in run.plan.arms), "if uniform"), rows)


def latency(run: Run) -> Markup:
    """Means over restarts of what each level's requests saw."""
    if not any(p.valid and p.measurement for trial in counted(run) for p in trial.points):
        return Markup("")
    note = el(
        "p", "Milliseconds; means over restarts of each level's own mean and percentile.", class_="soft"
    )
    return joined([note, _by_arm(run, LATENCIES)])


def _of(name: str, part: str) -> Figure:
    def figure(_: PointRecord, measured: Measurement) -> float | None:
        found: Distribution | None = getattr(measured, name)
        value: float | None = getattr(found, part) if found is not None else None
        return value

    return figure


LATENCIES: tuple[tuple[str, Figure, int], ...] = (
    ("TTFT\nmean", _of("ttft_ms", "mean"), 1),
    ("TTFT\np99", _of("ttft_ms", "p99"), 1),
    ("TPOT\nmean", _of("tpot_ms", "mean"), 2),
    ("TPOT\np99", _of("tpot_ms", "p99"), 2),
    ("ITL\np99", _of("itl_ms", "p99"), 2),
    ("E2E\nmean", _of("e2e_ms", "mean"), 0),
)


def _by_arm(run: Run, columns: tuple[tuple[str, Figure, int], ...]) -> Markup:
    rows: list[list[Child]] = []
    for level in levels(run):
        for at, arm in enumerate(run.plan.arms):
            rows.append(
                [
                    level_label(run, level) if at == 0 else "",
                    arm.name,
                    *(number(mean(run, arm.name, level, figure), places) for _, figure, places in columns),
                ]
            )
    return table(("level", "arm", *(head for head, _, _ in columns)), rows, left=(0, 1))


def accuracy(run: Run) -> Markup:
    """What was attached; nothing is claimed of what was not."""
    rows: list[list[Child]] = [
        [
            attached.tool,
            one.task,
            one.metric,
            number(one.value, 4),
            number(one.stderr, 4),
            f"{one.samples or DASH}",
        ]
        for attached in run.attachments
        for one in attached.metrics
    ]
    said = [el("p", f"{one.tool}: {one.said}") for one in run.attachments if one.said]
    if not rows and not said:
        return el(
            "p",
            "Not measured in this run. ",
            el("code", "oeactl quality"),
            " compares the answers of two builds; ",
            el("code", "oeactl results attach"),
            " keeps an evaluation beside the run.",
            class_="soft",
        )
    heads = ("tool", "task", "metric", "value", "standard error", "samples")
    return joined([said, table(heads, rows, left=(0, 1, 2)) if rows else None])


def gates(run: Run) -> Markup:
    """Every gate over every measured level: how often it passed, and what it said where it did not."""
    counts: dict[str, Counter[str]] = {}
    said: dict[str, dict[str, None]] = {}
    for trial in counted(run):
        for point in trial.points:
            for gate in point.gates:
                counts.setdefault(gate.name, Counter())[gate.outcome] += 1
                if gate.reason and (gate.outcome != "pass" or gate.warning):
                    where = f"{trial.name}, {level_name(point.point)}: " if gate.outcome == "fail" else ""
                    said.setdefault(gate.name, {})[f"{where}{gate.reason}"] = None
    if not counts:
        return Markup("")
    rows: list[list[Child]] = [
        [
            name.replace("_", " "),
            el("span", f"{count['pass']}", class_="pass" if count["pass"] else None),
            el("span", f"{count['fail']}", class_="fail" if count["fail"] else None),
            f"{count['not_measured']}",
            el("span", "; ".join(list(said.get(name, {}))[:3]), class_="soft"),
        ]
        for name, count in counts.items()
    ]
    note = el(
        "p",
        "A level counts only where no gate failed. What nobody could see is not measured, never passed.",
        class_="soft",
    )
    heads = ("gate", "passed", "failed", "not\nmeasured", "said")
    return joined([note, table(heads, rows, left=(0, 4), wraps=(4,))])
