"""Cases for an imported recipe: of each module what the recipe's places need, and a refusal.

Owns: what is left of a module. Refuses: to leave out what a place or a guard is found by; where the recipe
does not apply to the small source, more of it stays.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping

import msgspec

from oeactl.core.anchors import Anchor, Place, find
from oeactl.core.changes import changes, filled
from oeactl.core.edits import apply
from oeactl.core.parameters import bind
from oeactl.core.reasons import CannotPlace
from oeactl.core.recipe import Recipe, RecipeFile, load_recipe
from oeactl.core.reduction import pruned, reduced
from oeactl.core.scopes import binder_of
from oeactl.core.source import Source

_WHOLE = ("replace_statement", "delete_statement", "delete_branch")
_TRIES = 200
"""How many edits are made, in all, on sources that could be a smaller case."""


def stem(name: str) -> str:
    """A name for an edit or a case, of a dotted one."""
    return re.sub(r"[^a-z0-9]+", "-", name.rpartition(".")[2].lower()).strip("-") or "edit"


def cases_of(
    files: Mapping[str, bytes],
    modules: Mapping[str, bytes],
    whole: Mapping[str, tuple[bytes | None, bytes]],
) -> dict[str, bytes]:
    """The cases of a recipe's folder. modules: name -> source; whole: path -> file before and after."""
    made: dict[str, bytes] = {}
    for at, (path, (before, after)) in enumerate(whole.items()):
        text = f"path: {json.dumps(path)}\nsha256: {hashlib.sha256(after).hexdigest()}\n"
        made[f"cases/file-{at}/case.yaml"] = text.encode()
        if before is not None:
            made[f"cases/file-{at}/before.txt"] = before
    if not modules:
        return made
    first = next(iter(modules))
    of = {name: f"module: {name}\n" if len(modules) > 1 or whole else "" for name in modules}
    nothing = {"cases/place-gone/before.py": b""}
    none = {**nothing, "cases/place-gone/case.yaml": f"refuses: none\n{of[first]}".encode()}
    recipe = load_recipe({**files, **made, **none})
    for name, source in modules.items():
        before = _small(recipe, name, source)
        folder = f"cases/{stem(name)}"
        folder += "-again" if f"{folder}/before.py" in made else ""
        made[f"{folder}/before.py"] = before
        made[f"{folder}/after.py"] = made_of(recipe, name, before)
        if of[name]:
            made[f"{folder}/case.yaml"] = of[name].encode()
    refusal = f"refuses: {json.dumps(_refusal(recipe, first))}\n{of[first]}"
    return {**made, **nothing, "cases/place-gone/case.yaml": refusal.encode()}


def made_of(recipe: Recipe, module: str, data: bytes) -> bytes:
    """What a recipe makes of a source. Raises CannotPlace."""
    bound, file = bind(recipe, {}, {}), _file(recipe, module)
    return apply(data, filled(changes(bound, file, data, where=module, version=None, python=None).edits, ""))


def _refusal(recipe: Recipe, module: str) -> str:
    """What it says of an empty module; of one that only appends, ''."""
    try:
        made_of(recipe, module, b"")
    except CannotPlace as refusal:
        return refusal.reasons[0].what
    return ""


def _small(recipe: Recipe, module: str, data: bytes) -> bytes:
    def applies(less: bytes) -> bool:
        try:
            made_of(recipe, module, less)
        except CannotPlace:
            return False
        return True

    data = data.removeprefix(b"\xef\xbb\xbf")
    file, source = _file(recipe, module), Source(data, module)
    keep, whole = _needed(source, file)
    small = pruned(data, keep, whole)
    if applies(small):
        return reduced(small, applies, tries=min(40, _TRIES // len(file.steps)))
    held = {source.line_start(source.start(line)) for line in source.tree.body}
    larger = pruned(data, keep, whole | held)
    return larger if applies(larger) else data


def _needed(source: Source, file: RecipeFile) -> tuple[set[int], set[int]]:
    """Where the statements begin that a recipe's edits name, and which of them are meant whole."""
    keep: set[int] = set()
    whole: set[int] = set()

    def start(line: ast.stmt) -> int:
        return source.line_start(source.start(line))

    for step in file.steps:
        operation = step.operation
        places = [spot for anchor in _anchors(operation) for spot in find(source, anchor, operation.id)]
        named = {start(line) for spot in places for line in _statements(spot)}
        keep |= named
        whole |= named if operation.op in _WHOLE else set()
        for name in getattr(operation, "bound", ()):
            for spot in places:
                if (line := binder_of(source.tree, spot.statement, name)) is not None:
                    keep.add(start(line))
                    whole.add(start(line))
    return keep, whole


def _anchors(operation: object) -> Iterator[Anchor]:
    """An operation's place, with all that match beside it, and the places that it is told by."""
    anchor: Anchor = getattr(operation, "at", None) or Anchor(scope=getattr(operation, "scope", ()))
    yield anchor if anchor.pick == "only" else msgspec.structs.replace(anchor, pick="all", part=None)
    for mark in (anchor.after, anchor.before):
        if mark is not None:
            yield msgspec.structs.replace(mark, scope=mark.scope or anchor.scope)


def _statements(spot: Place) -> list[ast.stmt]:
    return spot.body[spot.index : spot.index + spot.count] if spot.body else []


def _file(recipe: Recipe, module: str) -> RecipeFile:
    return next(file for file in recipe.files if file.module == module)
