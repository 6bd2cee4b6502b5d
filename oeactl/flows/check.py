"""check: would a recipe apply to this engine? All of the plan and its gates, nothing written.

Needs no server and no host: the engine's files lie on this machine, unpacked from a release or in a folder.
"""

from __future__ import annotations

from collections.abc import Mapping

from oeactl.core.changes import changes
from oeactl.core.host import Holder, Survey, SurveyRequest
from oeactl.core.outcomes import Checked
from oeactl.core.parameters import Bound, bind
from oeactl.core.plan import make_plan
from oeactl.core.reasons import CannotPlace, Refusal
from oeactl.core.recipe import Recipe
from oeactl.core.standing import all_stand
from oeactl.core.transform import Transformer
from oeactl.ports import Clock, Files


def check(
    files: Files,
    request: SurveyRequest,
    recipe: Recipe,
    sets: Mapping[str, str],
    *,
    applied_by: Holder,
    clock: Clock,
    transformer: Transformer | None = None,
) -> Checked:
    """Plan ``recipe`` on what ``request`` finds. Raises UsageError, Refused with every reason."""
    bound = bind(recipe, sets, {}, transformer)
    survey = files.survey(request)
    begun = clock.now()
    plan = make_plan(bound, survey, operation="check", applied_at="", applied_by=applied_by)
    seconds = clock.now() - begun
    if isinstance(plan, Refusal):
        raise plan.error()
    notes = (*bound.notes, *plan.notes)
    return Checked(survey=survey, plan=plan, variants=_variants(bound, survey), notes=notes, seconds=seconds)


def _variants(bound: Bound, survey: Survey) -> dict[str, str | None]:
    standings = {standing.module: standing for standing in all_stand(survey).values()}
    found: dict[str, str | None] = {}
    for file in bound.recipe.files:
        standing = standings[file.module]
        try:
            found[file.module] = changes(
                bound,
                file,
                standing.original,
                where=standing.path,
                version=survey.engine.version,
                python=survey.engine.python_version,
            ).variant
        except CannotPlace:  # on disk, though it could not be made today
            found[file.module] = None
    return found
