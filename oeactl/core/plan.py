"""Recipe x parameters x the bytes on a host -> exact edits and their hashes; or already applied; or refused.

Owns: the decision, the stack of layers, the plan digest and the last gates (twice is once, and back is
where it was). Refuses: to write, and to call anything a success that changes nothing.
"""

from __future__ import annotations

import hashlib
import json

import msgspec

from oeactl.core.afterwards import afterwards
from oeactl.core.changes import Changed, changes, filled
from oeactl.core.copies import against, copies_of
from oeactl.core.edits import Overlap
from oeactl.core.guards import in_range
from oeactl.core.host import Edit, FileWrite, Holder, Layer, Survey, Value
from oeactl.core.launch import additions, conflict
from oeactl.core.parameters import Bound
from oeactl.core.reasons import CannotPlace, Reason, Refusal
from oeactl.core.recipe import RecipeFile
from oeactl.core.revert import Reverting, plan_revert
from oeactl.core.snippets import HOLE
from oeactl.core.source import Source, compile_fault
from oeactl.core.standing import (
    ABSENT,
    Rewritten,
    Standing,
    all_stand,
    composed,
    hash_of,
    live,
    rewritten,
)
from oeactl.core.whole import WholeFile, is_whole, module_of, put


class PlannedFile(Rewritten, frozen=True, kw_only=True):
    """A file before and after. edits: this recipe's, against the original."""

    edits: tuple[Edit, ...]


class Planned(Value, frozen=True, kw_only=True):
    """Edits that may be made. layer: this recipe's; layers_after: the whole stack with it.

    replaces: it was on with other parameters, revision or text. listed: every file is one that was tested.
    notes: of the plan; what ``bind`` could not check is in ``Bound.notes``.
    """

    recipe: str
    revision: int
    parameters: dict[str, object]
    digest: str
    files: tuple[PlannedFile, ...]
    layer: Layer
    layers_after: tuple[Layer, ...]
    replaces: bool
    listed: bool
    notes: tuple[str, ...] = ()

    @property
    def imports(self) -> tuple[str, ...]:
        """The modules that a probe of the changed engine imports."""
        found = (module_of(file.module) for file in self.files if file.after_sha256 != ABSENT)
        return tuple(dict.fromkeys(module for module in found if module is not None))

    def writes(self) -> tuple[FileWrite, ...]:
        """The files of the transaction."""
        return tuple(file.write() for file in self.files)


class AlreadyApplied(Value, frozen=True, kw_only=True):
    """This revision with these parameters is on disk, byte for byte."""

    recipe: str
    layer: Layer
    notes: tuple[str, ...] = ()


Plan = Planned | AlreadyApplied | Refusal


_Found = tuple[RecipeFile | WholeFile, tuple[Standing, ...]]
"""A file of the recipe, and its copies on this host: one, or one a node."""


class _Target(Value, frozen=True, kw_only=True):
    """A file of the recipe on this host, and what the recipe makes of its original. listed: one tested.

    copies: its path on every node, where several serve as one.
    """

    name: str
    standing: Standing
    copies: tuple[str, ...]
    changed: Changed
    listed: bool


def make_plan(bound: Bound, survey: Survey, *, operation: str, applied_at: str, applied_by: Holder) -> Plan:
    """Plan a recipe for one host. operation, applied_at (ISO 8601), applied_by: for the journal's layer."""
    try:
        plan = _plan(bound, survey, operation=operation, applied_at=applied_at, applied_by=applied_by)
        if isinstance(plan, Planned):
            _prove(bound, survey, plan)
    except CannotPlace as refusal:
        return Refusal(recipe=bound.recipe.id, reasons=refusal.reasons)
    return plan


def _plan(
    bound: Bound, survey: Survey, *, operation: str, applied_at: str, applied_by: Holder
) -> Planned | AlreadyApplied:
    standings = all_stand(survey)
    targets = _standings_of(bound, survey, standings)
    if bound.recipe.document.unanchored:
        raise CannotPlace(_unfinished(bound))
    stack, notes = live(survey, standings)
    prior = next((layer for layer in stack if layer.recipe == bound.recipe.id), None)
    same = prior is not None and _same(prior, bound)
    try:
        made = _targets(bound, survey, targets)
    except CannotPlace:
        if prior is not None and same:  # what is on disk is what was asked for, whatever could be made today
            return AlreadyApplied(recipe=bound.recipe.id, layer=prior)
        raise
    layer = _layer(bound, made, operation=operation, applied_at=applied_at, applied_by=applied_by)
    everywhere = prior is not None and prior.edits.keys() == layer.edits.keys()
    if prior is not None and same and everywhere and prior.digest == layer.digest:
        return AlreadyApplied(recipe=bound.recipe.id, layer=prior, notes=notes)
    after = tuple(layer if other is prior else other for other in stack) if prior else (*stack, layer)
    _one_launch(layer, after)
    files = _files(standings, prior, layer, after)
    launch = (layer.args, layer.env) != ((prior.args, prior.env) if prior else ((), {}))
    if not files and not launch:
        what = "the recipe would change nothing here"
        raise CannotPlace(Reason(kind="nothing", what=what, where=survey.engine.root))
    return Planned(
        recipe=layer.recipe,
        revision=layer.revision,
        parameters=layer.parameters,
        digest=layer.digest,
        files=files,
        layer=layer,
        layers_after=after,
        replaces=prior is not None,
        listed=all(target.listed for target in made),
        notes=(*notes, *_notes(made, survey, text_changed=same)),
    )


