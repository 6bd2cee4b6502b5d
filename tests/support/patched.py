"""The OEA recipe on a real release, as a folder that an engine's interpreter can import.

Owns: an overlay of links over the unzipped release, with the planned files as the only real ones. The
release itself is never written.
"""

from __future__ import annotations

from pathlib import Path

from oeactl.core.parameters import bind
from oeactl.core.plan import Planned, make_plan
from oeactl.core.recipe import Recipe, load_recipe
from tests.support.surveys import HOLDER, survey_of
from tests.support.wheels import engine_file, engine_tree

RECIPES = Path(__file__).parents[2] / "recipes"


def recipe(name: str) -> Recipe:
    """A recipe of this repository."""
    folder = RECIPES / name
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return load_recipe({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})


def planned(version: str, **sets: object) -> dict[str, bytes]:
    """The files of that release with OEA in them: path in the wheel -> bytes."""
    oea = recipe("oea")
    paths = {module: f"{module.replace('.', '/')}.py" for module in oea.modules}
    survey = survey_of(
        {module: engine_file(version, path) for module, path in paths.items()}, version=version
    )
    bound = bind(oea, {name: str(value) for name, value in sets.items()}, {})
    plan = make_plan(bound, survey, operation="test", applied_at="2026-01-01T00:00:00Z", applied_by=HOLDER)
    assert isinstance(plan, Planned), plan
    return {paths[file.module]: file.after for file in plan.files}


def overlay(version: str, folder: Path, files: dict[str, bytes]) -> Path:
    """Make ``folder`` look like that release with ``files`` (path -> bytes) in place of its own."""
    _link(engine_tree(version), folder, {Path(path): data for path, data in files.items()})
    return folder


def _link(source: Path, target: Path, files: dict[Path, bytes]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    inner = {path.parts[0] for path in files if len(path.parts) > 1}
    for entry in source.iterdir():
        if entry.name in inner:
            below = {
                path.relative_to(entry.name): data
                for path, data in files.items()
                if path.parts[0] == entry.name
            }
            _link(entry, target / entry.name, below)
        elif Path(entry.name) not in files:
            (target / entry.name).symlink_to(entry)
    for path, data in files.items():
        if len(path.parts) == 1:
            (target / path).write_bytes(data)
