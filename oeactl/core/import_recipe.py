"""A recipe made of changes that somebody has already: its edits, guards and cases, and what it leaves out.

Owns: the recipe's folder as text, and the proof that it gives on its own release the bytes it was made of.
Refuses: what has no place in a recipe, by name: renamed files, binary ones, deleted ones.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from oeactl.core.anchors import Anchor, Place, bound_names, find, find_scope
from oeactl.core.blocks import Stamp
from oeactl.core.changes import changes, filled
from oeactl.core.edits import apply
from oeactl.core.guards import has
from oeactl.core.host import Value
from oeactl.core.importing import Imported, Left, as_node, import_module
from oeactl.core.parameters import bind
from oeactl.core.placing import place
from oeactl.core.reasons import CannotPlace
from oeactl.core.recipe import Recipe, RecipeFile, load_recipe
from oeactl.core.reduction import pruned, reduced
from oeactl.core.source import Source, parse_module
from oeactl.core.steps import read_steps
from oeactl.core.whole import module_of
from oeactl.core.writing import to_yaml
from oeactl.errors import Refused, UsageError

_BOUND = ("insert_before", "insert_after", "replace_statement", "body_start")
_GUARDS = 8
_WHOLE = ("replace_statement", "delete_statement")


class FileChange(Value, frozen=True, kw_only=True):
    """One file of the engine. path: from the folder with the package. None: no file. odd: what else it is."""

    path: str
    before: bytes | None
    after: bytes | None
    odd: str | None = None


class ImportedRecipe(Value, frozen=True, kw_only=True):
    """files: the recipe's folder. left: what it does not do, ``path:line: text`` each."""

    files: dict[str, bytes]
    edits: int
    left: tuple[str, ...]


class _Module(Value, frozen=True, kw_only=True):
    change: FileChange
    name: str
    made: Imported


def import_recipe(
    id: str, given: Sequence[FileChange], *, title: str, summary: str, package: str, version: str | None
) -> ImportedRecipe:
    """Make a recipe of changes to one release. version: that release's, for the record of what was tried.

    Raises Refused where nothing can be made of them.
    """
    modules, whole, left = _sorted(given)
    snippets: dict[str, bytes] = {}
    document: dict[str, Any] = {
        "id": id,
        "revision": 1,
        "title": title,
        "summary": summary,
        "engine": {"package": package, "versions": ">=0"},
        "marks": False,
    }
    numbers = itertools.count(1)
    entries = [_entry(module, version, snippets, numbers) for module in modules]
    if entries:
        document["files"] = entries
    if whole:
        places = [f"files/{at}-{change.path.rpartition('/')[2]}" for at, change in enumerate(whole)]
        document["whole_files"] = [_whole(*pair) for pair in zip(whole, places, strict=True)]
        snippets |= {place: change.after or b"" for change, place in zip(whole, places, strict=True)}
    if not entries and not whole:
        raise Refused(f"{id}: nothing of it can be made into a recipe", details=left)
    if left:
        document["unanchored"] = list(left)
    files = {"recipe.yaml": to_yaml(document).encode(), **snippets}
    files |= _cases(files, modules, whole)
    _prove(load_recipe(files), modules)
    return ImportedRecipe(files=files, edits=sum(len(module.made.edits) for module in modules), left=left)


def _sorted(
    given: Sequence[FileChange],
) -> tuple[list[_Module], list[FileChange], tuple[str, ...]]:
    """What becomes edits, what becomes a whole file, and what is left out."""
    modules: list[_Module] = []
    whole: list[FileChange] = []
    left: list[str] = []
    for change in given:
        name = module_of(change.path)
        if change.odd or change.after is None:
            left.append(f"{change.path}: {change.odd or 'a file that is deleted'}")
        elif change.before is None or name is None or not _statements_in(change.before):
            whole.append(change)
        elif change.before != change.after:
            try:
                made = import_module(change.before, change.after, change.path)
            except CannotPlace as refusal:
                left += [f"{change.path}: {reason.what}" for reason in refusal.reasons]
                continue
            left += [_told(change, one) for one in made.left]
            if made.edits:
                modules.append(_Module(change=change, name=name, made=made))
    return modules, whole, tuple(left)


def _statements_in(data: bytes) -> bool:
    """Whether there is anything in a module to find a place by."""
    try:
        return bool(Source(data, "module").tree.body)
    except CannotPlace:
        return True