def _layer(
    bound: Bound, made: tuple[_Target, ...], *, operation: str, applied_at: str, applied_by: Holder
) -> Layer:
    digest = plan_digest(bound, made)
    document = bound.recipe.document
    args, env = additions(document.launch, bound.parameters)
    return Layer(
        recipe=document.id,
        revision=document.revision,
        parameters=bound.parameters,
        digest=digest,
        operation=operation,
        applied_at=applied_at,
        applied_by=applied_by,
        edits={path: filled(target.changed.edits, digest) for target in made for path in target.copies},
        args=args,
        env=env,
        proof=document.proof,
    )


def _unfinished(bound: Bound) -> Reason:
    count = len(bound.recipe.document.unanchored)
    places = "one place" if count == 1 else f"{count} places"
    what = f"the recipe is unfinished: its import left out {places} of the difference"
    hint = f"add the edits by hand, then take 'unanchored' out of {bound.recipe.id}/recipe.yaml"
    return Reason(kind="guard", what=what, where=bound.recipe.id, hint=hint)


def _one_launch(layer: Layer, stack: tuple[Layer, ...]) -> None:
    """Raise CannotPlace when another recipe on the host sets the same argument or variable."""
    for other in stack:
        word = conflict(layer, other) if other.recipe != layer.recipe else None
        if word:
            what = f"recipes {other.recipe} and {layer.recipe} both set {word}"
            hint = f"oeactl revert --recipe {other.recipe}"
            raise CannotPlace(Reason(kind="overlap", what=what, where="the server's launch", hint=hint))


def _standings_of(bound: Bound, survey: Survey, standings: dict[str, Standing]) -> tuple[_Found, ...]:
    """The recipe's files on this host. Raises CannotPlace for all that cannot be planned on."""
    versions = bound.recipe.document.engine.versions
    reasons: list[Reason] = []
    if in_range(survey.engine.version, versions) is False:
        what = f"recipe {bound.recipe.id} is for {bound.recipe.document.engine.package} {versions}"
        what += f", this is {survey.engine.version}"
        reasons.append(Reason(kind="version", what=what, where=survey.engine.root))
    by_module = {standing.module: standing for standing in reversed(standings.values())}
    found: list[_Found] = []
    wanted: tuple[RecipeFile | WholeFile, ...] = (*bound.recipe.files, *bound.recipe.whole_files)
    for file in wanted:
        names = (file.module,) if isinstance(file, RecipeFile) else file.paths
        absent = [name for name in names if name not in by_module]
        if absent:
            raise ValueError(f"the survey lacks {', '.join(absent)}")
        standing = by_module[names[0]] if isinstance(file, RecipeFile) else file.place(by_module)
        copies = copies_of(standing, survey, standings)
        reasons += against(copies)
        found.append((file, copies))
    if reasons:
        raise CannotPlace(*reasons)
    return tuple(found)


def _targets(bound: Bound, survey: Survey, found: tuple[_Found, ...]) -> tuple[_Target, ...]:
    """What the recipe makes of each file; upstreamed ones of an independent recipe are left out.

    Raises CannotPlace with the reasons of every file.
    """
    made: list[_Target] = []
    reasons: list[Reason] = []
    for file, copies in found:
        standing = copies[0]
        try:
            if isinstance(file, RecipeFile):
                changed = _changed(bound, survey, file, standing)
                listed = standing.original_sha256 in _tested(file)
            else:
                changed = Changed(edits=put(file, standing), variant=None, notes=())
                listed = True
        except CannotPlace as refusal:
            reasons += refusal.reasons
            continue
        made.append(
            _Target(
                name=standing.module,
                standing=standing,
                copies=tuple(copy.path for copy in copies),
                changed=changed,
                listed=listed,
            )
        )
    upstreamed = all(reason.kind == "upstreamed" for reason in reasons)
    if reasons and not (made and upstreamed and bound.recipe.document.independent):
        raise CannotPlace(*reasons)
    return tuple(made)


def _tested(file: RecipeFile) -> set[str]:
    known = {tested.sha256 for tested in file.document.tested}
    return known | {sha256 for variant in file.document.variants for sha256 in variant.sha256}


def _changed(bound: Bound, survey: Survey, file: RecipeFile, standing: Standing) -> Changed:
    return changes(
        bound,
        file,
        standing.original,
        where=standing.path,
        version=survey.engine.version,
        python=survey.engine.python_version,
    )


