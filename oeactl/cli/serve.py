"""``oeactl start``, ``stop``, ``restart``, ``logs``: the server by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from oeactl.cli.common import Call, HostOption, YesOption, command

if TYPE_CHECKING:
    from oeactl.core.outcomes import Served
    from oeactl.flows.site import Site

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come, until Ctrl-C.")]
LinesOption = Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")]


@command("oeactl start --host 10.1.230.174")
def start(call: Call, host: HostOption = None) -> None:
    """Start the server of hosts.yaml, wait until it answers, prove the recipes that are on disk."""
    from oeactl.flows.serve import start as run

    _serve(call, host, False, run)


@command("oeactl stop --host 10.1.230.174 --yes")
def stop(call: Call, host: HostOption = None, yes: YesOption = False) -> None:
    """Stop the server with all its processes."""
    from oeactl.flows.serve import stop as run

    _serve(call, host, yes, run)


@command("oeactl restart --host 10.1.230.174 --yes")
def restart(call: Call, host: HostOption = None, yes: YesOption = False) -> None:
    """Stop the server, start it from hosts.yaml, wait until it answers, prove the recipes on disk."""
    from oeactl.flows.serve import restart as run

    _serve(call, host, yes, run)


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
    def __call__(self, site: Site, *, operation: str) -> Served: ...


def _serve(call: Call, host: str | None, yes: bool, run: _Flow) -> None:
    from oeactl.cli.wiring import wired
    from oeactl.edges.clock import new_operation
    from oeactl.render.change import served_lines

    with wired(call, call.host(host), yes=yes) as here:
        name = here.site.host.name
        operation, _ = new_operation(here.site.clock)
        outcome = run(here.site, operation=operation)
    call.emit(outcome, lambda: served_lines(outcome, name))
