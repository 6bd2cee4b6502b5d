"""Recorded answers, and what a comparison of two builds says.

Owns: their words and tables. Refuses: to judge (core/quality.py does).
"""

from __future__ import annotations

from typing import Any

import msgspec

from oeactl.core.quality import Agreement, ConditionCompared
from oeactl.core.recording import Comparison, Recording
from oeactl.render.columns import Column, fitting, table

_SAID = {
    "changes answers": "changes answers: they lie further apart than the first build's own do",
    "shifts probabilities": "shifts probabilities: the tokens stay within the floor, their odds do not",
    "differs, or a restart does": (
        "differs, or a restart does: one start of the first build cannot tell, record it after another"
    ),
    "within the floor": "within the floor: not told apart from what the first build itself varies by",
}
_STYLE = {
    "changes answers": "red",
    "shifts probabilities": "yellow",
    "within the floor": "green",
    "differs, or a restart does": "yellow",
}


def recording_view(recording: Recording, path: str, *, width: int) -> Any:
    """How far a build agrees with itself, and what to do next."""
    from rich.console import Group
    from rich.text import Text

    asked = recording.settings
    floors = recording.floors
    columns = (
        Column(head="asked", cells=tuple(_said(one.condition) for one in floors), left=True),
        *_agreements("against itself", tuple(one.agreement for one in floors)),
    )
    how = (
        f"{asked.prompts} prompts, {asked.output_len} tokens each, {asked.passes} times alone and "
        f"{asked.passes} times {asked.concurrency} at once"
    )
    return Group(
        Text(f"{recording.host}: {recording.build}", style="bold"),
        Text(how),
        table(fitting(columns, width)),
        Text(path),
        Text(f"after a change: oeactl quality --against {recording.recording_id}", style="dim"),
    )


def comparison_view(comparison: Comparison, path: str, *, width: int) -> Any:
    """The verdict, its figures, and what it rests on."""
    from rich.console import Group
    from rich.text import Text

    made = comparison.conditions
    rows = [(one, kind) for one in made for kind in ("floor", "itself", "against")]
    names = {
        "floor": "first build, itself",
        "itself": "second build, itself",
        "against": "second against first",
    }
    columns = (
        Column(head="asked", cells=tuple(_said(one.condition) for one, _ in rows), left=True),
        Column(head="compared", cells=tuple(names[kind] for _, kind in rows), left=True),
        *_agreements("", tuple(getattr(one, kind) for one, kind in rows)),
    )
    return Group(
        Text(f"first build:  {comparison.baseline_build}"),
        Text(f"second build: {comparison.candidate_build}"),
        table(fitting(columns, width)),
        *(Text(_tests(one), style="dim") for one in made),
        Text(_SAID[comparison.verdict], style=f"bold {_STYLE[comparison.verdict]}"),
        *(Text(note, style="dim") for note in (*comparison.notes, *_limits(comparison))),
        Text(path),
    )


def _limits(comparison: Comparison) -> list[str]:
    said: list[str] = []
    least, prompts = comparison.least_changed, comparison.conditions[0].prompts
    if least > prompts:
        said.append(f"{prompts} prompts are too few to tell any change from chance; it takes {least}")
    elif comparison.verdict != "changes answers":
        said.append(f"fewer than {least} changed answers of {prompts} cannot be told from chance")
    if comparison.restarted is None:
        said.append("of a URL nothing is known about restarts: ask the same server, or several starts of it")
    elif comparison.restarted:
        said.append(
            f"the floor is of {comparison.starts} start{'s' if comparison.starts != 1 else ''} of the first "
            "build's server; more of them, each with its own --against, tell a restart's doing better"
        )
    return [*said, "changed is not worse: lm-eval or gsm8k tell that; oeactl results attach keeps them"]


def _said(condition: str) -> str:
    return condition.replace("_", " ")


def _tests(one: ConditionCompared) -> str:
    return (
        f"{_said(one.condition)}: tokens p = {one.tokens.p:.4f}, nearest {one.tokens.nearest:.3f} to floor "
        f"{one.tokens.floor:.3f}; probabilities p = {one.probabilities.p:.4f}, nearest "
        f"{one.probabilities.nearest:.2g} to floor {one.probabilities.floor:.2g}"
    )


def _agreements(what: str, found: tuple[Agreement, ...]) -> tuple[Column, ...]:
    return (
        Column(
            head=f"{what}\nequal answers".lstrip(), cells=tuple(f"{one.equal_answers:.1%}" for one in found)
        ),
        Column(head="equal\ntokens", cells=tuple(f"{one.equal_tokens:.1%}" for one in found)),
        Column(
            head="first differs\nat token",
            cells=tuple(
                "-" if one.first_divergence is None else f"{one.first_divergence:g}" for one in found
            ),
            keep=1,
        ),
        Column(head="KL\nnats", cells=tuple(f"{one.kl:.2g}" for one in found), keep=1),
    )


def quality_document(
    recording: Recording, path: str, comparison: Comparison | None, file: str
) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "recording": msgspec.to_builtins(recording),
        "path": path,
        "comparison": msgspec.to_builtins(comparison),
        "comparison_path": file or None,
    }
