"""What is wrong or weak in a recipe, each finding at its file and line.

Owns: the checks that need no engine: everything that keeps a recipe from loading, cases that fail, and what a
reviewer would ask about. Refuses: to change the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal

from oeactl.core import recipe as reading
from oeactl.core.cases import read_cases, run_cases
from oeactl.core.changes import changes
from oeactl.core.document import Node, build, parse
from oeactl.core.guards import Needs
from oeactl.core.host import Value
from oeactl.core.launch import placeholders
from oeactl.core.operations import Coded, Step
from oeactl.core.parameters import bind
from oeactl.core.reasons import CannotPlace
from oeactl.core.recipe import FILE, Recipe, RecipeFile
from oeactl.core.recipe_document import RecipeDocument
from oeactl.core.rules import names as names_in
from oeactl.core.steps import read_file, under
from oeactl.core.transform import Transformer
from oeactl.core.whole import read_whole_files
from oeactl.errors import Refused, UsageError

_KNOWN_FILES = (FILE, reading.EVIDENCE, "README.md")


class Finding(Value, frozen=True, kw_only=True):
    """One finding. error: the recipe does not load, or a case of it fails; warning: worth a look."""

    level: Literal["error", "warning"]
    where: str
    what: str
    hint: str | None = None


def lint(
    files: Mapping[str, bytes], folder: str, transformer: Transformer | None = None
) -> tuple[Finding, ...]:
    """Everything about a recipe's folder (path -> bytes), errors first. folder: its name, for messages."""
    prefix = f"{folder.rstrip('/')}/" if folder else ""
    faults = tuple(_faults(files, prefix))
    if faults:
        return tuple(
            Finding(level="error", where=fault.where or folder, what=fault.what, hint=fault.hint)
            for fault in faults
        )
    loaded = reading.load_recipe(files, folder)
    root = parse(files[FILE], f"{prefix}{FILE}")
    found = [*_case_errors(loaded, prefix, transformer), *_unfinished(loaded, root)]
    checks = (_header, _parameters, _facts, _modules, _coverage)
    found += [finding for check in checks for finding in check(loaded, root)]
    return (*found, *_strays(loaded, files, prefix))


def _faults(files: Mapping[str, bytes], prefix: str) -> Iterator[UsageError]:
    """Every reason for which the recipe does not load, as far as one does not hide another."""
    try:
        if FILE not in files:
            raise UsageError(f"a recipe's folder holds a {FILE}", where=prefix)
        root = parse(files[FILE], f"{prefix}{FILE}")
        document = build(root, RecipeDocument)
        reading.with_evidence(document, files.get(reading.EVIDENCE, b"{}"), f"{prefix}{reading.EVIDENCE}")
    except UsageError as fault:
        yield fault
        return
    checks: list[Callable[[], object]] = [
        lambda: reading.check_header(root, document),
        lambda: reading.check_rules(root, document),
        lambda: read_whole_files(root, document, files, prefix),
        lambda: read_cases(files, document, prefix),
    ]
    for at, file in enumerate(document.files):
        node = under(root, "files").value[at]
        checks.append(partial(read_file, node, file, document, files, prefix))
    for check in checks:
        try:
            check()
        except UsageError as fault:
            yield fault


def _case_errors(recipe: Recipe, prefix: str, transformer: Transformer | None) -> Iterator[Finding]:
    try:
        results = run_cases(recipe, transformer)
    except Refused as refusal:
        yield Finding(level="warning", where=f"{prefix}{FILE}", what=f"cases not run: {refusal.what}")
        return
    for result in results:
        if not result.ok:
            what = f"case {result.name} fails: {(result.why or 'another text came out').splitlines()[0]}"
            hint = "oeactl recipe test shows the difference"
            yield Finding(level="error", where=f"{prefix}cases/{result.name}", what=what, hint=hint)


def _unfinished(recipe: Recipe, root: Node) -> Iterator[Finding]:
    for text, node in zip(recipe.document.unanchored, under(root, "unanchored").value or (), strict=False):
        yield Finding(level="error", where=node.where, what=f"left out by the import: {text}")


def _warn(node: Node, what: str, hint: str | None = None) -> Finding:
    return Finding(level="warning", where=node.where, what=what, hint=hint)


