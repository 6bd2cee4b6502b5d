"""``oeactl unlock``."""

from __future__ import annotations

from typing import Annotated

import typer

from oeactl.cli.common import Call, HostOption, YesOption, command

ForceOption = Annotated[bool, typer.Option("--force", help="End the lease, after a question.")]


@command("oeactl unlock --host 10.1.230.174", "oeactl unlock --force")
def unlock(call: Call, host: HostOption = None, force: ForceOption = False, yes: YesOption = False) -> None:
    """End the lease that a command holds on a host while it works there.

    Without --force it says whose it is (exit 5). A lease ends by itself when nothing is heard of its command
    for a quarter of an hour; that of your own command that was killed here ends with your next one.
    """
    from oeactl.cli.wiring import wired
    from oeactl.flows.unlock import unlock as run

    with wired(call, call.host(host), yes=yes) as here:
        outcome = run(here.site, force=force)
        name = here.site.host.name
    what = f": {outcome.lease.what} by {outcome.lease.holder.user}" if outcome.lease else ""
    call.emit(outcome, lambda: f"{name} {outcome.status}{what}")
