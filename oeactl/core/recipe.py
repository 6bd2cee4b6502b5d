"""A recipe's folder, read into values: what it changes, under which conditions, with which parameters.

Owns: the format of ``recipe.yaml`` and everything that can be wrong with a recipe before any engine is
looked at. Refuses: files (bytes come in), a recipe without cases, code it cannot parse.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.document import Node, build, nearest, parse
from oeactl.core.host import Value
from oeactl.core.launch import placeholders
from oeactl.core.operations import Step
from oeactl.core.recipe_document import (
    FileDocument,
    LaunchDocument,
    Parameter,
    RecipeDocument,
    Tested,
    VariantDocument,
)
from oeactl.core.rules import names as names_in
from oeactl.core.steps import read_file, under
from oeactl.core.transform import Script
from oeactl.core.whole import WholeFile, read_whole_files
from oeactl.errors import UsageError

FILE = "recipe.yaml"
EVIDENCE = "tested.json"
RESERVED = frozenset({"recipe", "revision", "digest", "matched"})
_ID = re.compile(r"[a-z][a-z0-9_-]*")
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
ID_RULE = "an id is lower-case letters, digits, '-' and '_', a letter first"


class Variant(Value, frozen=True, kw_only=True):
    """A variant with its code read."""

    document: VariantDocument
    steps: tuple[Step, ...]


class RecipeFile(Value, frozen=True, kw_only=True):
    """A module's part of the recipe with its code read."""

    document: FileDocument
    variants: tuple[Variant, ...]
    steps: tuple[Step, ...]
    script: Script | None = None

    @property
    def module(self) -> str:
        return self.document.module


class Case(Value, frozen=True, kw_only=True):
    """A small source and what the recipe makes of it.

    target: the module, or a whole file's path; '' for a case of the launch. before: None where no file is.
    after, or its sha256: what is expected, or ``refuses``: which words the refusal must hold. fold: in
    ``after`` the lines inside our marks are left out. config: the model's; version: the engine's.
    """

    name: str
    target: str
    before: bytes | None
    after: bytes | None
    sha256: str | None
    launch: LaunchDocument | None
    refuses: str | None
    sets: dict[str, str]
    config: dict[str, Any]
    version: str | None
    fold: bool


