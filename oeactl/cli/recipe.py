"""``oeactl recipe``: one recipe, looked at and tried; and the group of all that is done with one."""

from __future__ import annotations

from oeactl.cli.common import AllowCodeOption, Call, NamedRecipeArgument, SetOption, command, group
from oeactl.cli.engine_here import EngineOption, RootOption, checked
from oeactl.cli.recipe_author import lint, new, test
from oeactl.cli.recipe_diff import export_diff, import_diff


@command("oeactl recipe show oea", "oeactl recipe show oea --json")
def show(call: Call, recipe: NamedRecipeArgument) -> None:
    """Show one recipe: parameters, conditions, its edits and places, its cases, what it was tried on."""
    from oeactl.cli.recipes import show_one

    show_one(call, recipe)


@command(
    "oeactl recipe check oea --engine sglang==0.5.16",
    "oeactl recipe check oea --root /root/sglang/python --set k0=2",
)
def check(
    call: Call,
    recipe: NamedRecipeArgument,
    engine: EngineOption = None,
    root: RootOption = None,
    sets: SetOption = [],  # noqa: B006 - typer's way to say none
    allow_code: AllowCodeOption = False,
) -> None:
    """Plan a recipe on a release, or on a folder with an engine, through every gate; write nothing there.

    Says which variant fits, what would change, and whether the file is one that was tested. A refusal
    (exit 3) names each place that was not found, and what comes nearest.
    """
    from oeactl.render.recipe import checked_document, checked_lines

    found = checked(call, recipe, engine, root, sets, allow_code=allow_code)
    call.emit(checked_document(found), lambda: checked_lines(found, whole=call.verbose))


recipe = group(
    "Work on one recipe: begin it or import it, test it, try it on a release.",
    *(new, show, lint, test, check, import_diff, export_diff),
)
