"""``oeactl patch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import (
    AllowCodeOption,
    Call,
    HostOption,
    NoRestartOption,
    RecipeOption,
    SetOption,
    YesOption,
    command,
    transformer,
    values_of,
)

if TYPE_CHECKING:
    from oeactl.core.host import Survey
    from oeactl.core.plan import Planned

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change and restart; write nothing on the host.")
]


@command(
    "oeactl patch --host 10.1.230.174",
    "oeactl patch --set k0=2 --dry-run",
    "oeactl patch --recipe oea --set k0=4 --set max_tokens=256 --yes",
)
def patch(
    call: Call,
    host: HostOption = None,
    recipe: RecipeOption = "oea",
    sets: SetOption = [],  # noqa: B006 - typer's way to say none
    dry_run: DryRunOption = False,
    no_restart: NoRestartOption = False,
    allow_code: AllowCodeOption = False,
    yes: YesOption = False,
) -> None:
    """Apply a recipe to the engine on a host, restart the server, prove that the change runs.

    All files or none, from a plan made on the very bytes that are there. If the server does not come up, or
    its workers do not show the change, the files and the server are put back (exit 6). Twice is once: what is
    applied already is left alone; other parameters are changed in place.
    """
    from oeactl.cli.wiring import wired
    from oeactl.core.outcomes import OnRecord
    from oeactl.edges.clock import new_operation
    from oeactl.edges.config import read_recipe
    from oeactl.edges.local_record import local_record
    from oeactl.errors import Degraded
    from oeactl.flows.patch import patch as run
    from oeactl.render.change import patched_document, patched_lines, planned_lines

    values = values_of(sets)
    loaded = read_recipe(call.root, recipe)
    with wired(call, call.host(host), yes=yes) as here:
        operation, applied_at = new_operation(here.site.clock)
        planned: list[Planned] = []

        def show(plan: Planned, survey: Survey) -> None:
            planned.append(plan)
            if not call.json:
                call.show(planned_lines(plan, survey, whole=dry_run or call.verbose))

        def put_on_record() -> None:
            for plan in planned:
                local_record().add(
                    OnRecord(
                        host=here.site.host.name,
                        address=here.site.host.address,
                        project=str(call.project.root),
                        recipe=plan.recipe,
                        digest=plan.digest,
                        at=applied_at,
                    )
                )

        try:
            outcome = run(
                here.site,
                loaded,
                values,
                operation=operation,
                applied_at=applied_at,
                dry_run=dry_run,
                restart=not no_restart,
                show=show,
                transformer=transformer(allow_code),
            )
        except Degraded:
            put_on_record()  # it may still be on the disk
            raise
        if outcome.status == "patched":
            put_on_record()
        call.emit(patched_document(outcome), lambda: patched_lines(outcome, here.site.host.name))