def _told(change: FileChange, left: Left) -> str:
    return f"{change.path}:{left.line}: {left.text}"


def _whole(change: FileChange, source: str) -> dict[str, Any]:
    if change.before is None:
        return {"path": change.path, "source": source, "new_folder": True}
    return {"path": change.path, "source": source, "replaces": [hashlib.sha256(change.before).hexdigest()]}


def _entry(
    module: _Module, version: str | None, snippets: dict[str, bytes], numbers: Iterator[int]
) -> dict[str, Any]:
    """A module's part of recipe.yaml; longer code goes into ``snippets``."""
    before = module.change.before or b""
    old, new = Source(before, module.name), Source(module.change.after or b"", module.name)
    entry: dict[str, Any] = {"module": module.name}
    needs = _needs(old, new, module.made.edits)
    if needs:
        entry["require"] = needs
    if version is not None:
        entry["tested"] = [{"version": version, "sha256": hashlib.sha256(before).hexdigest()}]
    edits: list[dict[str, Any]] = []
    for edit in module.made.edits:
        name = f"{_stem(edit, module.name)}-{next(numbers)}"
        made = {"id": name, **edit}
        if edit["op"] in _BOUND and (bound := _bound(old, edit)):
            made["bound"] = bound
        if "\n" in made.get("code", ""):
            path = f"snippets/{name}.py"
            snippets[path] = f"{made.pop('code')}\n".encode()
            made["snippet"] = path
        edits.append(made)
    entry["edits"] = edits
    return entry


def _stem(edit: dict[str, Any], module: str) -> str:
    """A readable name for an edit: of the innermost definition it is in."""
    at = edit.get("at", {})
    chain = [*(at.get("scope") or edit.get("scope") or ())]
    chain += [at["definition"]] if "definition" in at else []
    word = chain[-1].split()[-1] if chain else module.rpartition(".")[2]
    return re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") or "edit"


def _needs(old: Source, new: Source, edits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Guards: the definitions that are edited, and names that would mean that upstream has the change."""
    scopes = {tuple(link.split()[-1] for link in chain) for edit in edits for chain in _chains(edit)}
    symbols = sorted(".".join(chain) for chain in scopes if chain and has(old.tree, ".".join(chain)))
    fresh = [name for name in dict.fromkeys(_defined(new.tree)) if _is_fresh(old.tree, name)]
    needs: dict[str, Any] = {}
    if symbols:
        needs["symbols"] = symbols
    if fresh:
        needs["upstreamed"] = fresh[:_GUARDS]
    return needs


def _is_fresh(tree: ast.Module, name: str) -> bool:
    """Whether a name is not there, and what it belongs to is."""
    holder = name.rpartition(".")[0]
    return not has(tree, name) and (not holder or has(tree, holder))


def _chains(edit: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    at = edit.get("at", {})
    chain = tuple(at.get("scope") or edit.get("scope") or ())
    yield chain
    if "definition" in at:
        yield (*chain, at["definition"])


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module defines: its own, its classes' members, its functions' parameters."""
    for node in tree.body:
        members = [("", node)]
        if isinstance(node, ast.ClassDef):
            members += [(f"{node.name}.", member) for member in node.body]
        for prefix, inner in members:
            if isinstance(inner, ast.ClassDef):
                yield prefix + inner.name
            elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + inner.name
                given = inner.args
                for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                    yield f"{prefix}{inner.name}.{parameter.arg}"
            elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                yield prefix + inner.target.id
            elif isinstance(inner, ast.Assign):
                yield from (prefix + target.id for target in inner.targets if isinstance(target, ast.Name))


def _bound(old: Source, edit: dict[str, Any]) -> list[str]:
    """The names that the new code reads and that surely have a value at the place."""
    tree = parse_module(edit["code"])
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in nodes if not isinstance(node.ctx, ast.Load)}
    read = {node.id for node in nodes} - made - set(dir(builtins))
    return [name for name in sorted(read) if _holds(old, {**edit, "bound": [name]})]


def _holds(old: Source, edit: dict[str, Any]) -> bool:
    try:
        (step,) = read_steps([as_node({"id": "x", **edit})])
        place(old, step, {}, Stamp(recipe="x", revision=1, marks=False))
    except (CannotPlace, UsageError):
        return False
    return True


