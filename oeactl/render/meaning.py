"""What a run's builds change in what the model computes, in plain words, before any ratio is read.

Owns: those words. Refuses: to guess where a recipe does not say.
"""

from __future__ import annotations

from oeactl.core.run import Run

OTHER = (
    "{name} changes what the model computes: its answers are not those of the original engine. A ratio of "
    "speed does not say whether they are as good."
)
SAME = "{name} leaves what the model computes as it is, but for rounding, by its recipe's own account."
UNSAID = "{name} changes the engine, and its recipe does not say whether the model computes the same."
UNKNOWN = (
    "{name} is on the engine, and its recipe is not kept with this run: what it changes is not known here."
)


def meanings(run: Run) -> tuple[tuple[bool, str], ...]:
    """(whether it is a warning, the sentence), one a recipe of the run, the warnings first."""
    kept = {one.recipe: one for change in run.changes for one in change.recipes}
    told: dict[str, tuple[bool, str]] = {}
    for arm in run.plan.arms:
        for applied in arm.recipes:
            copy = kept.get(applied.recipe)
            if copy is None:
                warning, words = True, UNKNOWN
            elif copy.computes == "same":
                warning, words = False, SAME
            else:
                warning, words = True, OTHER if copy.computes == "other" else UNSAID
            told[applied.recipe] = (warning, words.format(name=applied.recipe))
    return tuple(sorted(told.values(), key=lambda one: not one[0]))
