"""``oeactl status``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import Call, HostsOption, command

if TYPE_CHECKING:
    from oeactl.cli.wiring import Wired
    from oeactl.core.inventory import Host
    from oeactl.core.outcomes import Status
    from oeactl.flows.intent import Steps

ExpertsOption = Annotated[
    bool,
    typer.Option("--experts", help="Also send it small batches, and show how many experts they use."),
]


@command("oeactl status --host 10.1.230.174", "oeactl status --experts", "oeactl status --host lab --json")
def status(call: Call, host: HostsOption = None, experts: ExpertsOption = False) -> int:
    """Tell what is on disk, what is loaded, what is taken, and whether the server is well.

    Exit 0 when disk, journal and live agree (a pristine host whose server is down is well too), else 7 with
    what to do. Several hosts are a row each; -v shows them whole as well.
    """
    from oeactl.errors import UsageError

    picked = call.hosts(host)
    modules = _modules(call, {chosen.engine.kind for chosen in picked.hosts})
    if picked.several:
        if experts:
            raise UsageError("--experts looks at one host", hint=f"--host {picked.hosts[0].name}")
        return _several(call, picked.hosts, modules)
    return _one(call, picked.hosts[0], modules, experts)


def _modules(call: Call, kinds: set[str]) -> tuple[str, ...]:
    """The files of every recipe for these engines."""
    from oeactl.edges.config import read_recipe, recipe_ids
    from oeactl.errors import UsageError

    modules: dict[str, None] = {}
    for name in recipe_ids(call.root):
        with suppress(UsageError):  # a recipe that cannot be read says nothing about a host
            recipe = read_recipe(call.root, name)
            if recipe.document.engine.package in kinds:
                modules |= dict.fromkeys(recipe.modules)
    return tuple(modules)


def _one(call: Call, chosen: Host, modules: tuple[str, ...], experts: bool) -> int:
    from oeactl.cli.wiring import wired
    from oeactl.flows.experts import experts_now
    from oeactl.flows.status import status as run
    from oeactl.render.experts import seen_view
    from oeactl.render.status import status_document, status_lines

    with wired(call, chosen) as here:
        found = run(here.site, modules=modules)
        seen = experts_now(here.site, found.survey) if experts else ()
    document = status_document(found)
    call.emit({**document, "experts": seen} if experts else document, lambda: status_lines(found))
    if seen:
        call.show(seen_view(seen, width=call.width))
    return 0 if found.agrees else 7


def _several(call: Call, hosts: tuple[Host, ...], modules: tuple[str, ...]) -> int:
    from oeactl.cli.several import on_each
    from oeactl.flows.status import status as run
    from oeactl.render.several import status_view
    from oeactl.render.status import status_lines

    def flow(here: Wired) -> Steps[Status]:
        return run(here.site, modules=modules)
        yield  # a flow that never stops: it changes nothing

    results, code = on_each(call, hosts, flow, status_view())
    for result in results if call.verbose else ():
        if result.outcome is not None:
            call.show(status_lines(result.outcome))
    return code
