"""The project on this disk: its root, hosts.yaml, recipes.

Owns: finding and reading them. Refuses: to judge what is in them (core does).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from oeactl.core.document import nearest
from oeactl.core.host import Value
from oeactl.core.hosts_file import read_inventory
from oeactl.core.inventory import Inventory, empty_inventory
from oeactl.errors import UsageError

if TYPE_CHECKING:
    from oeactl.core.recipe import Recipe

HOSTS = "hosts.yaml"
_PACKAGE = Path(__file__).resolve().parent.parent


class Project(Value, frozen=True, kw_only=True):
    """root: the folder with hosts.yaml; its ``recipes/`` and ``results/`` are used."""

    root: Path
    inventory: Inventory


def find_root(start: Path, named: Path | None = None) -> Path:
    """Return the nearest folder from ``start`` up with a hosts.yaml, or ``named`` (``--project``).

    Raises UsageError that says where it looked.
    """
    if named is not None:
        if (named / HOSTS).is_file():
            return named.absolute()
        raise UsageError(
            f"no {HOSTS} in the project folder" if named.is_dir() else "no such project folder",
            where=str(named),
            hint="name the folder that holds it: --project FOLDER",
        )
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / HOSTS).is_file():
            return folder
    raise UsageError(
        f"no {HOSTS} here or in any folder above",
        where=str(start),
        hint="oeactl hosts --help shows a first one; or name a project: --project FOLDER",
    )


def load_project(start: Path, named: Path | None = None, environ: Mapping[str, str] = os.environ) -> Project:
    """Read the project that ``start`` lies in, or the one named. Raises UsageError at ``file:line``."""
    root = find_root(start, named)
    path = root / HOSTS
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    inventory = read_inventory(
        text, shown(path, start), folder=root, home=str(Path.home()), variables=environ
    )
    return Project(root=root, inventory=inventory)


def projectless(start: Path) -> Project:
    """What there is without a hosts.yaml: ``@local``, for file work in ``start``."""
    return Project(root=start.absolute(), inventory=empty_inventory(f"no {HOSTS}"))


def shown(path: Path, start: Path) -> str:
    """The path as a person in ``start`` would write it."""
    try:
        return str(path.relative_to(start.absolute()))
    except ValueError:
        return str(path)


def recipe_ids(root: Path | None) -> tuple[str, ...]:
    """The recipes there are, sorted: the project's (``root``, if any) and those that come with oeactl."""
    return tuple(sorted(_recipe_folders(root)))


def recipe_folder(root: Path | None, recipe: str) -> dict[str, bytes]:
    """Read a recipe: posix path within its folder -> bytes. A project's recipe hides ours of the same id.

    Raises UsageError: unknown recipe, with the nearest ids.
    """
    folders = _recipe_folders(root)
    if recipe not in folders:
        meant = nearest(recipe, folders)
        raise UsageError(
            f"unknown recipe '{recipe}'",
            hint=f"did you mean '{meant}'?" if meant else f"recipes: {', '.join(sorted(folders)) or 'none'}",
        )
    folder = folders[recipe]
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    try:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(error.filename)) from error


def read_recipe(root: Path | None, recipe: str) -> Recipe:
    """Read a recipe. Raises UsageError: unknown, or with file and line what is wrong in it."""
    from oeactl.core.recipe import load_recipe

    files = recipe_folder(root, recipe)
    return load_recipe(files, shown(_recipe_folders(root)[recipe], Path.cwd()))


def _recipe_folders(root: Path | None) -> dict[str, Path]:
    places = [packaged_recipes(), *([root / "recipes"] if root is not None else [])]
    return {path.parent.name: path.parent for place in places for path in sorted(place.glob("*/recipe.yaml"))}


def packaged_recipes() -> Path:
    """The folder of the recipes that come with oeactl: in the wheel, or beside the package in a checkout."""
    installed = _PACKAGE / "_recipes"
    return installed if installed.is_dir() else _PACKAGE.parent / "recipes"
