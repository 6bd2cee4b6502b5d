"""The project on this disk: its root, hosts.yaml, recipes.

Owns: finding and reading them. Refuses: to judge what is in them (core does).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oeactl.core.document import nearest
from oeactl.core.host import Value
from oeactl.core.hosts_file import read_inventory
from oeactl.core.inventory import Inventory, empty_inventory
from oeactl.errors import Refused, UsageError

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


def recipe_path(root: Path | None, recipe: str) -> Path:
    """Where a recipe lies: by its id, or ``recipe`` is a folder's path. A project's recipe hides ours.

    Raises UsageError: unknown recipe, with the nearest ids; a folder without a recipe.yaml.
    """
    folders = _recipe_folders(root)
    if recipe in folders:
        return folders[recipe]
    folder = Path(recipe)
    if recipe and (folder / "recipe.yaml").is_file():
        return folder
    if recipe and folder.is_dir():
        raise UsageError("there is no recipe.yaml in this folder", where=recipe)
    here = Path("recipes") / recipe
    meant = str(here) if recipe and (here / "recipe.yaml").is_file() else nearest(recipe, folders)
    raise UsageError(
        f"unknown recipe '{recipe}'",
        hint=f"did you mean '{meant}'?" if meant else f"recipes: {', '.join(sorted(folders)) or 'none'}",
    )


def recipe_files(folder: Path) -> dict[str, bytes]:
    """Read a recipe's folder: posix path within it -> bytes. Raises UsageError."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    try:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(error.filename)) from error


def read_recipe(root: Path | None, recipe: str) -> Recipe:
    """Read a recipe. Raises UsageError: unknown, or with file and line what is wrong in it."""
    from oeactl.core.recipe import load_recipe

    folder = recipe_path(root, recipe)
    return load_recipe(recipe_files(folder), shown(folder, Path.cwd()))


def write_recipe(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a new recipe's folder. Raises UsageError when there is one already."""
    if folder.exists():
        raise UsageError("there is such a folder already", where=shown(folder, Path.cwd()))
    try:
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(error.filename)) from error


def _recipe_folders(root: Path | None) -> dict[str, Path]:
    places = [packaged_recipes(), *([root / "recipes"] if root is not None else [])]
    return {path.parent.name: path.parent for place in places for path in sorted(place.glob("*/recipe.yaml"))}


def packaged_recipes() -> Path:
    """The folder of the recipes that come with oeactl: in the wheel, or beside the package in a checkout."""
    installed = _PACKAGE / "_recipes"
    return installed if installed.is_dir() else _PACKAGE.parent / "recipes"


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """A hosts.yaml with one entry more, checked and not yet written. shown: its name for people."""

    path: Path
    shown: str
    before: bytes | None
    after: bytes

    def save(self) -> None:
        """Replace the file in one step. Raises Refused where somebody changed it meanwhile."""
        now = self.path.read_bytes() if self.path.exists() else None
        if now != self.before:
            raise Refused("it was changed meanwhile", where=self.shown, hint="run the command again")
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_bytes(self.after)
        if self.before is not None:
            temporary.chmod(self.path.stat().st_mode & 0o7777)
        temporary.replace(self.path)


def write_entry(
    root: Path,
    name: str,
    entry: Mapping[str, Any],
    *,
    replace: bool = False,
    secrets: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> EntryChange:
    """Plan hosts.yaml of ``root`` (made where it is missing) with ``entry`` under ``name``.

    The new text is read back: it must say what the old one said of every other host. secrets: variables that
    the entry names and that need not be set yet. Raises Refused, UsageError.
    """
    from oeactl.core.hosts_text import with_entry

    path = root / HOSTS
    before = path.read_bytes() if path.exists() else None
    text = with_entry((before or b"").decode("utf-8"), name, entry, replace=replace)
    label = shown(path, Path.cwd())
    variables = {**dict.fromkeys(secrets, "not set yet"), **environ}

    def read(source: str | bytes) -> Inventory:
        return read_inventory(source, label, folder=root, home=str(Path.home()), variables=variables)

    new, old = read(text), read(before or b"")
    others = {host: value for host, value in new.hosts.items() if host != name}
    if others != {host: value for host, value in old.hosts.items() if host != name} or name not in new.hosts:
        raise Refused(
            "the entry cannot be put into this file without changing another",
            where=label,
            hint="oeactl adopt --dry-run shows it; put it there by hand",
        )
    return EntryChange(path=path, shown=label, before=before, after=text.encode("utf-8"))
