"""``oeactl status``."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from oeactl.cli.common import Call, HostOption, command

ExpertsOption = Annotated[
    bool,
    typer.Option("--experts", help="Also send it small batches, and show how many experts they use."),
]


@command("oeactl status --host 10.1.230.174", "oeactl status --experts", "oeactl status --json")
def status(call: Call, host: HostOption = None, experts: ExpertsOption = False) -> int:
    """Tell what is on disk, what is loaded, what is taken, and whether the server is well.

    Exit 0 when disk, journal and live agree (a pristine host whose server is down is well too), else 7 with
    what to do.
    """
    from oeactl.cli.wiring import wired
    from oeactl.edges.config import read_recipe, recipe_ids
    from oeactl.errors import UsageError
    from oeactl.flows.experts import experts_now
    from oeactl.flows.status import status as run
    from oeactl.render.experts import seen_view
    from oeactl.render.status import status_document, status_lines

    chosen = call.host(host)
    modules: dict[str, None] = {}
    for name in recipe_ids(call.root):
        with suppress(UsageError):  # a recipe that cannot be read says nothing about a host
            recipe = read_recipe(call.root, name)
            if recipe.document.engine.package == chosen.engine.kind:
                modules |= dict.fromkeys(recipe.modules)
    with wired(call, chosen) as here:
        found = run(here.site, modules=tuple(modules))
        seen = experts_now(here.site, found.survey) if experts else ()
    document = status_document(found)
    call.emit({**document, "experts": seen} if experts else document, lambda: status_lines(found))
    if seen:
        call.show(seen_view(seen, width=call.width))
    return 0 if found.agrees else 7
