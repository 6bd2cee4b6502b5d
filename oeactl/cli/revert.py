"""``oeactl revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import (
    AnyRecipeOption,
    Call,
    FailFastOption,
    HostsOption,
    NoRestartOption,
    YesOption,
    command,
)

if TYPE_CHECKING:
    from oeactl.cli.wiring import Wired
    from oeactl.core.outcomes import Reverted
    from oeactl.flows.intent import Steps

ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Restore the original over a foreign edit too; a copy of it is kept first."),
]


@command("oeactl revert --host 10.1.230.174", "oeactl revert --recipe oea --yes", "oeactl revert --host lab")
def revert(
    call: Call,
    host: HostsOption = None,
    recipe: AnyRecipeOption = None,
    no_restart: NoRestartOption = False,
    force: ForceOption = False,
    fail_fast: FailFastOption = False,
    yes: YesOption = False,
) -> int:
    """Put the original bytes back, restart the server, wait until it answers.

    Works from the host's own journal: any machine, any version of oeactl, no recipe at hand. Takes every
    recipe off the host, or the one named. Twice is a success that changes nothing.
    """
    from oeactl.cli.wiring import wired
    from oeactl.edges.clock import SystemClock, new_operation
    from oeactl.edges.local_record import local_record
    from oeactl.flows.intent import alone
    from oeactl.flows.revert import reverting
    from oeactl.render.change import reverted_document, reverted_lines

    record = local_record()
    picked = call.hosts(host)
    project = str(call.project.root)
    operation, _ = new_operation(SystemClock())

    def flow(here: Wired) -> Steps[Reverted]:
        name = here.site.host.name
        return reverting(
            here.site,
            recipe=recipe,
            operation=operation,
            restart=not no_restart,
            force=force,
            restored=lambda: record.remove(host=name, project=project, recipe=recipe),
        )

    if picked.several:
        from oeactl.cli.several import on_each
        from oeactl.render.several import reverted_view

        _, code = on_each(call, picked.hosts, flow, reverted_view(), yes=yes, fail_fast=fail_fast)
        return code
    with wired(call, picked.hosts[0], yes=yes) as here:
        name = here.site.host.name
        outcome = alone(here.site, flow(here))
    others = record.others(host=name, project=project)
    call.emit(reverted_document(outcome, others), lambda: reverted_lines(outcome, name, others))
    return 0