def _same(layer: Layer, bound: Bound) -> bool:
    return layer.revision == bound.recipe.revision and layer.parameters == bound.parameters


def plan_digest(bound: Bound, made: tuple[_Target, ...]) -> str:
    """sha256, hex, of all that the plan is, but for host, time and the digest's own place."""
    args, env = additions(bound.recipe.document.launch, bound.parameters)
    told = {
        "recipe": bound.recipe.id,
        "revision": bound.recipe.revision,
        "parameters": bound.parameters,
        "launch": [list(args), sorted(env.items())],
        "files": [
            [
                target.name,
                target.standing.original_sha256,
                [
                    [edit.start, edit.end, edit.text.replace(HOLE.encode(), b"").hex()]
                    for edit in target.changed.edits
                ],
            ]
            for target in made
        ],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _files(
    standings: dict[str, Standing], prior: Layer | None, layer: Layer, stack: tuple[Layer, ...]
) -> tuple[PlannedFile, ...]:
    """Every file that comes out different under the new stack. Raises CannotPlace."""
    paths = sorted({*layer.edits, *(prior.edits if prior else ())})
    made = []
    for path in paths:
        standing = standings.get(path)
        if standing is None:
            raise ValueError(f"the survey lacks {path}, which the recipe changed before")
        owners = [other for other in stack if other.edits.get(path)]
        if len(owners) > 1 and any(is_whole(other.edits[path], standing) for other in owners):
            raise _both(standing, owners[-2].recipe, owners[-1].recipe, "have this file to themselves", None)
        try:
            after = composed(standing, stack)
        except Overlap as overlap:
            raise _overlap(standing, stack, overlap) from overlap
        if hash_of(after) == standing.current_sha256:
            continue
        if len(owners) > 1 and after is not None:
            _compiles(standing, after)
        file = rewritten(standing, after)
        made.append(PlannedFile(**msgspec.structs.asdict(file), edits=layer.edits.get(path, ())))
    return tuple(made)


def _overlap(standing: Standing, stack: tuple[Layer, ...], overlap: Overlap) -> CannotPlace:
    first, second = (stack[owner].recipe for owner in sorted(overlap.owners))
    source = Source(standing.original, standing.path)
    line = source.line(max(overlap.second.start - len(source.bom), 0))
    return _both(standing, first, second, "change the same text", line)


def _both(standing: Standing, first: str, second: str, what: str, line: int | None) -> CannotPlace:
    what = f"recipes {first} and {second} {what}"
    hint = f"oeactl revert --recipe {first}"
    return CannotPlace(Reason(kind="overlap", what=what, where=standing.path, line=line, hint=hint))


def _compiles(standing: Standing, after: bytes) -> None:
    fault = compile_fault(Source(after, standing.path).text)
    if fault and not compile_fault(Source(standing.original, standing.path).text):
        what = f"the recipes together do not compile: {fault}"
        raise CannotPlace(Reason(kind="gate", what=what, where=standing.path))


def _notes(made: tuple[_Target, ...], survey: Survey, *, text_changed: bool) -> list[str]:
    notes = [f"{target.name}: {note}" for target in made for note in target.changed.notes]
    for target in made:
        state = target.standing.file
        if not target.listed:
            version = survey.engine.version or "of unknown version"
            notes.append(f"{target.name}: unlisted ({survey.engine.package} {version}), every guard holds")
        if state is not None and state.record_sha256 not in (None, target.standing.original_sha256):
            notes.append(f"{target.name}: not the release's own file, someone changed it before")
    if text_changed:
        notes.append("the recipe's text changed under the same revision: applied anew")
    return notes


def _prove(bound: Bound, survey: Survey, plan: Planned) -> None:
    """The last gates: planned again it is already applied, and reverted it is what it was.

    Raises CannotPlace.
    """
    later = afterwards(survey, plan.files, plan.layers_after)
    again = _plan(
        bound,
        later,
        operation=plan.layer.operation,
        applied_at=plan.layer.applied_at,
        applied_by=plan.layer.applied_by,
    )
    if not isinstance(again, AlreadyApplied) or again.layer.digest != plan.digest:
        raise _unproven("planned again it would change more", survey)
    back = plan_revert(later, recipe=plan.recipe, force=False)
    if not isinstance(back, Reverting):
        raise _unproven("it could not be taken back", survey)
    without = tuple(layer for layer in plan.layers_after if layer is not plan.layer)
    standings = all_stand(survey)
    for file in back.files:
        if file.after_sha256 != hash_of(composed(standings[file.path], without)):
            raise _unproven("taking it back gives other bytes", survey)
        if not plan.replaces and file.after_sha256 != standings[file.path].current_sha256:
            raise _unproven("taking it back does not give what was there", survey)


def _unproven(what: str, survey: Survey) -> CannotPlace:
    return CannotPlace(Reason(kind="gate", what=what, where=survey.engine.root))