class Recipe(Value, frozen=True, kw_only=True):
    """A recipe that could be read. sources: its whole folder, path -> bytes; key: sha256 of that."""

    document: RecipeDocument
    files: tuple[RecipeFile, ...]
    whole_files: tuple[WholeFile, ...]
    cases: tuple[Case, ...]
    sources: dict[str, bytes]
    key: str

    @property
    def id(self) -> str:
        return self.document.id

    @property
    def revision(self) -> int:
        return self.document.revision

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules, and paths of whole files, that it changes: what a survey must look at."""
        whole = (path for file in self.whole_files for path in file.paths)
        return (*(file.module for file in self.files), *whole)


def load_recipe(files: Mapping[str, bytes], where: str = "") -> Recipe:
    """Read a recipe's folder: relative posix path -> bytes. where: the folder, for messages.

    Raises UsageError with file, line, key and the key that was probably meant.
    """
    from oeactl.core.cases import read_cases

    prefix = f"{where.rstrip('/')}/" if where else ""
    if FILE not in files:
        raise UsageError(f"a recipe's folder holds a {FILE}", where=where or None)
    root = parse(files[FILE], f"{prefix}{FILE}")
    document = with_evidence(build(root, RecipeDocument), files.get(EVIDENCE, b"{}"), f"{prefix}{EVIDENCE}")
    check_header(root, document)
    check_rules(root, document)
    steps = tuple(
        read_file(under(root, "files").value[at], file, document, files, prefix)
        for at, file in enumerate(document.files)
    )
    return Recipe(
        document=document,
        files=steps,
        whole_files=read_whole_files(root, document, files, prefix),
        cases=read_cases(files, document, prefix),
        sources=dict(files),
        key=_key(files),
    )


def _key(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{len(path)} {path} {len(files[path])} ".encode() + files[path])
    return digest.hexdigest()


def is_id(text: str) -> bool:
    """Whether a recipe may be called so."""
    return _ID.fullmatch(text) is not None


def with_evidence(document: RecipeDocument, text: bytes, where: str) -> RecipeDocument:
    """The document with the tested files of tested.json behind its own."""
    try:
        seen = msgspec.json.decode(text, type=dict[str, dict[str, tuple[str, ...]]])
    except msgspec.DecodeError as error:
        raise UsageError(f"not what a test wrote: {error}", where=where) from error
    modules = {file.module for file in document.files}
    for module in seen:
        if module not in modules:
            raise UsageError(f"{module} is no module of the recipe", where=where)
    files = []
    for file in document.files:
        rows = seen.get(file.module, {})
        more = (Tested(version=version, sha256=sha256) for sha256 in rows for version in rows[sha256])
        files.append(msgspec.structs.replace(file, tested=(*file.tested, *more)))
    return msgspec.structs.replace(document, files=tuple(files))


def check_header(root: Node, document: RecipeDocument) -> None:
    """What is wrong with names, ranges, defaults and the launch. Raises UsageError."""
    if not is_id(document.id):
        raise UsageError(ID_RULE, where=under(root, "id").where)
    _check_versions(document.engine.versions, under(root, "engine", "versions"))
    if not (document.files or document.whole_files) and document.launch == LaunchDocument():
        raise UsageError("the recipe changes nothing: no files, no launch", where=root.where)
    texts = (*document.launch.args, *document.launch.env.values())
    for name in (name for text in texts for name in placeholders(text)):
        if name not in document.parameters:
            meant = nearest(name, document.parameters)
            raise UsageError(
                f"the launch uses {{{name}}}, which is no parameter",
                where=under(root, "launch").where,
                hint=f"did you mean {{{meant}}}?" if meant else None,
            )
    seen: set[str] = set()
    for at, file in enumerate(document.files):
        node = under(root, "files").value[at]
        if file.module in seen:
            raise UsageError(f"module {file.module} is listed twice", where=node.where)
        seen.add(file.module)
        fault = module_fault(file.module, document.engine.package)
        if fault:
            raise UsageError(f"'{file.module}' {fault}", where=under(node, "module").where)
        for index, variant in enumerate(file.variants):
            _check_versions(variant.versions, under(node, "variants").value[index])
    for name, parameter in document.parameters.items():
        node = under(root, "parameters", name)
        if not _NAME.fullmatch(name) or name in RESERVED:
            raise UsageError(f"'{name}' cannot name a parameter", where=node.where)
        fault = value_fault(parameter, parameter.default)
        if fault:
            raise UsageError(f"default of {name} {fault}", where=under(node, "default").where)


def module_fault(module: str, package: str) -> str | None:
    """Why a module cannot be named, or None."""
    if not all(part.isidentifier() for part in module.split(".")):
        return "is no module: write it as it is imported, with dots"
    return None if module.split(".")[0] == package else f"is not in {package}, the engine's package"


def _check_versions(text: str | None, node: Node) -> None:
    if text is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise UsageError(
            f"'{text}' is no version range", where=node.where, hint='write it as ">=0.4.7, <0.6"'
        ) from error


def check_rules(root: Node, document: RecipeDocument) -> None:
    """What is wrong with rules and guards. Raises UsageError."""
    known = {*document.parameters, *document.facts}
    for key, rules in (("rules", document.rules), ("guards", document.guards)):
        for at, rule in enumerate(rules):
            where = under(root, key).value[at].where
            try:
                used = names_in(rule.check) | set(re.findall(r"\{(\w+)\}", rule.message))
            except SyntaxError as error:
                raise UsageError(f"'{rule.check}' is no condition: {error.msg}", where=where) from error
            for name in sorted(used - known):
                meant = nearest(name, known)
                raise UsageError(
                    f"'{name}' is neither a parameter nor a fact",
                    where=where,
                    hint=f"did you mean '{meant}'?" if meant else None,
                )


def value_fault(parameter: Parameter, value: object) -> str | None:
    """What is wrong with a value for a parameter, or None."""
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "bool": (bool,),
        "str": (str,),
    }
    is_bool = isinstance(value, bool) and parameter.type != "bool"
    if is_bool or not isinstance(value, kinds[parameter.type]):
        return f"must be {parameter.type}, not {value!r}"
    if parameter.choices and value not in parameter.choices:
        return f"must be one of {', '.join(map(str, parameter.choices))}, not {value!r}"
    if isinstance(value, int | float):
        if value != value or value in (float("inf"), float("-inf")):
            return "must be a finite number"
        if parameter.min is not None and value < parameter.min:
            return f"must be at least {parameter.min}, not {value}"
        if parameter.max is not None and value > parameter.max:
            return f"must be at most {parameter.max}, not {value}"
    return None


def describe(recipe: Recipe) -> dict[str, Any]:
    """The recipe for people and programs, ready for JSON: header, parameters, conditions, files, cases."""
    told: dict[str, Any] = msgspec.to_builtins(recipe.document)
    for whole, given in zip(recipe.whole_files, told["whole_files"], strict=True):
        given["sha256"] = hashlib.sha256(whole.content).hexdigest()
    for file, given in zip(recipe.files, told["files"], strict=True):
        given["edits"] = _told(file.steps)
        for variant, made in zip(file.variants, given["variants"], strict=True):
            made["edits"] = _told(variant.steps)
    return {**told, "cases": [case.name for case in recipe.cases], "key": recipe.key}


def _told(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [
        {
            key: value
            for key, value in msgspec.to_builtins(step.operation).items()
            if value not in (None, [], {}) and key != "code"
        }
        for step in steps
    ]
