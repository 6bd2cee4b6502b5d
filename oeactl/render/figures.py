"""The figures of a report, as SVG of a given width: drawn for a wide page and again for a narrow one.

Owns: what each shows and where. Refuses: colours (the page's style has them), a void level, and a figure of
what was not measured: it is None then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from oeactl.core.experiment import Effect, Verdict
from oeactl.core.experts import expected_distinct
from oeactl.core.load import Point
from oeactl.core.run import Run, Trial
from oeactl.core.series import (
    Figure,
    Line,
    card_spread,
    counted,
    distinct_experts,
    figure_of,
    figures,
    level_name,
    levels,
    lines,
    mean,
    mean_tpot_ms,
    output_rate,
    per_gpu_rate,
    relative,
)
from oeactl.render.axes import (
    Scale,
    around,
    columns_of,
    cross,
    from_zero,
    line,
    mark,
    reach,
    rows_of,
    svg,
    text,
)
from oeactl.render.markup import Markup, el

NARROW = 500.0


def ratio_figure(run: Run, width: float) -> Markup | None:
    """Ratio by level with its interval, the mean over levels first, the margin as a band."""
    design = run.plan.design
    verdicts = [one for one in run.analysis.verdicts if one.effect] if run.analysis else []
    if design is None or not verdicts:
        return None
    narrow = width < NARROW
    left, right = (14.0, width - 14) if narrow else (150.0, width - 190)
    step, top = (44.0, 8.0) if narrow else (30.0, 8.0)
    rows = [row for verdict in verdicts for row in _ratio_rows(run, verdict, len(verdicts) > 1)]
    low, high = 1 / (1 + design.margin), 1 + design.margin
    ends = [end for row in rows for end in (row[1].low, row[1].high) if end is not None]
    scale = Scale(*around(reach([low, high, *(row[1].ratio for row in rows)], ends), pad=0.05), left, right)
    bottom = top + step * len(rows)
    made = [
        el("rect", x=scale(low), y=top, width=scale(high) - scale(low), height=bottom - top, class_="margin"),
        *columns_of(scale, top, bottom, count=4 if narrow else 6, label=lambda value: f"{value:.3g}"),
        line(scale(1), top, scale(1), bottom, "one"),
    ]
    for at, (name, effect, series, shown, whole) in enumerate(rows):
        y = top + step * (at + 0.5) + (8 if narrow else 0)
        told = effect_text(effect)
        strong = "lab strong" if whole else "lab"
        made += (
            [text(left, y - 14, f"{name}: {told}", anchor="start", class_=strong)]
            if narrow
            else [
                text(left - 12, y + 4, name, anchor="end", class_=strong),
                text(right + 12, y + 4, told, anchor="start", class_=strong),
            ]
        )
        made += _interval(scale, effect, y, series, hollow=not shown, r=6.5 if whole else 4.5, title=told)
    made.append(text((left + right) / 2, bottom + 34, f"times the output tok/s of {run.plan.arms[0].name}"))
    return svg(width, bottom + 42, "Ratio of output tokens a second, by level", made)


Row = tuple[str, Effect, int, bool, bool]


def _ratio_rows(run: Run, verdict: Verdict, several: bool) -> list[Row]:
    """(name, effect, series, whether it is shown, whether it is the mean)."""
    series = [arm.name for arm in run.plan.arms].index(verdict.arm)
    who = f"{verdict.arm}, " if several else ""
    assert verdict.effect is not None
    shown = verdict.says in ("improved", "regressed")
    whole = len(verdict.levels) == len(run.plan.sweep.points)
    over = "all levels" if whole else f"levels {', '.join(map(str, sorted(verdict.levels)))}"
    rows: list[Row] = [(f"{who}{over}", verdict.effect, series, shown, True)]
    for level in sorted(verdict.by_level, key=lambda one: one.concurrency):
        if level.effect is not None:
            rows.append((f"{who}{level.concurrency} in flight", level.effect, series, level.shown, False))
    return rows


def effect_text(effect: Effect) -> str:
    """'1.199 (1.188 to 1.211)'."""
    if effect.low is None or effect.high is None:
        return f"{effect.ratio:.3f} (no interval)"
    return f"{effect.ratio:.3f} ({effect.low:.3f} to {effect.high:.3f})"


def _interval(
    scale: Scale, effect: Effect, y: float, series: int, *, hollow: bool, r: float, title: str
) -> list[Markup]:
    """An end beyond the axis is an arrow."""
    made = []
    if effect.low is not None and effect.high is not None:
        class_ = f"whisker s{series % 8}"
        low, high = (scale(min(max(end, scale.low), scale.high)) for end in (effect.low, effect.high))
        made.append(line(low, y, high, y, class_))
        for x, back in ((low, 7 * (effect.low < scale.low)), (high, -7 * (effect.high > scale.high))):
            made += [line(x + back, y + side, x, y, class_) for side in (-4, 4)]
    return [*made, mark(scale(effect.ratio), y, series, r=r, hollow=hollow, title=title)]


def throughput_figure(run: Run, width: float) -> Markup | None:
    """Output tok/s by level, every restart a mark, from 0; lines join the means."""
    return _by_level(
        run, width, output_rate, "Output tokens a second by level, every restart a mark", "tok/s"
    )


def _by_level(
    run: Run,
    width: float,
    figure: Figure,
    label: str,
    unit: str,
    dashed: Callable[[Run, Point], float | None] = lambda run, level: None,
) -> Markup | None:
    """A figure over the levels, from 0, a line an arm or context. dashed: what it is set against."""
    drawn = lines(run)
    found = [(one, level, figures(run, one.arm, level, figure)) for one in drawn for level in one.levels]
    shown = [level for _, level, rows in found if rows]
    shown.sort(key=lambda level: (level.rate or 0.0, level.concurrency))
    names = list(dict.fromkeys(map(level_name, shown)))
    if not names:
        return None
    left, right, top, bottom = 56.0, width - 12, 10.0, 250.0
    against = [(level, value) for _, level, _ in found if (value := dashed(run, level)) is not None]
    values = [value for *_, rows in found for _, value in rows] + [value for _, value in against]
    y = Scale(*from_zero(values), bottom, top)
    places = dict(zip(names, _places(len(names), left, right), strict=True))
    step = min(14.0, (right - left) / len(names) / (len(drawn) + 1))
    under = {places[level_name(one)]: y(value) for one, value in against if level_name(one) in places}
    made = [polyline(sorted(under.items()), None)] if under else []
    for at, one in enumerate(drawn):
        shift = (at - (len(drawn) - 1) / 2) * step
        means = [(level, mean(run, one.arm, level, figure)) for level in one.levels]
        path = [(places[level_name(level)] + shift, y(value)) for level, value in means if value is not None]
        made.append(polyline(path, at))
        for level in one.levels:
            for trial, value in figures(run, one.arm, level, figure):
                title = f"{trial.name}: {value:,.1f} {unit}"
                made.append(mark(places[level_name(level)] + shift, y(value), at, r=3.6, title=title))
    rate = any(level.rate is not None for _, level, _ in found)
    ground = [*rows_of(y, left, right), *(text(x, bottom + 16, name) for name, x in places.items())]
    ground.append(
        text((left + right) / 2, bottom + 36, "arrivals a second" if rate else "requests in flight")
    )
    return svg(width, bottom + 44, label, ground, made)


def restarts_figure(run: Run, width: float) -> Markup | None:
    """One panel a level, close up: every restart a mark, thin lines join the two of a pair."""
    names = [arm.name for arm in run.plan.arms]
    shown = [
        level for level in levels(run) if sum(len(figures(run, n, level, output_rate)) for n in names) > 1
    ]
    if run.plan.design is None or not shown:
        return None
    across = min(len(shown), 2 if width < NARROW else 4)
    each, tall = (width - 8.0) / across, 190.0
    made = []
    for at, level in enumerate(shown):
        panel = _panel(run, level, names, each)
        made.append(
            el("g", panel, transform=f"translate({4 + each * (at % across):.1f},{tall * (at // across):.1f})")
        )
    return svg(width, tall * ((len(shown) - 1) // across + 1), "Every restart, level by level", made)


def _panel(run: Run, level: Point, names: Sequence[str], width: float) -> list[Markup]:
    left, right, top, bottom = 44.0, width - 10, 26.0, 156.0
    found = {name: figures(run, name, level, output_rate) for name in names}
    y = Scale(*around([value for rows in found.values() for _, value in rows]), bottom, top)
    places = dict(zip(names, _places(len(names), left, right), strict=True))
    made = [
        text(left, 14, f"{level_name(level)} in flight", anchor="start", class_="lab strong"),
        *rows_of(y, left, right, count=4),
        *(text(x, bottom + 16, name) for name, x in places.items()),
    ]
    for pair in sorted({trial.pair for rows in found.values() for trial, _ in rows if trial.pair}):
        ends = [
            (places[name], y(value)) for name in names for trial, value in found[name] if trial.pair == pair
        ]
        made += [line(*one, *other, "pair") for one, other in pairwise(ends)]
    for at, name in enumerate(names):
        made += [
            mark(places[name], y(value), at, r=3.6, title=f"{trial.name}: {value:,.1f} tok/s")
            for trial, value in found[name]
        ]
    return made


def order_figure(run: Run, width: float) -> Markup | None:
    """Trials in the order taken, against the first arm's mean: a drift shows as a slope."""
    trials = counted(run)
    known = [value for trial in trials if (value := relative(run, trial)) is not None]
    if run.plan.design is None or not known:
        return None
    left, right, top, bottom = 56.0, width - 12, 10.0, 190.0
    y = Scale(*around([*known, 1.0], least=0.02), bottom, top)
    places = _places(len(trials), left, right)
    names = [arm.name for arm in run.plan.arms]
    made = [
        *_blocks(trials, places, top, bottom),
        *rows_of(y, left, right, label=lambda value: f"{value:.3g}"),
        line(left, y(1), right, y(1), "one"),
    ]
    every = math.ceil(18 * len(trials) / (right - left))
    for trial, x in zip(trials, places, strict=True):
        value = relative(run, trial)
        told = f"{trial.name}, pair {trial.pair}"
        if value is None:
            why = trial.failure.kind if trial.failure else "no valid level"
            made.append(cross(x, bottom - 8, f"{told}: {why}"))
        else:
            title = f"{told}: {value:.3f} of {names[0]}'s mean"
            partly = any(figure_of(trial, level, output_rate) is None for level in levels(run))
            made.append(mark(x, y(value), names.index(trial.arm), hollow=partly, title=title))
        if (trial.order - 1) % every == 0:
            made.append(text(x, bottom + 16, f"{trial.order}"))
    told = "restart, in the order taken" + ("" if width < NARROW else "; shaded: every other pair")
    made.append(text((left + right) / 2, bottom + 34, told))
    foot = bottom + 42
    for name, unit in CARDS:
        panel = _readings(trials, places, name, unit, (left, right, foot + 28), names)
        made += panel
        foot += 130 if panel else 0
    return svg(width, foot, "Trials in run order", made)


