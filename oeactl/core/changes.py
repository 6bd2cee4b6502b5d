"""One module's source under one recipe: which variant fits, and the edits that it comes to.

Owns: guards, variants, stages (edits that build on others), and the checks that the changed text is sound.
Refuses: to know hosts, paths or other recipes. The same source is worked out once, however many hosts
hold it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from oeactl.core.blocks import Stamp
from oeactl.core.edits import Draft, Overlap, apply, invert
from oeactl.core.guards import Needs, already, in_range, unmet
from oeactl.core.host import Edit, Value
from oeactl.core.memo import Memo
from oeactl.core.operations import Step
from oeactl.core.parameters import Bound
from oeactl.core.placing import place
from oeactl.core.reasons import CannotPlace, Reason
from oeactl.core.recipe import RecipeFile, Variant
from oeactl.core.snippets import HOLE, literal
from oeactl.core.source import MAX_NESTING, Source, compile_fault, enclosing, nesting, unswept
from oeactl.core.transform import transformed


class Changed(Value, frozen=True, kw_only=True):
    """edits: against the pristine bytes, ``HOLE`` where the plan digest goes. variant: the one that fits."""

    edits: tuple[Edit, ...]
    variant: str | None
    notes: tuple[str, ...]


_made: Memo[Changed] = Memo(64)

#: Digests of statements that libcst has read and given back unchanged, perhaps in an earlier command.
read_back: set[str] = set()


def changes(
    bound: Bound, file: RecipeFile, pristine: bytes, *, where: str, version: str | None, python: str | None
) -> Changed:
    """Work out a module's edits. where: what messages call it; version, python: of the engine's host.

    Raises CannotPlace with every reason that was found.
    """
    sha256 = hashlib.sha256(pristine).hexdigest()
    values = json.dumps(bound.parameters, sort_keys=True)
    key = (bound.recipe.key, values, file.module, sha256, version, python)

    def make() -> Changed:
        with unswept():
            source = Source(pristine, where, python)
            made = _work(bound, file, source, sha256, version)
            _sound(source, pristine, made.edits)
            return made

    return _made.get(key, make)


def forget() -> None:
    """Work everything out afresh from here on (for measurements)."""
    _made.clear()


def filled(edits: Iterable[Edit], digest: str) -> tuple[Edit, ...]:
    """The edits with the plan digest in its place."""
    return tuple(
        Edit(start=edit.start, end=edit.end, text=edit.text.replace(HOLE.encode(), digest.encode()))
        for edit in edits
    )


def _work(bound: Bound, file: RecipeFile, source: Source, sha256: str, version: str | None) -> Changed:
    faults = unmet(source, file.document.require)
    variant = None if faults else _variant(file, source, sha256, version)
    if isinstance(variant, Reason):
        faults = (variant,)
    if faults or isinstance(variant, Reason):
        raise CannotPlace(*faults)
    steps = [*file.steps, *(variant.steps if variant else ())]
    steps, notes = _wanted(source, steps, independent=bound.recipe.document.independent)
    if file.script is not None:
        edits = transformed(file.script, source, _given(bound), bound.transformer)
    else:
        edits = _staged(source, steps, _values(bound, variant), _stamp(bound), notes)
    return Changed(
        edits=tuple(
            Edit(
                start=source.original(edit.start),
                end=source.original(edit.end),
                text=source.encode(edit.text),
            )
            for edit in edits
        ),
        variant=variant.document.id if variant else None,
        notes=tuple(notes),
    )


def _variant(file: RecipeFile, source: Source, sha256: str, version: str | None) -> Variant | Reason | None:
    if not file.variants:
        return None
    for variant in file.variants:
        if sha256 in variant.document.sha256:
            return variant
    why = []
    for variant in file.variants:
        only_by_hash = variant.document.versions is None and variant.document.when == Needs()
        if variant.document.sha256 and only_by_hash:
            why.append(f"{variant.document.id}: for another file")
            continue
        if in_range(version, variant.document.versions) is False:
            why.append(f"{variant.document.id}: for {variant.document.versions}, this is {version}")
            continue
        faults = unmet(source, variant.document.when)
        if not faults:
            return variant
        why.append(f"{variant.document.id}: {faults[0].what}")
    return Reason(kind="guard", what=f"no variant of the recipe fits: {'; '.join(why)}", where=source.where)


def _wanted(source: Source, steps: list[Step], *, independent: bool) -> tuple[list[Step], list[str]]:
    """The steps that upstream does not have yet.

    Raises CannotPlace where it has all, or some and the recipe is one whole.
    """
    kept: list[Step] = []
    notes: list[str] = []
    for step in steps:
        found = already(source, step.operation.absent)
        if not found:
            kept.append(step)
        elif independent:
            notes.append(f"{step.operation.id}: upstream has it already")
        else:
            raise CannotPlace(*found)
    if steps and not kept:
        what = "upstream has all of it already"
        raise CannotPlace(Reason(kind="upstreamed", what=what, where=source.where))
    return kept, notes


def _staged(
    source: Source, steps: list[Step], values: Mapping[str, str], stamp: Stamp, notes: list[str]
) -> tuple[Edit, ...]:
    """Run the steps, those that build on others after them, and say the whole against the source."""
    stages: dict[str, int] = {}
    for step in steps:
        before = [stages[other] for other in step.operation.builds_on if other in stages]
        stages[step.operation.id] = max(before) + 1 if before else 0
    draft = Draft(source.utf8)
    here = source
    for stage in range(max(stages.values(), default=-1) + 1):
        if stage:
            here = Source(draft.current, source.where, source.python)
        edits: list[Edit] = []
        faults: list[Reason] = []
        for step in steps:
            if stages[step.operation.id] != stage:
                continue
            try:
                made = place(here, step, values, stamp)
            except CannotPlace as refusal:
                faults += refusal.reasons
                continue
            if not made:
                notes.append(f"{step.operation.id}: the module has it already")
            edits += made
        if faults:
            raise CannotPlace(*faults)
        try:
            draft.change(edits)
        except Overlap as overlap:
            line = here.line(overlap.second.start)
            what = "two edits of the recipe touch the same text"
            raise CannotPlace(Reason(kind="overlap", what=what, where=source.where, line=line)) from overlap
    return draft.edits()


def _values(bound: Bound, variant: Variant | None) -> dict[str, str]:
    return {
        **{name: literal(value) for name, value in _given(bound).items()},
        **(variant.document.values if variant else {}),
    }


def _given(bound: Bound) -> dict[str, object]:
    """What every recipe's code may name."""
    recipe = bound.recipe
    return {**bound.parameters, "recipe": recipe.id, "revision": recipe.revision, "digest": HOLE}


