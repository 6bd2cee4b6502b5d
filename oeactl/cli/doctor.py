"""``oeactl doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from oeactl.cli.common import AnyRecipeOption, Call, HostOption, command

if TYPE_CHECKING:
    from oeactl.core.inventory import Host


@command("oeactl doctor --host 10.1.230.174", "oeactl doctor --recipe oea --json")
def doctor(call: Call, host: HostOption = None, recipe: AnyRecipeOption = None) -> int:
    """Check every precondition on a host, a row each, and say what mends what.

    Reached, host key, interpreter, engine, files, record, server, its manager, GPUs, room on disk, lock,
    clock. Changes nothing. Exit 0 when no row is bad, else the code of the worst. With a recipe, the files
    that it would change are looked at too.
    """
    from oeactl.cli.wiring import wired
    from oeactl.edges.config import read_recipe
    from oeactl.edges.machine import AgentMachine
    from oeactl.errors import Unreachable
    from oeactl.flows.doctor import Approach, Patient, doctor_of_nodes
    from oeactl.flows.doctor import doctor as run
    from oeactl.render.doctor import diagnosis_document, diagnosis_view
    from oeactl.render.listing import reach

    chosen = call.host(host)
    modules = read_recipe(call.root, recipe).modules if recipe is not None else ()

    @contextmanager
    def approach(host: Host) -> Iterator[Patient]:
        with wired(call, host) as here:
            done = here.remote.run(("true",), timeout_s=30.0)
            if done.returncode != 0:
                raise Unreachable("it runs no command", where=host.name, hint=f"ssh {host.name} true")
            yield Patient(site=here.site, machine=AgentMachine(here.agent), connected=reach(host))

    def approaching(host: Host) -> Approach:
        return partial(approach, host)

    if chosen.members:
        found = doctor_of_nodes(chosen, modules, approaching)
    else:
        found = run(chosen, modules, approaching(chosen))
    call.emit(diagnosis_document(found), lambda: diagnosis_view(found))
    return found.worst
