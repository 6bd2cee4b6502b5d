"""``oeactl patch``."""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from oeactl.cli.common import (
    AllowCodeOption,
    Call,
    FailFastOption,
    HostsOption,
    NoRestartOption,
    RecipeOption,
    SetOption,
    YesOption,
    command,
    transformer,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oeactl.cli.wiring import Wired
    from oeactl.core.host import Survey
    from oeactl.core.inventory import Host
    from oeactl.core.outcomes import Patched
    from oeactl.core.plan import Planned
    from oeactl.flows.intent import Steps

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change and restart; write nothing on the host.")
]


@command(
    "oeactl patch --host 10.1.230.174",
    "oeactl patch --set k0=2 --dry-run",
    "oeactl patch --recipe oea --set k0=4 --set max_tokens=256 --yes",
    "oeactl patch --host lab,10.1.230.175 --yes",
)
def patch(
    call: Call,
    host: HostsOption = None,
    recipe: RecipeOption = "oea",
    sets: SetOption = [],  # noqa: B006 - typer's way to say none
    dry_run: DryRunOption = False,
    no_restart: NoRestartOption = False,
    allow_code: AllowCodeOption = False,
    fail_fast: FailFastOption = False,
    yes: YesOption = False,
) -> int:
    """Apply a recipe to the engine on a host, restart the server, prove that the change runs.

    All files or none, from a plan made on the very bytes that are there. If the server does not come up, or
    its workers do not show the change, the files and the server are put back (exit 6). Twice is once: what is
    applied already is left alone; other parameters are changed in place. Several hosts are worked on side by
    side, once all of them have been looked at; one that fails does not stop the others.
    """
    from oeactl.edges.clock import SystemClock, new_operation
    from oeactl.edges.config import read_recipe
    from oeactl.edges.statements import remembered
    from oeactl.flows.patch import patching
    from oeactl.render.change import planned_lines

    values = values_of(sets)
    loaded = read_recipe(call.root, recipe)
    picked = call.hosts(host)
    operation, applied_at = new_operation(SystemClock())
    plans: dict[str, tuple[Planned, Survey]] = {}

    def flow(here: Wired) -> Steps[Patched]:
        name = here.site.host.name

        def show(plan: Planned, survey: Survey) -> None:
            plans[name] = (plan, survey)
            if not picked.several:
                view([name], plan, survey)

        return patching(
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

    def view(names: list[str], plan: Planned, survey: Survey) -> None:
        if not call.json:
            if picked.several:
                call.show(f"on {', '.join(names)}:")
            call.show(planned_lines(plan, survey, whole=dry_run or call.verbose))

    with remembered() as read_before:
        tables = () if call.json else ("rich.console", "rich.table")
        _ahead(picked.hosts, *(() if read_before else ("libcst",)), *tables)
        if picked.several:
            return _several(call, picked.hosts, flow, view, plans, applied_at, yes=yes, fail_fast=fail_fast)
        (chosen,) = picked.hosts
        return _alone(call, chosen, flow, plans, applied_at, yes=yes)


def _alone(
    call: Call,
    chosen: Host,
    flow: Callable[[Wired], Steps[Patched]],
    plans: dict[str, tuple[Planned, Survey]],
    applied_at: str,
    *,
    yes: bool,
) -> int:
    from oeactl.cli.wiring import wired
    from oeactl.errors import Degraded
    from oeactl.flows.intent import alone
    from oeactl.render.change import patched_document, patched_lines

    with wired(call, chosen, yes=yes) as here:
        try:
            outcome = alone(here.site, flow(here))
        except Degraded:
            _put_on_record(call, [chosen], plans, applied_at)  # it may still be on the disk
            raise
        if outcome.status == "patched":
            _put_on_record(call, [chosen], plans, applied_at)
        call.emit(lambda: patched_document(outcome), lambda: patched_lines(outcome, chosen.name))
    return 0


def _ahead(hosts: tuple[Host, ...], *modules: str) -> None:
    """Begin to import what is needed once the hosts have answered; whoever imports it then waits for it.

    What reaches them comes first: one import delays the other, and this one has the time they take to answer.
    """
    remote = not all(machine.is_local for host in hosts for machine in host.members or (host,))

    def work() -> None:
        with suppress(ImportError):  # to be raised where it is needed
            if remote:
                import_module("oeactl.edges.ssh.dial")
            for module in modules:
                import_module(module)

    threading.Thread(target=work).start()


def _several(
    call: Call,
    hosts: tuple[Host, ...],
    flow: Callable[[Wired], Steps[Patched]],
    view: Callable[[list[str], Planned, Survey], None],
    plans: dict[str, tuple[Planned, Survey]],
    applied_at: str,
    *,
    yes: bool,
    fail_fast: bool,
) -> int:
    from oeactl.cli.several import on_each
    from oeactl.errors import Degraded
    from oeactl.render.several import alike, patched_view

    def decided() -> None:
        for names, plan, survey in alike(
            {host.name: plans[host.name] for host in hosts if host.name in plans}
        ):
            view(names, plan, survey)

    results, code = on_each(call, hosts, flow, patched_view(), yes=yes, fail_fast=fail_fast, decided=decided)
    changed = [
        host
        for host, result in zip(hosts, results, strict=True)
        if (result.outcome is not None and result.outcome.status == "patched")
        or isinstance(result.error, Degraded)
    ]
    _put_on_record(call, changed, plans, applied_at)
    return code


def _put_on_record(
    call: Call, hosts: list[Host], plans: dict[str, tuple[Planned, Survey]], applied_at: str
) -> None:
    from oeactl.core.outcomes import OnRecord
    from oeactl.edges.local_record import local_record

    root = str(call.project.root)
    made = [(host, plans[host.name][0]) for host in hosts if host.name in plans]
    if made:
        local_record().add(
            *(
                OnRecord(
                    host=host.name,
                    address=host.address,
                    project=root,
                    recipe=plan.recipe,
                    digest=plan.digest,
                    at=applied_at,
                )
                for host, plan in made
            )
        )