def _stamp(bound: Bound) -> Stamp:
    document = bound.recipe.document
    return Stamp(recipe=document.id, revision=document.revision, marks=document.marks)


def _sound(before: Source, pristine: bytes, edits: tuple[Edit, ...]) -> None:
    """The gates on one module: nothing outside the edits changed, and both texts are whole Python.

    Raises CannotPlace.
    """
    after = apply(pristine, edits)
    back = invert(pristine, edits)
    if apply(after, back) != pristine:
        raise _gate("taking the edits back does not give the input", before.where)
    where = before.where
    try:
        changed = Source(after, where, before.python)
    except CannotPlace as refusal:
        (reason,) = refusal.reasons
        raise _gate(f"the changed text is {reason.what}", where, reason.line) from refusal
    fault = compile_fault(changed.text)
    if fault and not compile_fault(before.text):
        raise _gate(f"the changed text does not compile: {fault}", where)
    _concrete(before, (edit.start for edit in edits))
    _concrete(changed, (at for edit in back for at in (edit.start, edit.end)))


def _concrete(source: Source, offsets: Iterable[int]) -> None:
    """libcst reads the statements around ``offsets`` and gives back the same text. Raises CannotPlace."""
    shift = len(source.bom)
    for statement in enclosing(source, (max(offset - shift, 0) for offset in offsets)):
        line = source.line(source.start(statement))
        depth = nesting(statement)
        if depth > MAX_NESTING:
            raise source.unreadable(f"nests {depth} deep, more than {MAX_NESTING}", line=line)
        text = source.cut(statement)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest in read_back:
            continue
        import libcst  # only here: its import takes longer than all else that a plan needs

        try:
            same = libcst.parse_module(text).code == text
        except (libcst.ParserSyntaxError, RecursionError) as error:
            said = str(error).splitlines()[0]
            raise source.unreadable(f"libcst cannot read the statement here: {said}", line=line) from error
        if not same:
            raise _gate("libcst gives back another text than it read", source.where, line)
        read_back.add(digest)


def _gate(what: str, where: str, line: int | None = None) -> CannotPlace:
    hint = "this is a fault of the recipe or of oeactl, not of the host"
    return CannotPlace(Reason(kind="gate", what=what, where=where, line=line, hint=hint))