#: What is drawn of the cards, below the trials.
CARDS = (("sm_mhz", "SM clock, MHz"), ("temperature_c", "GPU temperature, °C"), ("power_w", "power a GPU, W"))


def _readings(
    trials: Sequence[Trial],
    places: Sequence[float],
    name: str,
    unit: str,
    frame: tuple[float, float, float],
    names: Sequence[str],
) -> list[Markup]:
    """The mean of a reading in every trial, least and most as a line; nothing where no card was read."""
    found = [(trial, x, card_spread(trial, name)) for trial, x in zip(trials, places, strict=True)]
    seen = [(trial, x, spread) for trial, x, spread in found if spread is not None]
    if not seen:
        return []
    left, right, top = frame
    bottom = top + 80
    y = Scale(*around([end for *_, one in seen for end in (one.min, one.max)], least=1.0), bottom, top)
    made = [text(left, top - 10, unit, anchor="start"), *rows_of(y, left, right, count=3)]
    for trial, x, spread in seen:
        series = names.index(trial.arm)
        told = f"{trial.name}: {spread.mean:,.0f} on average, {spread.min:,.0f} to {spread.max:,.0f}"
        made.append(line(x, y(spread.min), x, y(spread.max), f"whisker s{series % 8}"))
        made.append(mark(x, y(spread.mean), series, r=3.4, title=told))
    return made


