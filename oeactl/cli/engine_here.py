"""An engine's files on this machine, for commands that work on recipes without any host.

Owns: ``--engine`` (a release, unpacked in the cache) and ``--root`` (a copy here) as one thing to look at.
Refuses: to write into either.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, transformer, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oeactl.core.host import Holder, SurveyRequest
    from oeactl.core.outcomes import Checked
    from oeactl.ports import Files

EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME==VERSION", help="A release, fetched once by pip into the cache."),
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="A folder here that holds the engine's package."),
]


@contextmanager
def engine_here(
    package: str, engine: str | None, root: Path | None, modules: Iterable[str]
) -> Iterator[tuple[Files, SurveyRequest]]:
    """The engine's files on this machine, and what to look at among them.

    engine: ``sglang==0.5.16``; root: a folder that holds the package; one of them. Raises UsageError,
    Refused.
    """
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
    folder = root.resolve() if root is not None else _release(package, engine or "", modules)
    remote = open_local()
    with tempfile.TemporaryDirectory() as blank:
        request = SurveyRequest(
            package=package,
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


def checked(
    call: Call, recipe: str, engine: str | None, root: Path | None, sets: list[str], *, allow_code: bool
) -> Checked:
    """A recipe planned on the engine through every gate. Raises UsageError, Refused with every reason."""
    from oeactl.edges.clock import SystemClock
    from oeactl.edges.config import read_recipe
    from oeactl.flows.check import check

    loaded = read_recipe(call.root, recipe)
    values = values_of(sets)
    with engine_here(loaded.document.engine.package, engine, root, loaded.modules) as (files, request):
        return check(
            files,
            request,
            loaded,
            values,
            applied_by=_me(),
            clock=SystemClock(),
            transformer=transformer(allow_code),
        )


def _release(wanted: str, engine: str, modules: Iterable[str]) -> Path:
    from oeactl.core.whole import is_path
    from oeactl.edges.releases import Release, cache_dir, release
    from oeactl.errors import Refused, UsageError

    package, version = release(engine)
    if package != wanted:
        raise UsageError(f"this is for {wanted}", where=f"--engine {engine}")
    found = Release(package, version, cache_dir())
    stems = [module.replace(".", "/") for module in modules if not is_path(module)]
    names = {f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")}
    names |= set(filter(is_path, modules))
    if stems and not names & found.names():
        raise Refused(f"{engine} has none of the modules that are changed", details=tuple(sorted(modules)))
    return found.unpack(names)


def _me() -> Holder:
    """Who runs this command."""
    import getpass
    import platform

    from oeactl.core.host import Holder

    return Holder(user=getpass.getuser(), host=platform.node(), pid=os.getpid())
