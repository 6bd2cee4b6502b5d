"""``oeactl revert``."""

from __future__ import annotations

from typing import Annotated

import typer

from oeactl.cli.common import AnyRecipeOption, Call, HostOption, NoRestartOption, YesOption, command

ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Restore the original over a foreign edit too; a copy of it is kept first."),
]


@command("oeactl revert --host 10.1.230.174", "oeactl revert --recipe oea --yes")
def revert(
    call: Call,
    host: HostOption = None,
    recipe: AnyRecipeOption = None,
    no_restart: NoRestartOption = False,
    force: ForceOption = False,
    yes: YesOption = False,
) -> None:
    """Put the original bytes back, restart the server, wait until it answers.

    Works from the host's own journal: any machine, any version of oeactl, no recipe at hand. Takes every
    recipe off the host, or the one named. Twice is a success that changes nothing.
    """
    from oeactl.cli.wiring import wired
    from oeactl.edges.clock import new_operation
    from oeactl.edges.local_record import local_record
    from oeactl.flows.revert import revert as run
    from oeactl.render.change import reverted_document, reverted_lines

    record = local_record()
    with wired(call, call.host(host), yes=yes) as here:
        name, project = here.site.host.name, str(call.project.root)
        operation, _ = new_operation(here.site.clock)
        outcome = run(
            here.site,
            recipe=recipe,
            operation=operation,
            restart=not no_restart,
            force=force,
            restored=lambda: record.remove(host=name, project=project, recipe=recipe),
        )
    others = record.others(host=name, project=project)
    call.emit(reverted_document(outcome, others), lambda: reverted_lines(outcome, name, others))
