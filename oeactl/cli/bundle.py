"""``oeactl results bundle``: a run packed for a stranger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oeactl.cli.common import Call, command

if TYPE_CHECKING:
    from oeactl.core.run import Run

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, any part that fits it alone, or 'last'.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.tar.gz", help="Write there; else RUN.tar.gz here.")
]


@command("oeactl results bundle last", "oeactl results bundle 20261129T0315 --out for-review.tar.gz")
def bundle(call: Call, run: RunArgument = "last", out: OutOption = None) -> None:
    """Pack a run so that a stranger can check it and measure it again from the bundle alone.

    Launch commands, hashes, difference, recipe, plan, trials, raw rows, reports, and oeactl itself; a README
    says how. Secrets are not in it; what is not pinned is called so. The same run gives the same bytes.
    """
    from oeactl.core.bundle import bundle_files, manifest_of
    from oeactl.edges.bundle import own_package, own_requirements, write_bundle
    from oeactl.edges.store import ResultsFolder

    store = ResultsFolder((call.root or Path.cwd()) / "results")
    found = store.load(run)
    folder, lost = store.files(found)
    manifest = manifest_of(found, lost)
    made = bundle_files(
        found,
        manifest,
        folder=folder,
        texts=_texts(found, manifest),
        tool=own_package(),
        requirements=own_requirements(),
    )
    path = out or Path(f"{found.plan.run_id}.tar.gz")
    size = write_bundle(path, found.plan.run_id, made, at=found.plan.created_at.timestamp())
    document = {"file": str(path), "bytes": size, "files": sorted(made), "raw_lost": list(lost)}
    call.emit(document, lambda: _told(path, size, len(made), lost))


def _texts(run: Run, manifest: Mapping[str, Any]) -> dict[str, str]:
    from oeactl.cli.report import report_texts
    from oeactl.render.bundle import bundle_readme

    return {"README.md": bundle_readme(run, manifest), **report_texts(run)}


def _told(path: Path, size: int, count: int, lost: tuple[str, ...]) -> str:
    lines = [f"wrote {path}: {count} files, {size / 1000:,.0f} kB"]
    if lost:
        lines.append(f"without {len(lost)} raw files, which are not on this machine")
    return "\n".join(lines)