def _blocks(trials: Sequence[Trial], places: Sequence[float], top: float, bottom: float) -> list[Markup]:
    """Every other pair on a ground of its own."""
    half = (places[1] - places[0]) / 2 if len(places) > 1 else 20.0
    return [
        el("rect", x=x - half, y=top, width=2 * half, height=bottom - top, class_="block")
        for trial, x in zip(trials, places, strict=True)
        if (trial.pair or 0) % 2 == 0
    ]


def tradeoff_figure(run: Run, width: float) -> Markup | None:
    """Output tok/s, a GPU where their number is known, against TPOT; arrows lead from the first arm."""
    rate, unit = rate_by_gpu(run)
    found = {one.name: _tradeoffs(run, one, rate) for one in lines(run)}
    every = [place for places in found.values() for place in places.values()]
    if not every:
        return None
    left, right, top, bottom = 56.0, width - 16, 22.0, 280.0
    x = Scale(*around([place[0] for place in every], pad=0.05), left, right)
    y = Scale(*from_zero([place[1] for place in every]), bottom, top)
    made = [*rows_of(y, left, right), *columns_of(x, top, bottom, count=4 if width < NARROW else 8)]
    made.append(text(left, 12, unit, anchor="start"))
    made.append(text((left + right) / 2, bottom + 34, "mean TPOT, ms (left is quicker for a user)"))
    base = {} if run.plan.sweep.matrix else next(iter(found.values()))
    for at, (name, told) in enumerate(found.items()):
        places = {level: (x(tpot), y(value)) for level, (tpot, value) in told.items()}
        made.append(polyline(list(places.values()), at))
        for level, place in places.items():
            if at and level in base:
                made.append(_arrow((x(base[level][0]), y(base[level][1])), place))
            title = f"{name}, {level}: {told[level][1]:,.1f} {unit} at {told[level][0]:.2f} ms"
            made.append(mark(*place, at, title=title))
        if at == 0:
            made += _labels(places)
    return svg(width, bottom + 42, f"{unit} against time per output token", made)


