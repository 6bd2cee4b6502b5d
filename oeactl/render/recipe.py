"""One recipe as a person reads it, and how it went on an engine.

Owns: the wording. Refuses: to print, and to decide what is well.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from oeactl.core.anchors import KINDS, Anchor
from oeactl.core.guards import Needs
from oeactl.core.launch import placeholders
from oeactl.core.operations import Operation, Step
from oeactl.core.plan import AlreadyApplied, Planned
from oeactl.core.recipe import Recipe, RecipeFile
from oeactl.core.recipe_document import Parameter
from oeactl.core.whole import WholeFile
from oeactl.render.change import launch_words, parameters
from oeactl.render.diff import unified_diff

if TYPE_CHECKING:
    from oeactl.core.cases import CaseResult
    from oeactl.core.import_recipe import ImportedRecipe
    from oeactl.core.lint import Finding
    from oeactl.core.outcomes import Checked

_WORDS = {
    "definition": "{}",
    "statement": "`{}`",
    "contains": "the statement with `{}`",
    "expression": "`{}`",
    "binds": "the statement that binds {}",
    "tests": "the if that tests {}",
}


def recipe_lines(recipe: Recipe) -> str:
    """One recipe: what it does, its parameters, where it applies, its places, its cases."""
    document = recipe.document
    lines = [f"{recipe.id}, revision {recipe.revision}: {document.title}"]
    if document.summary:
        lines += ["", document.summary.strip()]
    lines += ["", f"for: {document.engine.package} {document.engine.versions or ''}".rstrip()]
    tried = tried_on(recipe)
    lines += [f"tried on: {_some(tried)}"] if tried else []
    lines += [f"paper: {document.source.paper}"] if document.source.paper else []
    lines += [f"see: {document.source.url}"] if document.source.url else []
    if document.parameters:
        lines += ["parameters:", *(f"  {_parameter(*item)}" for item in document.parameters.items())]
    lines += ["rules:", *(f"  {rule.check}" for rule in document.rules)] if document.rules else []
    lines += ["the model:", *(f"  {guard.check}" for guard in document.guards)] if document.guards else []
    lines += ["changes:"] if recipe.modules else []
    lines += [line for file in recipe.files for line in _file_lines(file)]
    lines += [line for whole in recipe.whole_files for line in _whole_lines(whole)]
    launch = [*document.launch.args, *(f"{name}={value}" for name, value in document.launch.env.items())]
    lines += [f"adds to the launch: {' '.join(map(_quoted, launch))}"] if launch else []
    lines += [f"unfinished: {text}" for text in document.unanchored]
    return "\n".join([*lines, f"cases: {', '.join(case.name for case in recipe.cases)}"])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"{len(names)} releases, {names[0]} to {names[-1]}"


def tried_on(recipe: Recipe) -> tuple[str, ...]:
    """The releases of which every module is a tested one, in the order given."""
    rows = [[tested.version for tested in file.document.tested] for file in recipe.files]
    return tuple(version for version in (rows[0] if rows else ()) if all(version in row for row in rows))


def _parameter(name: str, parameter: Parameter) -> str:
    low, high = parameter.min, parameter.max
    limits = [f"at least {low}"] if low is not None else []
    limits += [f"at most {high}"] if high is not None else []
    limits += [f"one of {', '.join(map(str, parameter.choices))}"] if parameter.choices else []
    about = f": {parameter.about}" if parameter.about else ""
    return f"{name}={parameter.default} ({', '.join([parameter.type, *limits])}){about}"


def _file_lines(file: RecipeFile) -> Iterator[str]:
    yield f"  {file.module}"
    needs = needs_words(file.document.require)
    if needs:
        yield f"    needs {needs}"
    if file.script is not None:
        yield f"    by a script of its own, {file.document.transform}: only with --allow-code"
    for step in file.steps:
        yield f"    {step_words(step)}"
    for variant in file.variants:
        document = variant.document
        known = [f"sha256 {sha256[:12]}" for sha256 in document.sha256]
        when = "; ".join(filter(None, [*known, document.versions, needs_words(document.when)]))
        yield f"    variant '{document.id}'{f', where {when}' if when else ''}"
        for step in variant.steps:
            yield f"      {step_words(step)}"


def _whole_lines(whole: WholeFile) -> Iterator[str]:
    yield f"  {', or '.join(whole.paths)}"
    known = ", ".join(sha256[:12] for sha256 in whole.document.replaces)
    place = f"in the place of sha256 {known}" if known else "where no file is"
    yield f"    {whole.document.source}, {len(whole.content)} bytes, as a whole, {place}"


def _quoted(word: str) -> str:
    return word if placeholders(word) and " " not in word else shlex.quote(word)


def needs_words(needs: Needs) -> str:
    """What a source must hold, on one line; '' for nothing."""
    words = [f"{name}({', '.join(wanted)})" for name, wanted in needs.parameters.items()]
    words = [*needs.symbols, *words]
    words += [f"no {name}" for name in needs.absent]
    words += [f"{name} not yet there" for name in needs.upstreamed]
    return ", ".join(words)


def step_words(step: Step) -> str:
    """One edit on one line: its name, what it does, where."""
    operation = step.operation
    at = getattr(operation, "at", None)
    scope = getattr(operation, "scope", ())
    place = anchor_words(at) if at is not None else " / ".join(scope)
    if hasattr(operation, "module"):
        place = f"{operation.name} of {operation.module}"  # type: ignore[attr-defined]
    return (
        f"[{operation.id}] {operation.op.replace('_', ' ')}{f': {place}' if place else ''}{_after(operation)}"
    )


def _after(operation: Operation) -> str:
    return f" (builds on {', '.join(operation.builds_on)})" if operation.builds_on else ""


def anchor_words(anchor: Anchor) -> str:
    """A place as a sentence's part: what, which of several, where."""
    given = next((name for name in KINDS if getattr(anchor, name) is not None), None)
    words = "" if given is None else _WORDS[given].format(" ".join(getattr(anchor, given).split()))
    every = f", all {anchor.count}" if anchor.count else ", all of them"
    which = {"first": ", the first", "last": ", the last", "all": every}
    words += which.get(anchor.pick, "")
    if anchor.part:
        words = f"{anchor.part} of {words}"
    if anchor.scope:
        words = f"{words} in {' / '.join(anchor.scope)}" if given else " / ".join(anchor.scope)
    if anchor.depth == "top":
        words += ", at its top level"
    for name in ("after", "before"):
        other = getattr(anchor, name)
        if other is not None:
            words += f", {name} {anchor_words(other)}"
    return words


