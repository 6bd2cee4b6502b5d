"""``oeactl recipe new|lint|test``: from an idea to a recipe that is sound in itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import AllowCodeOption, Call, command, transformer

if TYPE_CHECKING:
    from oeactl.core.lint import Finding
    from oeactl.core.recipe import Recipe
    from oeactl.core.transform import Transformer

NewArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Its id: lower-case letters, digits, - and _.")
]
ModuleOption = Annotated[
    str, typer.Option("--module", metavar="NAME", help="The module to change: sglang.srt.layers.sampler.")
]
RecipesArgument = Annotated[
    list[str], typer.Argument(metavar="ID…", help="Recipes, by id or folder; all of the project if none.")
]
AcceptOption = Annotated[
    bool, typer.Option("--accept", help="Write what comes out as the after.py of cases that differ.")
]


@command("oeactl recipe new warm-sampler --module sglang.srt.layers.sampler")
def new(call: Call, recipe: NewArgument, module: ModuleOption = "sglang.srt.server_args") -> None:
    """Begin a recipe: a folder that loads, with cases that pass and comments that lead on.

    It goes into the project's recipes folder; without a hosts.yaml into ./recipes.
    """
    from oeactl.core.skeleton import skeleton
    from oeactl.edges.config import write_recipe

    files = skeleton(recipe, module)
    folder = (call.root or Path.cwd()) / "recipes" / recipe
    write_recipe(folder, files)
    shown = shown_here(folder)
    text = [f"{shown}/", *(f"  {path}" for path in files), f"next: oeactl recipe test {_named(call, recipe)}"]
    call.emit({"folder": str(folder), "files": list(files)}, lambda: "\n".join(text))


@command("oeactl recipe lint", "oeactl recipe lint warm-sampler --json")
def lint(
    call: Call,
    recipes: RecipesArgument = [],  # noqa: B006 - typer's way to say none
    allow_code: AllowCodeOption = False,
) -> int:
    """Say what keeps a recipe from loading, which cases fail, and what a reviewer would ask; with lines.

    Errors end with exit code 2, warnings alone with 0.
    """
    from oeactl.core.lint import lint as run
    from oeactl.edges.config import recipe_files
    from oeactl.render.recipe import finding_line

    findings: list[Finding] = []
    for folder in _folders(call, recipes):
        found = run(recipe_files(folder), shown_here(folder), transformer(allow_code))
        findings += found
        call.show("\n".join(map(finding_line, found)) or f"{shown_here(folder)}: nothing to say")
    call.emit({"findings": findings}, lambda: f"{len(findings)} findings")
    return 2 if any(finding.level == "error" for finding in findings) else 0


@command("oeactl recipe test", "oeactl recipe test warm-sampler --accept")
def test(
    call: Call,
    recipes: RecipesArgument = [],  # noqa: B006 - typer's way to say none
    accept: AcceptOption = False,
    allow_code: AllowCodeOption = False,
) -> int:
    """Run the cases of recipes: each small source, and what comes out against what should.

    A failing case ends with exit code 2. After --accept, read what it changed in your version control.
    """
    from oeactl.core.cases import run_cases
    from oeactl.edges.config import read_recipe
    from oeactl.render.recipe import case_lines

    results: dict[str, list[object]] = {}
    failed = 0
    for folder in _folders(call, recipes):
        one = read_recipe(None, str(folder))
        accepted = _accept(folder, one, transformer(allow_code)) if accept else frozenset()
        one = read_recipe(None, str(folder))
        found = run_cases(one, transformer(allow_code))
        failed += sum(not result.ok for result in found)
        results[one.id] = list(found)
        call.show(case_lines(one.id, found, accepted))
    count = sum(map(len, results.values()))
    call.emit({"recipes": results, "failed": failed}, lambda: f"{count - failed} of {count} cases pass")
    return 2 if failed else 0


def _accept(folder: Path, recipe: Recipe, runner: Transformer | None) -> frozenset[str]:
    """Write what comes out as what should; the names of the cases."""
    from oeactl.core.cases import outcome, run_cases

    written = set()
    for case, result in zip(recipe.cases, run_cases(recipe, runner), strict=True):
        if not result.ok and case.after is not None and result.diff:
            (path,) = (folder / "cases" / case.name).glob("after.*")
            path.write_bytes(outcome(recipe, case, runner))
            written.add(case.name)
    return frozenset(written)


def _folders(call: Call, recipes: list[str]) -> list[Path]:
    """The folders of the named recipes, or of all in the project (all that come with oeactl, without one)."""
    from oeactl.edges.config import packaged_recipes, recipe_path
    from oeactl.errors import UsageError

    if recipes:
        return [recipe_path(call.root, recipe) for recipe in recipes]
    place = call.root / "recipes" if call.root is not None else packaged_recipes()
    found = sorted(path.parent for path in place.glob("*/recipe.yaml"))
    if not found:
        raise UsageError("this project has no recipes", where=shown_here(place), hint="oeactl recipe new ID")
    return found


def shown_here(folder: Path) -> str:
    """A folder's path as it is written from here."""
    from oeactl.edges.config import shown

    return shown(folder.absolute(), Path.cwd())


def _named(call: Call, recipe: str) -> str:
    return recipe if call.root is not None else f"recipes/{recipe}"
