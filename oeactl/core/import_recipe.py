"""A recipe made of changes that somebody has already: its edits, guards and cases, and what it leaves out.

Owns: the recipe's folder as text, and the proof that it gives on its own release the bytes it was made of.
Refuses: what has no place in a recipe, by name: renamed files, binary ones, deleted ones.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from oeactl.core.anchors import find, find_scope
from oeactl.core.guards import has
from oeactl.core.host import Value
from oeactl.core.import_cases import cases_of, made_of, stem
from oeactl.core.importing import Imported, Left, import_module
from oeactl.core.naming import anchor_of
from oeactl.core.reasons import CannotPlace
from oeactl.core.recipe import Recipe, load_recipe
from oeactl.core.scopes import blocks, names_at, surely_bound
from oeactl.core.source import Source, parse_module, unswept
from oeactl.core.whole import module_of
from oeactl.core.writing import to_yaml
from oeactl.errors import Refused

_BOUND = ("insert_before", "insert_after", "replace_statement", "body_start")
_GUARDS = 8


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
    with unswept():
        return _imported(id, given, title=title, summary=summary, package=package, version=version)


def _imported(
    id: str, given: Sequence[FileChange], *, title: str, summary: str, package: str, version: str | None
) -> ImportedRecipe:
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
        what = "nothing of it can be made into a recipe" if left else "nothing differs from the engine's own"
        raise Refused(f"{id}: {what}", details=left)
    if left:
        document["unanchored"] = list(left)
    files = {"recipe.yaml": to_yaml(document).encode(), **snippets}
    sources = {module.name: module.change.before or b"" for module in modules}
    files |= cases_of(files, sources, {change.path: (change.before, change.after or b"") for change in whole})
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
        name = f"{stem(_innermost(edit) or module.name)}-{next(numbers)}"
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


def _innermost(edit: dict[str, Any]) -> str:
    """The definition that an edit is in; '' for the module itself."""
    return next((chain[-1].split()[-1] for chain in reversed(list(_chains(edit))) if chain), "")


def _needs(old: Source, new: Source, edits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Guards: the definitions that are edited, and names that would mean that upstream has the change."""
    scopes = {tuple(link.split()[-1] for link in chain) for edit in edits for chain in _chains(edit)}
    symbols = sorted(".".join(chain) for chain in scopes if chain and has(old.tree, ".".join(chain)))
    known = set(_defined(old.tree))
    named = (name for name in dict.fromkeys(_defined(new.tree)) if name not in known)
    fresh = list(itertools.islice((name for name in named if _is_fresh(old.tree, name)), _GUARDS))
    needs: dict[str, Any] = {}
    if symbols:
        needs["symbols"] = symbols
    if fresh:
        needs["upstreamed"] = fresh
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
    return sorted(read & _names_there(old, edit)) if read else []


def _names_there(old: Source, edit: dict[str, Any]) -> set[str]:
    """The names that surely have a value at every place of an edit."""
    if "at" not in edit:
        (body,) = (body for _, body in blocks(find_scope(old, tuple(edit["scope"]), "import").node))
        return names_at(old.tree, body[0])
    there: list[set[str]] = []
    for spot in find(old, anchor_of(edit["at"]), "import"):
        have = names_at(old.tree, spot.statement)
        past = spot.body[spot.index : spot.index + spot.count] if edit["op"] == "insert_after" else ()
        there.append(have.union(*map(surely_bound, past)))
    return set.intersection(*there)


def _prove(recipe: Recipe, modules: Sequence[_Module]) -> None:
    """The recipe gives the bytes it was made of. Raises Refused (a fault of oeactl) where it does not."""
    for module in modules:
        data = module.change.before or b""
        try:
            same = module.made.left or made_of(recipe, module.name, data) == module.change.after
        except CannotPlace as refusal:
            reason = refusal.reasons[0]
            raise Refused(f"{module.name}: {reason.what}", where=reason.place) from refusal
        if not same:
            raise Refused(f"{module.name}: the edits together give other bytes", where=module.change.path)