def checked_lines(found: Checked, *, whole: bool) -> str:
    """How a recipe fits an engine; whole: with the differences."""
    engine, plan = found.survey.engine, found.plan
    layer = plan.layer
    lines = [f"{engine.package} {engine.version or '(no version)'} in {engine.root}"]
    if engine.git_commit:
        changed = f", with changes sha256 {engine.git_dirty_sha256[:12]}" if engine.git_dirty_sha256 else ""
        lines.append(f"  git commit {engine.git_commit}{changed}")
    values = parameters(layer.parameters)
    head = f"{layer.recipe} r{layer.revision}{f' {values}' if values else ''}"
    if isinstance(plan, AlreadyApplied):
        return "\n".join([*lines, f"{head} is applied there already", *_notes(found.notes)])
    known = "every file is a tested one" if plan.listed else "unlisted: no release is known by these files"
    known = f"; {known}" if found.variants else ""
    lines.append(f"{head} applies, plan {plan.digest[:12]}, {found.seconds * 1e3:.0f} ms{known}")
    for file in plan.files:
        diff = unified_diff(file.path, file.before, file.after)
        variant = found.variants.get(file.module)
        lines.append(f"  {file.module}: {_size(diff)}{f', variant {variant!r}' if variant else ''}")
        lines += [diff] if whole else []
    lines += [f"  the server is started with {words}"] if (words := launch_words(layer)) else []
    lines.append("  planned again it changes nothing; taken back it gives the bytes that are there")
    return "\n".join([*lines, *_notes(found.notes)])


def checked_document(found: Checked) -> dict[str, Any]:
    """How a recipe fits an engine, as one JSON document."""
    plan, engine = found.plan, found.survey.engine
    applied = isinstance(plan, AlreadyApplied)
    return {
        "status": "already applied" if applied else "applies",
        "recipe": plan.layer.recipe,
        "revision": plan.layer.revision,
        "parameters": plan.layer.parameters,
        "digest": plan.layer.digest,
        "engine": msgspec.to_builtins(engine),
        "listed": plan.listed if isinstance(plan, Planned) else None,
        "files": [
            {
                "module": file.module,
                "path": file.path,
                "variant": found.variants.get(file.module),
                "before_sha256": file.before_sha256,
                "after_sha256": file.after_sha256,
                "diff": unified_diff(file.path, file.before, file.after),
            }
            for file in getattr(plan, "files", ())
        ],
        "seconds": found.seconds,
        "notes": found.notes,
    }


def _size(diff: str) -> str:
    lines = diff.splitlines()[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"+{added} -{removed} lines"


def _notes(notes: Sequence[str]) -> list[str]:
    return [f"  note: {note}" for note in notes]


def files_words(count: int) -> str:
    """``1 file``, ``2 files``."""
    return "1 file" if count == 1 else f"{count} files"


def imported_lines(folder: str, made: ImportedRecipe, outside: Sequence[str], engine: str) -> str:
    """What an import wrote, what it left out, and what comes next. engine: the words that name it."""
    edits = "1 edit" if made.edits == 1 else f"{made.edits} edits"
    lines = [f"{folder}/: {edits}, {files_words(len(made.files))}"]
    lines += [f"  outside the engine, not in the recipe: {name}" for name in outside]
    lines += [f"  left out: {text}" for text in made.left]
    name = folder.rpartition("/")[2]
    if made.left:
        lines.append("the recipe is not applied as it is: add what was left out, then take 'unanchored' out")
    lines.append(f"next: oeactl recipe test {name}; oeactl recipe check {name} {engine}")
    return "\n".join(lines)


def finding_line(finding: Finding) -> str:
    """``recipes/x/recipe.yaml:7: warning: what; hint``."""
    hint = f"; {finding.hint}" if finding.hint else ""
    return f"{finding.where}: {finding.level}: {finding.what}{hint}"


def case_lines(recipe: str, results: Sequence[CaseResult], accepted: frozenset[str]) -> str:
    """A line a case; under one that fails, why or the difference."""
    lines = []
    for result in results:
        word = "accepted" if result.name in accepted else "ok" if result.ok else "FAILS"
        lines.append(f"{word:8} {recipe}/{result.name}")
        if not result.ok:
            lines += [f"  {line}" for line in (result.why or result.diff).splitlines()]
    return "\n".join(lines)
