"""Which releases recipe oea applies to, as a page and as evidence: ``python -m tests.support.compat``.

Writes docs/compatibility.md and recipes/oea/tested.json from every release of the table. Owns: both
files; a test (marked ``compat``) keeps them true. Refuses: to count a release that a plan refuses.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from oeactl.core.changes import changes, forget
from oeactl.core.parameters import bind
from oeactl.core.plan import Planned, make_plan
from oeactl.core.recipe import load_recipe
from tests.support.surveys import HOLDER, sha256, survey_of
from tests.support.wheels import EVERY_RELEASE, engine_file

REPO = Path(__file__).parents[2]
PAGE = REPO / "docs" / "compatibility.md"
EVIDENCE = REPO / "recipes" / "oea" / "tested.json"
INTRODUCTION = """\
# Where recipe oea applies

*Made by `make compat`; do not edit.* Every final and post release of SGLang on PyPI from 0.4.7 on: {count}.
It applies on {applied} of them: planned through every gate, planned again without effect, taken back to
the byte. Which era a file belongs to is told by its signatures, not by its version. Times are of one plan of
both files, gates included, with nothing remembered, on the machine that ran this last.

| release | `topk.py`, lines | `radix_attention.py`, lines | era | applied | plan, ms |
|---|--:|--:|---|---|--:|
"""


@dataclass(frozen=True)
class Row:
    """One release. lines, sha256: module -> of its pristine file. applied: how, or why not."""

    release: str
    lines: dict[str, int]
    sha256: dict[str, str]
    era: str
    applied: str
    plan_ms: float

    def cells(self) -> tuple[str, ...]:
        """What stands in the table, but for the time."""
        return (self.release, *map(str, self.lines.values()), self.era, self.applied)


def survey_releases(rounds: int = 3) -> list[Row]:
    """A row for every release, oldest first. rounds: how many plans the time is the median of."""
    folder = EVIDENCE.parent
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path != EVIDENCE
    }
    bound = bind(load_recipe(files), {}, {"num_experts_per_tok": 8})
    rows = []
    for version in EVERY_RELEASE:
        sources = {
            module: engine_file(version, f"{module.replace('.', '/')}.py") for module in bound.recipe.modules
        }
        survey = survey_of(sources, version=version)
        times = []
        for _ in range(rounds):
            forget()
            begun = time.perf_counter()
            made = make_plan(bound, survey, operation="compat", applied_at="", applied_by=HOLDER)
            times.append((time.perf_counter() - begun) * 1e3)
        if isinstance(made, Planned):
            router = bound.recipe.files[0]
            text = sources[router.module]
            era = changes(bound, router, text, where="", version=version, python="3.11.7").variant or ""
            applied = f"yes, {sum(len(file.edits) for file in made.files)} edits"
        else:
            era, applied = "", f"no: {made.reasons[0].what}"  # type: ignore[union-attr]
        rows.append(
            Row(
                release=version,
                lines={module: len(text.splitlines()) for module, text in sources.items()},
                sha256={module: sha256(text) for module, text in sources.items()},
                era=era,
                applied=applied,
                plan_ms=statistics.median(times),
            )
        )
    return rows


def page(rows: list[Row]) -> str:
    """docs/compatibility.md."""
    applied = sum(row.applied.startswith("yes") for row in rows)
    lines = (f"| {' | '.join(row.cells())} | {row.plan_ms:.0f} |\n" for row in rows)
    return INTRODUCTION.format(count=len(rows), applied=applied) + "".join(lines)


def evidence(rows: list[Row]) -> str:
    """recipes/oea/tested.json: ``{module: {sha256: [release, ...]}}`` of what applied."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.applied.startswith("yes"):
            for module, digest in row.sha256.items():
                found.setdefault(module, {}).setdefault(digest, []).append(row.release)
    modules = []
    for module, digests in found.items():
        lines = (f"  {json.dumps(digest)}: {json.dumps(names)}" for digest, names in digests.items())
        inner = ",\n".join(lines)
        modules.append(f" {json.dumps(module)}: {{\n{inner}\n }}")
    return "{\n" + ",\n".join(modules) + "\n}\n"


def main() -> None:
    rows = survey_releases()
    PAGE.write_text(page(rows))
    EVIDENCE.write_text(evidence(rows))
    print(f"wrote {PAGE.relative_to(REPO)} and {EVIDENCE.relative_to(REPO)}: {len(rows)} releases")


if __name__ == "__main__":
    main()
