"""``oeactl start``, ``stop``, ``restart``, ``logs``: the server by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from oeactl.cli.common import Call, FailFastOption, HostOption, HostsOption, YesOption, command

if TYPE_CHECKING:
    from oeactl.cli.wiring import Wired
    from oeactl.core.outcomes import Served
    from oeactl.flows.intent import Steps
    from oeactl.flows.site import Site

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come, until Ctrl-C.")]
LinesOption = Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")]


@command("oeactl start --host 10.1.230.174")
def start(call: Call, host: HostsOption = None, fail_fast: FailFastOption = False) -> int:
    """Start the server of hosts.yaml, wait until it answers, prove the recipes that are on disk."""
    from oeactl.flows.serve import starting

    return _serve(call, host, starting, yes=False, fail_fast=fail_fast)


@command("oeactl stop --host 10.1.230.174 --yes")
def stop(
    call: Call, host: HostsOption = None, fail_fast: FailFastOption = False, yes: YesOption = False
) -> int:
    """Stop the server with all its processes."""
    from oeactl.flows.serve import stopping

    return _serve(call, host, stopping, yes=yes, fail_fast=fail_fast)


@command("oeactl restart --host 10.1.230.174 --yes")
def restart(
    call: Call, host: HostsOption = None, fail_fast: FailFastOption = False, yes: YesOption = False
) -> int:
    """Stop the server, start it from hosts.yaml, wait until it answers, prove the recipes on disk."""
    from oeactl.flows.serve import restarting

    return _serve(call, host, restarting, yes=yes, fail_fast=fail_fast)


@command("oeactl logs --host 10.1.230.174 -n 200", "oeactl logs -f")
def logs(call: Call, host: HostOption = None, follow: FollowOption = False, lines: LinesOption = 50) -> int:
    """Show the end of the server's log; with -f go on as it grows. Secrets in it are hidden."""
    from oeactl.cli.wiring import wired
    from oeactl.errors import UsageError
    from oeactl.flows.lifecycle import server_of

    if follow and call.json:
        raise UsageError("--follow has no end, and --json is one document", hint="leave one of them out")
    with wired(call, call.host(host)) as here:
        name, server, spec = here.site.host.name, server_of(here.site), here.site.host.server
        shown = server.log_lines(lines)
        if lines and not shown and spec is not None:
            call.progress.note(
                f"there is nothing in {spec.log} on {name}: no server of oeactl wrote to it yet"
            )
        if not follow:
            if shown or call.json:
                call.emit({"lines": shown}, lambda: "\n".join(shown))
            return 0
        try:
            with server.follow_log(lines) as grown:
                for line in grown:
                    call.line(line)
        except KeyboardInterrupt:
            return 130  # the way to end it
    return 0


class _Flow(Protocol):
    def __call__(self, site: Site, *, operation: str) -> Steps[Served]: ...


def _serve(call: Call, host: str | None, flow: _Flow, *, yes: bool, fail_fast: bool) -> int:
    from oeactl.cli.wiring import wired
    from oeactl.edges.clock import SystemClock, new_operation
    from oeactl.flows.intent import alone
    from oeactl.render.change import served_lines

    picked = call.hosts(host)
    operation, _ = new_operation(SystemClock())

    def steps(here: Wired) -> Steps[Served]:
        return flow(here.site, operation=operation)

    if picked.several:
        from oeactl.cli.several import on_each
        from oeactl.render.several import served_view

        _, code = on_each(call, picked.hosts, steps, served_view(), yes=yes, fail_fast=fail_fast)
        return code
    with wired(call, picked.hosts[0], yes=yes) as here:
        name = here.site.host.name
        outcome = alone(here.site, steps(here))
    call.emit(outcome, lambda: served_lines(outcome, name))
    return 0
