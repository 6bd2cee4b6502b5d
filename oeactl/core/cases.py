"""A recipe's own cases: small sources, and what the recipe makes of them.

``cases/<name>/before.py`` and ``after.py``, and, where needed, ``case.yaml`` with ``module`` (which of
the recipe's files it is), ``set`` (parameters), ``version`` (the engine's), ``refuses`` (words of the
expected refusal, instead of after.py) and ``fold: true`` (after.py leaves out what is inside our marks).

Owns: reading and running them. Refuses: a recipe that changes source and has none. In after.py the plan
digest is sixty-four zeros.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from oeactl.core.document import build, nearest, parse
from oeactl.core.edits import apply, unified
from oeactl.core.host import Value
from oeactl.core.reasons import CannotPlace
from oeactl.errors import UsageError

if TYPE_CHECKING:
    from oeactl.core.recipe import Case, Recipe, RecipeDocument

_PATH = re.compile(r"cases/([^/]+)/(before\.py|after\.py|case\.yaml)")
_FOLD = re.compile(rb"(^[ \t]*# >>> oeactl [^\r\n]*\r?\n).*?(^[ \t]*# <<< oeactl )", re.MULTILINE | re.DOTALL)
_DIGEST = "0" * 64


class CaseDocument(Value, frozen=True, kw_only=True):
    """case.yaml."""

    module: str | None = None
    sets: dict[str, str] = msgspec.field(default_factory=dict, name="set")
    version: str | None = None
    refuses: str | None = None
    fold: bool = False


class CaseResult(Value, frozen=True, kw_only=True):
    """How a case went. diff: what was expected against what came out. why: a refusal, in its own words."""

    name: str
    ok: bool
    why: str = ""
    diff: str = ""


def read_cases(files: Mapping[str, bytes], recipe: RecipeDocument, prefix: str) -> tuple[Case, ...]:
    """Read ``cases/``. Raises UsageError when there is none, or one that cannot be run."""
    names: set[str] = set()
    for path in files:
        if path.startswith("cases/"):
            match = _PATH.fullmatch(path)
            if match is None:
                raise UsageError(
                    "a case is before.py and after.py, with case.yaml where needed", where=f"{prefix}{path}"
                )
            names.add(match[1])
    if recipe.files and not names:
        raise UsageError(
            f"recipe {recipe.id} has no cases, and is not used without",
            where=f"{prefix}cases",
            hint="write cases/<name>/before.py and after.py",
        )
    return tuple(_read(name, files, recipe, prefix) for name in sorted(names))


def _read(name: str, files: Mapping[str, bytes], recipe: RecipeDocument, prefix: str) -> Case:
    from oeactl.core.recipe import Case

    folder = f"cases/{name}"
    text = files.get(f"{folder}/case.yaml", b"")
    document = build(parse(text, f"{prefix}{folder}/case.yaml"), CaseDocument)
    modules = [file.module for file in recipe.files]
    module = document.module or (modules[0] if len(modules) == 1 else None)
    if module not in modules:
        meant = nearest(module or "", modules)
        raise UsageError(
            f"case {name} does not say which of the recipe's modules it is",
            where=f"{prefix}{folder}/case.yaml",
            hint=f"module: {meant or modules[0]}" if modules else None,
        )
    before, after = files.get(f"{folder}/before.py"), files.get(f"{folder}/after.py")
    if before is None or (after is None) == (document.refuses is None):
        raise UsageError(
            f"case {name} needs before.py, and either after.py or 'refuses' in case.yaml",
            where=f"{prefix}{folder}",
        )
    return Case(
        name=name,
        module=module,
        before=before,
        after=after,
        refuses=document.refuses,
        sets=document.sets,
        version=document.version,
        fold=document.fold,
    )


def run_cases(recipe: Recipe) -> tuple[CaseResult, ...]:
    """Run every case of the recipe, in order of name."""
    return tuple(_run(recipe, case) for case in recipe.cases)


def outcome(recipe: Recipe, case: Case) -> bytes:
    """What the recipe makes of a case's source, as its after.py should have it. Raises CannotPlace."""
    from oeactl.core.changes import changes, filled
    from oeactl.core.parameters import bind

    bound = bind(recipe, case.sets, {})
    file = next(file for file in recipe.files if file.module == case.module)
    made = changes(bound, file, case.before, where="before.py", version=case.version, python=None)
    text = apply(case.before, filled(made.edits, _DIGEST))
    return _FOLD.sub(rb"\1\2", text) if case.fold else text


def _run(recipe: Recipe, case: Case) -> CaseResult:
    try:
        made = outcome(recipe, case)
    except CannotPlace as refusal:
        said = "\n".join(line for reason in refusal.reasons for line in reason.lines())
        ok = case.refuses is not None and case.refuses in said
        return CaseResult(name=case.name, ok=ok, why=said)
    if case.after is None:
        return CaseResult(name=case.name, ok=False, why=f"was not refused, expected: {case.refuses}")
    diff = unified(case.after, made, "after.py", "what the recipe makes of before.py")
    return CaseResult(name=case.name, ok=made == case.after, diff=diff)