def _header(recipe: Recipe, root: Node) -> Iterator[Finding]:
    document = recipe.document
    if not document.engine.versions:
        yield _warn(under(root, "engine"), "no version range", 'versions: ">=0.5"')
    if not document.summary:
        yield _warn(under(root, "title"), "no summary: why would one want it, and what does it cost?")


def _parameters(recipe: Recipe, root: Node) -> Iterator[Finding]:
    document = recipe.document
    scripted = any(file.script is not None for file in recipe.files)
    used = {hole.name for step in _steps(recipe) if step.snippet for hole in step.snippet.holes}
    launch = (*document.launch.args, *document.launch.env.values())
    used |= {name for text in launch for name in placeholders(text)}
    for name, parameter in document.parameters.items():
        node = under(root, "parameters", name)
        if name not in used and not scripted:
            yield _warn(node, f"parameter {name} is used by no code", f"OEACTL.{name} in a snippet")
        if not parameter.about:
            yield _warn(node, f"parameter {name} does not say what it is", "about: ...")


def _facts(recipe: Recipe, root: Node) -> Iterator[Finding]:
    rules = (*recipe.document.rules, *recipe.document.guards)
    used = {name for rule in rules for name in names_in(rule.check)}
    for name in recipe.document.facts:
        if name not in used:
            yield _warn(under(root, "facts", name), f"fact {name} is used by no rule or guard")


def _modules(recipe: Recipe, root: Node) -> Iterator[Finding]:
    for at, file in enumerate(recipe.files):
        node = under(root, "files").value[at]
        guarded = file.document.require != Needs() or all(
            variant.document.when != Needs() or variant.document.sha256 for variant in file.variants
        )
        if not (guarded and (file.variants or file.document.require != Needs())):
            hint = "require: {symbols: [...], parameters: {function: [...]}}"
            yield _warn(node, f"{file.module}: nothing is required of it but its places", hint)


def _coverage(recipe: Recipe, root: Node) -> Iterator[Finding]:
    """Files, variants and refusals that no case shows."""
    shown = {case.target for case in recipe.cases}
    names = [(file.module,) for file in recipe.files] + [whole.paths for whole in recipe.whole_files]
    for group in names:
        if not shown & set(group):
            yield _warn(root, f"no case of {group[0]}")
    if recipe.document.launch != type(recipe.document.launch)() and "" not in shown:
        yield _warn(
            under(root, "launch"), "no case of the launch", "cases/NAME/case.yaml: launch: {args: [...]}"
        )
    if recipe.files and not any(case.refuses for case in recipe.cases):
        yield _warn(
            root, "no case in which it refuses", "a source that lacks the place, and 'refuses' in case.yaml"
        )
    for at, file in enumerate(recipe.files):
        taken = {_variant(recipe, file, case) for case in recipe.cases if case.target == file.module}
        node = under(root, "files").value[at]
        for index, variant in enumerate(file.variants):
            if variant.document.id not in taken:
                what = f"no case takes variant '{variant.document.id}'"
                yield _warn(under(node, "variants").value[index], what)


def _variant(recipe: Recipe, file: RecipeFile, case: reading.Case) -> str | None:
    try:
        bound = bind(recipe, case.sets, case.config)
        before = case.before or b""
        return changes(bound, file, before, where="before.py", version=case.version, python=None).variant
    except (CannotPlace, UsageError, Refused):
        return None


def _strays(recipe: Recipe, files: Mapping[str, bytes], prefix: str) -> Iterator[Finding]:
    used = {whole.document.source for whole in recipe.whole_files}
    used |= {file.document.transform or "" for file in recipe.files}
    for step in _steps(recipe):
        if isinstance(step.operation, Coded):
            used.add(step.operation.snippet or "")
    for path in files:
        if path not in used and path not in _KNOWN_FILES and not path.startswith("cases/"):
            yield Finding(
                level="warning", where=f"{prefix}{path}", what="nothing in the recipe uses this file"
            )


def _steps(recipe: Recipe) -> Iterator[Step]:
    for file in recipe.files:
        yield from file.steps
        for variant in file.variants:
            yield from variant.steps
