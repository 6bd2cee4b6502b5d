"""``oeactl recipes``."""

from __future__ import annotations

from oeactl.cli.common import Call, RecipeArgument, command


@command("oeactl recipes", "oeactl recipes oea --json")
def recipes(call: Call, recipe: RecipeArgument = None) -> None:
    """List the recipes, or show one with its parameters.

    Those of the project's recipes folder, and those that come with oeactl. A project's hides ours of that id.
    """
    from oeactl.core.recipe import describe
    from oeactl.edges.config import read_recipe, recipe_ids
    from oeactl.render.listing import recipes_table

    root = call.root
    if recipe is not None:
        show_one(call, recipe)
        return
    loaded = [read_recipe(root, name) for name in recipe_ids(root)]
    call.emit({"recipes": list(map(describe, loaded))}, lambda: recipes_table(loaded))


def show_one(call: Call, recipe: str) -> None:
    """Show one recipe whole."""
    from oeactl.core.recipe import describe
    from oeactl.edges.config import read_recipe
    from oeactl.render.recipe import recipe_lines

    one = read_recipe(call.root, recipe)
    call.emit(describe(one), lambda: recipe_lines(one))
