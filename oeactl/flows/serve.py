"""start, stop, restart: a server by itself, with whatever is on disk; a patched one is proven as well."""

from __future__ import annotations

from typing import Literal

from oeactl.core.launch import launch_of
from oeactl.core.outcomes import Served
from oeactl.errors import Degraded, Unreachable
from oeactl.flows.lifecycle import ask, bring_up, describe, is_running, server_of, take_down
from oeactl.flows.prove import prove
from oeactl.flows.site import Site, look
from oeactl.ports import Failed


def start(site: Site) -> Served:
    """Start the server, wait for a completion, prove what is on disk. Nothing when it runs already."""
    server = server_of(site)
    state = server.state()
    if state.recorded is not None:
        return Served(status="running already", pid=state.recorded.pid)
    return _up(site, "started")


def stop(site: Site) -> Served:
    """Stop it with all its processes, after a yes."""
    state = server_of(site).state(health=False)
    if not is_running(state):
        return Served(status="was not running")
    ask(site, f"Stop {describe(state)} on {site.host.name}?")
    take_down(site, state)
    return Served(status="stopped")


def restart(site: Site) -> Served:
    """Stop what runs, after a yes, and start it from hosts.yaml with the recipes on disk."""
    state = server_of(site).state(health=False)
    if is_running(state):
        ask(site, f"Stop {describe(state)} on {site.host.name} and start it again?")
        take_down(site, state)
        return _up(site, "restarted")
    return _up(site, "started")


def _up(site: Site, status: Literal["started", "restarted"]) -> Served:
    layers = look(site, (), data=False).journal.layers
    outcome = bring_up(site, launch_of(site.host, layers))
    if isinstance(outcome, Failed):
        raise _not_up(site, outcome)
    verdicts = prove(site, layers)
    if isinstance(verdicts, Failed):
        raise _not_up(site, verdicts)
    inactive = [verdict for verdict in verdicts if verdict.failed]
    if inactive:
        raise Degraded(
            f"the server is up, and {inactive[0].summary}",
            where=site.host.name,
            hint=inactive[0].remedy,
            details=inactive[0].lines(),
        )
    return Served(status=status, pid=outcome.process.pid, seconds=outcome.seconds, verdicts=verdicts)


def _not_up(site: Site, failed: Failed) -> Unreachable:
    first = (f"first error: {failed.first_error}",) if failed.first_error else ()
    return Unreachable(
        f"the server did not come up: {failed.why}",
        where=site.host.name,
        hint=f"oeactl logs --host {site.host.name}",
        details=(*failed.tail, *first),
    )
