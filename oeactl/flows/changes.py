"""What the builds of a run change on the host, for the record, beside its plan.

Owns: the difference of a build that is about to be made, and of one that is there. Refuses: to write, and to
name a recipe whose text here does not make what is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from oeactl.core.afterwards import afterwards
from oeactl.core.change import Change, change_between
from oeactl.core.host import Journal, Survey
from oeactl.core.launch import text_of
from oeactl.core.plan import Planned
from oeactl.core.recipe import Recipe
from oeactl.errors import Refused, UsageError
from oeactl.flows.build import Build, Wanted, planned, pristine
from oeactl.flows.site import Site


def changes_to_come(site: Site, builds: Sequence[Build], survey: Survey, run: str) -> tuple[Change, ...]:
    """Of every build with recipes. survey: the host without any, with data. Raises Refused."""
    return tuple(
        change_between(
            survey,
            _built(site, build, survey),
            run_id=run,
            arm=build.arm.name,
            recipes=tuple(wanted.recipe for wanted in build.wanted),
        )
        for build in builds
        if build.wanted
    )


def _built(site: Site, build: Build, survey: Survey) -> Survey:
    for wanted in build.wanted:
        plan = planned(site, wanted, survey, operation="plan")
        if isinstance(plan, Planned):
            survey = afterwards(survey, plan.files, plan.layers_after)
    return survey


def changes_there(
    site: Site, survey: Survey, recipes: Sequence[Recipe], *, run: str, arm: str
) -> tuple[Change, ...]:
    """What is on the host now. survey: with data. Nothing where a foreign edit is in the way: a gate says so.

    recipes: those known here; one is kept where its plan has the digest that the host's journal names.
    """
    try:
        original = pristine(survey)
    except Refused:
        return ()
    on = tuple(recipe for recipe in recipes if _is_on(site, recipe, original, survey.journal))
    return (change_between(original, survey, run_id=run, arm=arm, recipes=on),)


def _is_on(site: Site, recipe: Recipe, original: Survey, journal: Journal) -> bool:
    for layer in journal.layers:
        if layer.recipe == recipe.id:
            sets = {name: text_of(value) for name, value in layer.parameters.items()}
            try:
                plan = planned(site, Wanted(recipe=recipe, sets=sets), original, operation="plan")
            except (Refused, UsageError):
                return False
            return isinstance(plan, Planned) and plan.digest == layer.digest
    return False
