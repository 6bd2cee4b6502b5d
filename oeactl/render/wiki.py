"""Runs as a wiki page: for every build a matrix of context length by concurrency, then its ratio.

Owns: the matrices. Refuses: a cell that was not measured or is void, and runs of other engines, models, GPUs,
drivers or clients in one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from oeactl.core.compare import differences, forbidding
from oeactl.core.experiment import Verdict
from oeactl.core.load import Point
from oeactl.core.run import Run
from oeactl.core.series import (
    Figure,
    build_of,
    distinct_experts,
    figures,
    level_name,
    levels,
    mean,
    mean_tpot_ms,
    output_rate,
)
from oeactl.errors import Refused
from oeactl.render.commands import no_command, own_command
from oeactl.render.figures import effect_text
from oeactl.render.markdown import code, table
from oeactl.render.meaning import meanings
from oeactl.render.page_tables import DASH, number
from oeactl.render.report import ground

Cells = Mapping[tuple[tuple[int, int], str], str]
"""By (tokens in, tokens out) and level."""


def wiki_page(runs: Sequence[Run]) -> str:
    """The whole text. Raises Refused where the runs are not of one ground."""
    for one, other in pairwise(runs):
        differ = [what for what in forbidding(one, other) if what != "the prompts"]
        differ += [what for what in differences(one, other) if what == "the engine's version"]
        if differ:
            raise Refused(
                f"they differ in {', '.join(differ)}, so they do not belong in one matrix",
                where=f"{one.plan.run_id}, {other.plan.run_id}",
                hint="one page each",
            )
    lines = [*_builds(runs), *_ratios(runs), *ground(runs[0]), "", *_again(runs)]
    return "\n".join(lines).rstrip() + "\n"


def _builds(runs: Sequence[Run]) -> Iterator[str]:
    yield from ("## Output tokens a second, context by concurrency", "")
    for warns, words in dict.fromkeys(one for run in runs for one in meanings(run)):
        yield from (f"**{words}**" if warns else words, "")
    builds = list(dict.fromkeys(build_of(run, arm) for run in runs for arm in run.plan.arms))
    for described in builds:
        yield from (f"### {described}", "")
        yield from _matrix(runs, described, output_rate, 1)
        yield ""
    yield from ("### Mean TPOT, milliseconds", "")
    for described in builds:
        yield from (f"{described}:", "")
        yield from _matrix(runs, described, mean_tpot_ms, 2)
        yield ""
    if any(_saw_experts(run) for run in runs):
        yield from ("### Distinct experts a layer and decode step", "")
        for described in builds:
            yield from (f"{described}:", "")
            yield from _matrix(runs, described, distinct_experts, 1)
            yield ""


def _saw_experts(run: Run) -> bool:
    return any(
        figures(run, arm.name, level, distinct_experts) for arm in run.plan.arms for level in levels(run)
    )


def _matrix(runs: Sequence[Run], described: str, figure: Figure, places: int) -> Iterator[str]:
    """One build. Where several runs measured the same cell, the last one that did counts."""
    cells: dict[tuple[tuple[int, int], str], str] = {}
    for run in runs:
        for arm in run.plan.arms:
            for level in levels(run) if build_of(run, arm) == described else ():
                value = mean(run, arm.name, level, figure)
                if value is not None:
                    cells[_context(level), level_name(level)] = number(value, places)
    return _table(runs, cells)


def _ratios(runs: Sequence[Run]) -> Iterator[str]:
    verdicts = [(run, one) for run in runs if run.analysis for one in run.analysis.verdicts]
    if not verdicts:
        return
    yield from ("### Ratio to the first arm", "")
    yield from ("With the interval of that level; bold where it is shown (Holm over the run's levels).", "")
    for name in dict.fromkeys(_name(run, verdict) for run, verdict in verdicts):
        cells = {}
        for verdict in (one for run, one in verdicts if _name(run, one) == name):
            for level in verdict.by_level:
                if level.effect is not None:
                    ratio, _, spread = effect_text(level.effect).partition(" ")
                    told = f"**{ratio}** {spread}" if level.shown else f"{ratio} {spread}"
                    cells[(level.input_len, level.output_len), str(level.concurrency)] = told
        yield from (f"{name}:", "")
        yield from _table(runs, cells)
        yield ""


def _name(run: Run, verdict: Verdict) -> str:
    described = {one.name: one.described for one in run.plan.arms}
    return f"{described[verdict.arm]} over {described[verdict.against]}"


def _table(runs: Sequence[Run], cells: Cells) -> Iterator[str]:
    points = [point for run in runs for point in levels(run)]
    points.sort(key=lambda point: (point.rate or 0, point.concurrency))
    names = list(dict.fromkeys(map(level_name, points)))
    rows = [
        (f"{given}/{made}", *(cells.get(((given, made), name), DASH) for name in names))
        for given, made in sorted(set(map(_context, points)))
    ]
    return table(("tokens in/out", *names), rows)


def _context(point: Point) -> tuple[int, int]:
    return (point.input_len, point.output_len)


def _again(runs: Sequence[Run]) -> Iterator[str]:
    yield from ("### Commands", "")
    told = [own_command(run) or f"# {run.plan.run_id}: {no_command(run)}" for run in runs]
    yield from code("\n".join(told), "bash")
    names = ", ".join(run.plan.run_id for run in runs)
    yield from ("", f"Runs: {names}. A dash was not measured, or is void.")
