"""Two runs of many restarts side by side: each arm of one beside the arm of that name in the other.

Owns: those rows, each figure the mean over the arm's restarts. Refuses: a verdict, which only the restarts of
one run allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oeactl.core.compare import differences
from oeactl.core.host import Value
from oeactl.core.load import Point
from oeactl.core.results import same_level
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
from oeactl.render.columns import Column, fitting, table

_DASH = "-"
Sides = tuple[float | None, float | None]


class Row(Value, frozen=True, kw_only=True):
    """One arm at one level that both runs have. restarts: in which it was valid."""

    arm: str
    level: Point
    rate: Sides
    tpot_ms: Sides
    experts: Sides
    restarts: tuple[int, int]

    @property
    def ratio(self) -> float | None:
        """How many times faster the other run's arm is."""
        before, after = self.rate
        return after / before if before and after is not None else None


def arm_rows(one: Run, other: Run) -> tuple[Row, ...]:
    """Every arm and level that both runs have, in the order of the first."""
    there = {arm.name for arm in other.plan.arms}
    shared = [
        level for level in levels(one) if any(same_level(level, point) for point in other.plan.sweep.points)
    ]
    return tuple(
        _row((one, other), arm.name, level) for arm in one.plan.arms if arm.name in there for level in shared
    )


def _row(runs: tuple[Run, Run], arm: str, level: Point) -> Row:
    def sides(figure: Figure) -> Sides:
        return mean(runs[0], arm, level, figure), mean(runs[1], arm, level, figure)

    first, second = (len(figures(run, arm, level, output_rate)) for run in runs)
    return Row(
        arm=arm,
        level=level,
        rate=sides(output_rate),
        tpot_ms=sides(mean_tpot_ms),
        experts=sides(distinct_experts),
        restarts=(first, second),
    )


def arms_view(one: Run, other: Run, *, names: tuple[str, str], width: int) -> Any:
    """A rich renderable. names: of the two runs."""
    from rich.console import Group
    from rich.text import Text

    rows = arm_rows(one, other)
    columns = (
        Column(head="arm", cells=tuple(row.arm for row in rows), left=True),
        Column(head="level", cells=tuple(level_name(row.level) for row in rows)),
        *_sides([row.rate for row in rows], names, "tok/s", 1, keep=0),
        Column(head="ratio\ntok/s", cells=tuple(_text(row.ratio, 3) for row in rows)),
        *_sides([row.tpot_ms for row in rows], names, "TPOT ms", 2, keep=1),
        *_sides([row.experts for row in rows], names, "experts", 1, keep=3),
        Column(head="restarts", cells=tuple("/".join(map(str, row.restarts)) for row in rows), keep=2),
    )
    builds = [
        f"{name} {arm.name}: {build_of(run, arm)}"
        for name, run in zip(names, (one, other), strict=True)
        for arm in run.plan.arms
    ]
    notes = [f"they differ in {what}" for what in differences(one, other)]
    notes.append("means over the restarts of two runs: an indication, not a verdict")
    return Group(
        *map(Text, builds),
        table(fitting(columns, width), dim=[row.ratio is None for row in rows]),
        *(Text(line, style="dim") for line in notes),
        *(Text(run.path) for run in (one, other)),
    )


def _sides(
    values: Sequence[Sides], names: tuple[str, str], unit: str, places: int, *, keep: int
) -> tuple[Column, ...]:
    return tuple(
        Column(head=f"{name}\n{unit}", cells=tuple(_text(pair[side], places) for pair in values), keep=keep)
        for side, name in enumerate(names)
    )


def _text(value: float | None, places: int) -> str:
    return _DASH if value is None else f"{value:,.{places}f}"


def arms_document(one: Run, other: Run) -> dict[str, Any]:
    """For ``--json``: as of two benches, with the arm and the restarts of each level."""
    return {
        "runs": [one.plan.run_id, other.plan.run_id],
        "differences": list(differences(one, other)),
        "levels": [
            {
                "arm": row.arm,
                "concurrency": row.level.concurrency,
                "input_len": row.level.input_len,
                "output_len": row.level.output_len,
                "output_tokens_per_s": list(row.rate),
                "ratio": row.ratio,
                "distinct_experts": list(row.experts),
                "restarts": list(row.restarts),
            }
            for row in arm_rows(one, other)
        ],
    }
