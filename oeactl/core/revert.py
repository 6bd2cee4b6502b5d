"""Taking recipes off again, from the host's journal alone: no recipe is needed, nor the same oeactl.

Owns: what a revert finds and does. Refuses: foreign edits, unless forced (the agent then keeps a copy).
"""

from __future__ import annotations

from oeactl.core.host import FileWrite, Layer, Survey, Value
from oeactl.core.reasons import CannotPlace, Reason, Refusal
from oeactl.core.source import Source, compile_fault
from oeactl.core.standing import (
    Rewritten,
    Standing,
    all_stand,
    composed,
    hash_of,
    in_the_way,
    rewritten,
)
from oeactl.core.whole import module_of


class Reverting(Value, frozen=True, kw_only=True):
    """Recipes to take off. files: those that change; layers_after: what stays on.

    forced: foreign edits are in the way, and go.
    """

    recipes: tuple[str, ...]
    files: tuple[Rewritten, ...]
    layers_after: tuple[Layer, ...]
    forced: bool = False
    notes: tuple[str, ...] = ()

    def writes(self) -> tuple[FileWrite, ...]:
        """The files of the transaction."""
        return tuple(file.write() for file in self.files)


class NothingToRevert(Value, frozen=True, kw_only=True):
    """The originals are there. closes: the journal still has a record that an empty transaction should end,
    with ``layers_after`` as its stack."""

    closes: bool = False
    layers_after: tuple[Layer, ...] = ()
    notes: tuple[str, ...] = ()


class GoneByUpgrade(Value, frozen=True, kw_only=True):
    """Another release's own files are there: only the journal is closed, by an empty transaction."""

    recipes: tuple[str, ...]
    modules: tuple[str, ...]
    layers_after: tuple[Layer, ...] = ()


Reverted = Reverting | NothingToRevert | GoneByUpgrade | Refusal


def plan_revert(survey: Survey, *, recipe: str | None, force: bool) -> Reverted:
    """Say what taking ``recipe`` (None: all) off comes to. The survey must hold every file of the journal.

    Raises ValueError when it does not.
    """
    layers = survey.journal.layers
    off = tuple(layer for layer in layers if recipe in (None, layer.recipe))
    if not off:
        return _stray(survey, recipe)
    kept = tuple(layer for layer in layers if layer not in off)
    standings = all_stand(survey)
    paths = sorted({path for layer in off for path in layer.edits})
    absent = [path for path in paths if path not in standings]
    if absent:
        raise ValueError(f"the survey lacks {', '.join(absent)}, which the journal names")
    try:
        return _revert(paths, standings, off, kept, force=force)
    except CannotPlace as refusal:
        return Refusal(recipe=recipe or off[-1].recipe, reasons=refusal.reasons)


def _revert(
    paths: list[str],
    standings: dict[str, Standing],
    off: tuple[Layer, ...],
    kept: tuple[Layer, ...],
    *,
    force: bool,
) -> Reverting | NothingToRevert | GoneByUpgrade:
    names = tuple(layer.recipe for layer in off)
    here = [standings[path] for path in paths]
    blocked = [standing for standing in here if standing.state in ("foreign", "damaged")]
    blind = [standing for standing in here if standing.state == "unreadable"]
    if blind or (blocked and not force):
        raise CannotPlace(*(in_the_way(standing) for standing in (*blind, *blocked)))
    states = {standing.state for standing in here}
    if states and states <= {"upgraded", "missing"}:
        modules = tuple(standing.module for standing in here)
        return GoneByUpgrade(recipes=names, modules=modules, layers_after=kept)
    files = []
    notes = []
    for standing in here:
        if standing.state in ("upgraded", "missing"):
            notes.append(f"{standing.path}: gone by upgrade, left as it is")
            continue
        if standing.state == "restored":
            continue
        after = _without(standing, kept)
        if hash_of(after) != standing.current_sha256:
            files.append(rewritten(standing, after))
    launch = any(layer.args or layer.env for layer in off)
    if not files and not launch:
        return NothingToRevert(closes=True, layers_after=kept, notes=tuple(notes))
    return Reverting(
        recipes=names, files=tuple(files), layers_after=kept, forced=bool(blocked), notes=tuple(notes)
    )


def _without(standing: Standing, kept: tuple[Layer, ...]) -> bytes | None:
    """The file under the layers that stay: the original, or none, where none does. Raises CannotPlace."""
    after = composed(standing, kept)
    if after is None or after == standing.original or not module_of(standing.module):
        return after
    before = Source(standing.original, standing.path)
    fault = compile_fault(Source(after, standing.path).text)
    if fault and not compile_fault(before.text):
        what = f"what stays on would not compile without it: {fault}"
        raise CannotPlace(
            Reason(kind="gate", what=what, where=standing.path, hint="oeactl revert (all recipes)")
        )
    return after


def _stray(survey: Survey, recipe: str | None) -> NothingToRevert | Refusal:
    """Nothing is recorded: then our marks on disk are damage, and their absence is the state asked for."""
    if survey.journal.layers:
        return NothingToRevert(layers_after=survey.journal.layers)
    damaged = [s for s in all_stand(survey).values() if s.state == "damaged"]
    if damaged:
        return Refusal(recipe=recipe or "oeactl", reasons=tuple(in_the_way(standing) for standing in damaged))
    return NothingToRevert()
