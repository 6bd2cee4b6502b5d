"""A recipe's own cases: small sources, and what the recipe makes of them.

``cases/<name>/before.py`` and ``after.py``, and, where needed, ``case.yaml`` with ``module`` (which of the
recipe's files it is), ``set`` (parameters), ``config`` (the model's), ``version`` (the engine's), ``refuses``
(words of the expected refusal, instead of after.py) and ``fold: true`` (after.py leaves out what is inside
our marks). A case of a whole file has ``path`` for ``module``; ``before.*`` is what lies there already, if
anything, and ``sha256`` may stand for ``after.*``. A case of the launch has ``launch``: args and env.

Owns: reading and running them. Refuses: a recipe that has none. In after.py the plan digest is sixty-four
zeros.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from oeactl.core.document import Node, build, nearest, parse, where
from oeactl.core.edits import apply, unified
from oeactl.core.host import Value
from oeactl.core.reasons import CannotPlace
from oeactl.core.recipe_document import LaunchDocument
from oeactl.core.transform import Transformer
from oeactl.errors import Refused, UsageError

if TYPE_CHECKING:
    from oeactl.core.recipe import Case, Recipe
    from oeactl.core.recipe_document import RecipeDocument

_PATH = re.compile(r"cases/([^/]+)/(?:(before|after)\.[A-Za-z0-9]+|case\.yaml)")
_FOLD = re.compile(rb"(^[ \t]*# >>> oeactl [^\r\n]*\r?\n).*?(^[ \t]*# <<< oeactl )", re.MULTILINE | re.DOTALL)
_DIGEST = "0" * 64


class CaseDocument(Value, frozen=True, kw_only=True):
    """case.yaml."""

    module: str | None = None
    path: str | None = None
    launch: LaunchDocument | None = None
    sets: dict[str, str] = msgspec.field(default_factory=dict, name="set")
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    version: str | None = None
    refuses: str | None = None
    sha256: str | None = None
    fold: bool = False


class CaseResult(Value, frozen=True, kw_only=True):
    """How a case went. diff: what was expected against what came out. why: a refusal, in its own words."""

    name: str
    ok: bool
    why: str = ""
    diff: str = ""


def read_cases(files: Mapping[str, bytes], recipe: RecipeDocument, prefix: str) -> tuple[Case, ...]:
    """Read ``cases/``. Raises UsageError when there is none, or one that cannot be run."""
    found: dict[str, dict[str, bytes]] = {}
    for path in files:
        if path.startswith("cases/"):
            match = _PATH.fullmatch(path)
            if match is None:
                raise UsageError(
                    "a case is before.py and after.py, with case.yaml where needed", where=f"{prefix}{path}"
                )
            case = found.setdefault(match[1], {})
            if match[2] in case:
                raise UsageError(f"case {match[1]} has two files '{match[2]}'", where=f"{prefix}{path}")
            case[match[2] or "case.yaml"] = files[path]
    if not found:
        raise UsageError(
            f"recipe {recipe.id} has no cases, and is not used without",
            where=f"{prefix}cases",
            hint="write cases/<name>/before.py and after.py; docs/recipes.md shows how",
        )
    return tuple(_read(name, found[name], recipe, f"{prefix}cases/{name}") for name in sorted(found))


def _read(name: str, files: Mapping[str, bytes], recipe: RecipeDocument, folder: str) -> Case:
    from oeactl.core.recipe import Case

    node = parse(files.get("case.yaml", b""), f"{folder}/case.yaml")
    document = build(node, CaseDocument)
    target = "" if document.launch is not None else _target(name, document, node, recipe, folder)
    before, after = files.get("before"), files.get("after")
    ways = [after is not None, document.refuses is not None, document.sha256 is not None]
    if document.launch is not None:
        if before is not None or after is not None:
            raise UsageError(f"case {name} is of the launch: it has no files", where=folder)
    elif sum(ways) != 1 or (before is None and document.path is None):
        raise UsageError(
            f"case {name} needs before.py, and either after.py or 'refuses' in case.yaml", where=folder
        )
    return Case(
        name=name,
        target=target,
        before=before,
        after=after,
        sha256=document.sha256,
        launch=document.launch,
        refuses=document.refuses,
        sets=document.sets,
        config=document.config,
        version=document.version,
        fold=document.fold,
    )


def _target(name: str, document: CaseDocument, node: Node, recipe: RecipeDocument, folder: str) -> str:
    """The module or the path that a case is of."""
    modules = [file.module for file in recipe.files]
    paths = [path for file in recipe.whole_files for path in (file.path, *file.or_path)]
    only = modules[0] if len(modules) == 1 and not paths else None
    target = document.path or document.module or only
    if target is None or target not in (paths if document.path else modules):
        known = [*(f"module: {module}" for module in modules), *(f"path: {path}" for path in paths)]
        meant = nearest(target or "", [*modules, *paths])
        raise UsageError(
            f"case {name} does not say which of the recipe's files it is",
            where=where(node, "path" if document.path else "module") if target else f"{folder}/case.yaml",
            hint=next((row for row in known if meant and row.endswith(f": {meant}")), " or ".join(known)),
        )
    return target


def run_cases(recipe: Recipe, transformer: Transformer | None = None) -> tuple[CaseResult, ...]:
    """Run every case of the recipe, in order of name. transformer: runs its scripts, where it has any.

    Raises Refused when it has and there is none.
    """
    if transformer is None and any(file.script for file in recipe.files):
        from oeactl.core.parameters import bind

        bind(recipe, {}, {})
    return tuple(_run(recipe, case, transformer) for case in recipe.cases)


def outcome(recipe: Recipe, case: Case, transformer: Transformer | None = None) -> bytes:
    """What the recipe makes of a case's source, as its after.py should have it.

    Raises CannotPlace; UsageError or Refused for its parameters.
    """
    from oeactl.core.changes import changes, filled
    from oeactl.core.parameters import bind

    bound = bind(recipe, case.sets, case.config, transformer)
    file = next((file for file in recipe.files if file.module == case.target), None)
    if file is None:
        return _whole(recipe, case)
    before = case.before or b""
    made = changes(bound, file, before, where="before.py", version=case.version, python=None)
    text = apply(before, filled(made.edits, _DIGEST))
    return _FOLD.sub(rb"\1\2", text) if case.fold else text


def _whole(recipe: Recipe, case: Case) -> bytes:
    from oeactl.core.standing import Standing, hash_of
    from oeactl.core.whole import put

    whole = next(file for file in recipe.whole_files if case.target in file.paths)
    original = case.before
    standing = Standing(
        state="missing" if original is None else "pristine",
        module=case.target,
        path=case.target,
        original=original or b"",
        original_sha256=hash_of(original),
    )
    return apply(standing.original, put(whole, standing))


def _run(recipe: Recipe, case: Case, transformer: Transformer | None) -> CaseResult:
    try:
        if case.launch is not None:
            return _run_launch(recipe, case)
        made = outcome(recipe, case, transformer)
    except CannotPlace as refusal:
        return _refused(case, "\n".join(line for reason in refusal.reasons for line in reason.lines()))
    except (UsageError, Refused) as error:
        return _refused(case, error.what)
    if case.refuses is not None:
        return CaseResult(name=case.name, ok=False, why=f"was not refused, expected: {case.refuses}")
    if case.sha256 is not None:
        found = hashlib.sha256(made).hexdigest()
        ok = found == case.sha256
        why = "" if ok else f"what comes out has sha256 {found}, expected was {case.sha256}"
        return CaseResult(name=case.name, ok=ok, why=why)
    after = case.after or b""
    diff = unified(after, made, "after.py", "what the recipe makes of before.py")
    return CaseResult(name=case.name, ok=made == after, diff=diff)


def _refused(case: Case, said: str) -> CaseResult:
    if case.refuses is not None and case.refuses in said:
        return CaseResult(name=case.name, ok=True, why=said)
    wanted = "no refusal" if case.refuses is None else f"these words of it: {case.refuses}"
    return CaseResult(name=case.name, ok=False, why=f"it is refused, and expected was {wanted}\n{said}")


def _run_launch(recipe: Recipe, case: Case) -> CaseResult:
    from oeactl.core.launch import additions
    from oeactl.core.parameters import bind

    assert case.launch is not None
    args, env = additions(recipe.document.launch, bind(recipe, case.sets, case.config).parameters)
    if case.refuses is not None:
        return CaseResult(name=case.name, ok=False, why=f"was not refused, expected: {case.refuses}")
    ok = (args, env) == (case.launch.args, case.launch.env)
    return CaseResult(name=case.name, ok=ok, why="" if ok else f"adds {list(args)} and {env}")
