"""``oeactl recipe show|check``: one recipe, looked at and tried."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import (
    AllowCodeOption,
    Call,
    NamedRecipeArgument,
    SetOption,
    command,
    group,
    transformer,
    values_of,
)
from oeactl.cli.recipe_author import lint, new, test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oeactl.core.host import Holder, SurveyRequest
    from oeactl.core.recipe import Recipe
    from oeactl.ports import Files

EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME==VERSION", help="A release, fetched once by pip into the cache."),
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="A folder here that holds the engine's package."),
]


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
    from oeactl.edges.clock import SystemClock
    from oeactl.edges.config import read_recipe
    from oeactl.flows.check import check as run
    from oeactl.render.recipe import checked_document, checked_lines

    loaded = read_recipe(call.root, recipe)
    values = values_of(sets)
    with _engine(loaded, engine, root, loaded.modules) as (files, request):
        found = run(
            files,
            request,
            loaded,
            values,
            applied_by=_holder(),
            clock=SystemClock(),
            transformer=transformer(allow_code),
        )
    call.emit(checked_document(found), lambda: checked_lines(found, whole=call.verbose))


@contextmanager
def _engine(
    recipe: Recipe, engine: str | None, root: Path | None, modules: Iterable[str]
) -> Iterator[tuple[Files, SurveyRequest]]:
    """The engine's files on this machine, and what to look at among them. Raises UsageError, Refused."""
    import tempfile

    from oeactl.core.host import SurveyRequest
    from oeactl.edges.agent_link import AgentLink
    from oeactl.edges.files import AgentFiles
    from oeactl.edges.local import open_local
    from oeactl.errors import UsageError

    if (engine is None) == (root is None):
        raise UsageError(
            "which engine?", hint="--engine sglang==0.5.16 for a release, or --root FOLDER for a copy here"
        )
    if root is not None and not root.is_dir():
        raise UsageError("there is no such folder", where=str(root))
    folder = root.resolve() if root is not None else _release(recipe, engine or "", modules)
    remote = open_local()
    with tempfile.TemporaryDirectory() as blank:
        request = SurveyRequest(
            package=recipe.document.engine.package,
            modules=tuple(modules),
            python=sys.executable,
            root=str(folder),
            cwd=None,
            env={},
            state_dir=None if root is not None else f"{blank}/state",
        )
        try:
            yield AgentFiles(AgentLink(remote, python=sys.executable)), request
        finally:
            remote.close()


def _release(recipe: Recipe, engine: str, modules: Iterable[str]) -> Path:
    from oeactl.core.whole import is_path
    from oeactl.edges.releases import Release, cache_dir, release
    from oeactl.errors import Refused, UsageError

    package, version = release(engine)
    wanted = recipe.document.engine.package
    if package != wanted:
        raise UsageError(f"recipe {recipe.id} is for {wanted}", where=f"--engine {engine}")
    found = Release(package, version, cache_dir())
    stems = [module.replace(".", "/") for module in modules if not is_path(module)]
    names = {f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")}
    names |= set(filter(is_path, modules))
    if stems and not names & found.names():
        raise Refused(
            f"{recipe.id}: {engine} has no module that the recipe changes", details=tuple(sorted(modules))
        )
    return found.unpack(names)


def _holder() -> Holder:
    import getpass
    import platform

    from oeactl.core.host import Holder

    return Holder(user=getpass.getuser(), host=platform.node(), pid=os.getpid())


recipe = group("Work on one recipe: begin it, test it, try it on a release.", new, show, lint, test, check)