def _cases(
    files: dict[str, bytes], modules: Sequence[_Module], whole: Sequence[FileChange]
) -> dict[str, bytes]:
    """For each module what is left of it when all goes that the recipe does not need; and a refusal."""
    made: dict[str, bytes] = {}
    for at, change in enumerate(whole):
        text = f"path: {json.dumps(change.path)}\nsha256: {hashlib.sha256(change.after or b'').hexdigest()}\n"
        made[f"cases/file-{at}/case.yaml"] = text.encode()
        if change.before is not None:
            made[f"cases/file-{at}/before.txt"] = change.before
    if not modules:
        return made
    first = {"cases/none/before.py": b"", "cases/none/case.yaml": b"refuses: none\n"}
    several = len(modules) > 1 or bool(whole)
    if several:
        first["cases/none/case.yaml"] += f"module: {modules[0].name}\n".encode()
    recipe = load_recipe({**files, **made, **first})
    for module in modules:
        before = _small(recipe, module)
        folder = f"cases/{_stem({}, module.name)}"
        folder += "-again" if f"{folder}/before.py" in made else ""
        made[f"{folder}/before.py"] = before
        made[f"{folder}/after.py"] = _made_of(recipe, module.name, before)
        if several:
            made[f"{folder}/case.yaml"] = f"module: {module.name}\n".encode()
    refusal = _refusal(recipe, modules[0].name)
    made["cases/place-gone/before.py"] = b""
    made["cases/place-gone/case.yaml"] = f"refuses: {json.dumps(refusal)}\n".encode() + (
        f"module: {modules[0].name}\n".encode() if several else b""
    )
    return made


def _small(recipe: Recipe, module: _Module) -> bytes:
    def applies(data: bytes) -> bool:
        try:
            _made_of(recipe, module.name, data)
        except CannotPlace:
            return False
        return True

    data = module.change.before or b""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    small = pruned(data, *_needed(Source(data, module.name), _file(recipe, module.name)))
    return reduced(small, applies, tries=40) if applies(small) else reduced(data, applies)


def _needed(source: Source, file: RecipeFile) -> tuple[set[int], set[int]]:
    """Where the statements begin that a recipe's edits name, and which of them are meant whole."""
    keep: set[int] = set()
    whole: set[int] = set()
    for step in file.steps:
        anchor = getattr(step.operation, "at", None) or Anchor(scope=getattr(step.operation, "scope", ()))
        marks = [one for one in (anchor.after, anchor.before) if one is not None]
        for one in (
            anchor,
            *(msgspec.structs.replace(mark, scope=mark.scope or anchor.scope) for mark in marks),
        ):
            for spot in find(source, one, step.operation.id):
                starts = [source.line_start(source.start(node)) for node in _statements(spot)]
                keep |= set(starts)
                whole |= set(starts) if step.operation.op in _WHOLE else set()
        function = find_scope(source, anchor.scope, step.operation.id)
        for name in getattr(step.operation, "bound", ()):
            for node in (*source.tree.body, *getattr(function.node, "body", ())):
                if name in bound_names(node):
                    keep.add(source.line_start(source.start(node)))
    return keep, whole


def _statements(spot: Place) -> list[ast.stmt]:
    return spot.body[spot.index : spot.index + spot.count] if spot.body else []


def _file(recipe: Recipe, module: str) -> RecipeFile:
    return next(file for file in recipe.files if file.module == module)


def _made_of(recipe: Recipe, module: str, data: bytes) -> bytes:
    bound, file = bind(recipe, {}, {}), _file(recipe, module)
    return apply(data, filled(changes(bound, file, data, where=module, version=None, python=None).edits, ""))


def _refusal(recipe: Recipe, module: str) -> str:
    try:
        _made_of(recipe, module, b"")
    except CannotPlace as refusal:
        return refusal.reasons[0].what
    return ""


def _prove(recipe: Recipe, modules: Sequence[_Module]) -> None:
    """The recipe gives the bytes it was made of. Raises Refused (a fault of oeactl) where it does not."""
    for module in modules:
        data = module.change.before or b""
        try:
            same = module.made.left or _made_of(recipe, module.name, data) == module.change.after
        except CannotPlace as refusal:
            reason = refusal.reasons[0]
            raise Refused(f"{module.name}: {reason.what}", where=reason.place) from refusal
        if not same:
            raise Refused(f"{module.name}: the edits together give other bytes", where=module.change.path)