def _labels(places: Mapping[str, tuple[float, float]]) -> list[Markup]:
    """The levels at their marks, but for one that would stand on another's."""
    made: list[Markup] = []
    last = (-99.0, -99.0)
    for level, (x, y) in places.items():
        if abs(x - last[0]) > 20 or abs(y - last[1]) > 12:
            made.append(text(x, y - 9, level, class_="lab small"))
            last = (x, y)
    return made


def rate_by_gpu(run: Run) -> tuple[Figure, str]:
    """Output tok/s per GPU, or in all where nobody knows how many GPUs there are; and its unit."""
    if any(figures(run, arm.name, level, per_gpu_rate) for arm in run.plan.arms for level in levels(run)):
        return per_gpu_rate, "tok/s per GPU"
    return output_rate, "tok/s"


def _tradeoffs(run: Run, one: Line, rate: Figure) -> dict[str, tuple[float, float]]:
    found = {}
    for level in one.levels:
        tpot, value = mean(run, one.arm, level, mean_tpot_ms), mean(run, one.arm, level, rate)
        if tpot is not None and value is not None:
            found[level_name(level)] = (tpot, value)
    return found


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    """From one mark to the other, ending before both; nothing where they touch."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    if length < 14:
        return Markup("")
    ux, uy = dx / length, dy / length
    tip = (end[0] - ux * 6, end[1] - uy * 6)
    back = (tip[0] - ux * 7, tip[1] - uy * 7)
    head = [tip, (back[0] - uy * 3.5, back[1] + ux * 3.5), (back[0] + uy * 3.5, back[1] - ux * 3.5)]
    return el(
        "g",
        line(start[0] + ux * 6, start[1] + uy * 6, *back, "arrow"),
        el("polygon", points=" ".join(f"{px:.1f},{py:.1f}" for px, py in head), class_="tip"),
    )


def experts_figure(run: Run, width: float) -> Markup | None:
    """Distinct experts a layer and decode step, by level; dashed: what uniform routing would use."""
    label = "Distinct experts a layer and decode step, by level"
    return _by_level(run, width, distinct_experts, label, "experts", uniform_experts)


def uniform_experts(run: Run, level: Point) -> float | None:
    """Distinct experts if tokens chose uniformly; None where the model does not say how many there are."""
    for trial in counted(run):
        for point in trial.points:
            seen = point.experts
            if (
                seen is not None
                and seen.experts
                and seen.top_k
                and point.point.concurrency == level.concurrency
            ):
                return expected_distinct(seen.experts, seen.top_k, seen.requests)
    return None


def polyline(places: Sequence[tuple[float, float]], series: int | None) -> Markup:
    """A line through the places; series None: dashed."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return el("polyline", points=points, class_="dashed" if series is None else f"through s{series % 8}")


def _places(count: int, left: float, right: float) -> list[float]:
    """The middles of ``count`` equal columns."""
    each = (right - left) / count
    return [left + each * (at + 0.5) for at in range(count)]
