"""Files that a recipe puts there as a whole: a data file, a module of its own, another version of a file.

Owns: which paths may be named, and whether a file may be put where something is already. Refuses: to merge.
A path is written from the folder that holds the package, with slashes; in surveys and journals it stands
where a module's dotted name would. The hash of no file at all is ''.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath

from oeactl.core.document import Node, nearest
from oeactl.core.host import Edit, Value
from oeactl.core.reasons import CannotPlace, Kind, Reason
from oeactl.core.recipe_document import RecipeDocument, WholeFileDocument
from oeactl.core.source import Source
from oeactl.core.standing import ABSENT, Standing
from oeactl.core.steps import under
from oeactl.errors import UsageError


class WholeFile(Value, frozen=True, kw_only=True):
    """A file with its content read."""

    document: WholeFileDocument
    content: bytes

    @property
    def path(self) -> str:
        return self.document.path

    @property
    def paths(self) -> tuple[str, ...]:
        """Every place it may go, the preferred one first."""
        return (self.document.path, *self.document.or_path)

    def place(self, standings: Mapping[str, Standing]) -> Standing:
        """Where it goes: the first place whose folder is there, else the first. standings: by path."""
        every = [standings[path] for path in self.paths]
        return next((one for one in every if one.file is None or one.file.folder), every[0])


def read_whole_files(
    root: Node, recipe: RecipeDocument, files: Mapping[str, bytes], prefix: str
) -> tuple[WholeFile, ...]:
    """Read ``whole_files``. Raises UsageError at the line of the fault."""
    found: list[WholeFile] = []
    for at, document in enumerate(recipe.whole_files):
        node = under(root, "whole_files").value[at]
        taken = {path for other in found for path in other.paths}
        for path in (document.path, *document.or_path):
            fault = path_fault(path, recipe.engine.package)
            fault = fault or ("is listed twice" if path in taken else None)
            if fault:
                raise UsageError(f"'{path}' {fault}", where=under(node, "path").where)
            taken.add(path)
        if document.source not in files:
            meant = nearest(document.source, files)
            raise UsageError(
                f"there is no file '{document.source}' in the recipe's folder",
                where=under(node, "source").where,
                hint=f"did you mean '{meant}'?" if meant else f"put it there: {prefix}{document.source}",
            )
        found.append(WholeFile(document=document, content=files[document.source]))
    return tuple(found)


def path_fault(path: str, package: str) -> str | None:
    """Why a path cannot be named, or None."""
    parts = path.split("/")
    if parts[0] != package or len(parts) < 2:
        return f"is not below {package}/"
    if any(part in ("", ".", "..") for part in parts) or "\\" in path or not path.isprintable():
        return "is no plain path"
    return None


def is_path(name: str) -> bool:
    """Whether a survey's name is the path of a whole file, and no module."""
    return "/" in name


def module_of(name: str) -> str | None:
    """The dotted name under which a survey's file is imported; None for a data file."""
    if not is_path(name):
        return name
    path = PurePosixPath(name)
    if path.suffix != ".py":
        return None
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def put(whole: WholeFile, standing: Standing) -> tuple[Edit, ...]:
    """The edit that puts the file there, against what was there first. Raises CannotPlace."""
    original = standing.original_sha256
    if original == ABSENT:
        if whole.document.replaces:
            raise _refused(standing, "there is no such file here, and the recipe takes the place of one")
        if standing.file is not None and not (standing.file.folder or whole.document.new_folder):
            raise _refused(standing, "this engine has no such folder, and would not look for the file there")
    elif original == hashlib.sha256(whole.content).hexdigest():
        raise _refused(standing, "the engine has this very file already", kind="upstreamed")
    elif original not in whole.document.replaces:
        what = "it is not the file that the recipe takes the place of"
        what = what if whole.document.replaces else "another file is there already"
        raise _refused(standing, f"{what}: sha256 {original}")
    if module_of(whole.path):
        Source(whole.content, standing.path)  # whole Python, or a refusal
    return (Edit(start=0, end=len(standing.original), text=whole.content),)


def is_whole(edits: tuple[Edit, ...], standing: Standing) -> bool:
    """Whether a layer's edits are a whole file's: then no other layer may touch it."""
    if not edits or standing.original_sha256 == ABSENT:
        return bool(edits)
    return bool(standing.original) and (edits[0].start, edits[0].end) == (0, len(standing.original))


def _refused(standing: Standing, what: str, *, kind: Kind = "guard") -> CannotPlace:
    return CannotPlace(Reason(kind=kind, what=what, where=standing.path))
