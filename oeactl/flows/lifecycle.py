"""Start, stop and replace a server: each ends with it answering, or with why it does not."""

from __future__ import annotations

from oeactl.core.host import Launch, ServerState
from oeactl.errors import Interrupted, UsageError
from oeactl.flows.site import Site
from oeactl.ports import Failed, Ready, Server


def server_of(site: Site) -> Server:
    """The host's server. Raises UsageError where hosts.yaml describes none."""
    if site.server is None:
        raise UsageError(
            f"{site.host.name} has no server in hosts.yaml",
            hint=f"add hosts.{site.host.name}.server",
        )
    return site.server


def is_running(state: ServerState) -> bool:
    """Something of ours lives, or something holds the port."""
    return state.recorded is not None or state.listener is not None


def describe(state: ServerState) -> str:
    """One phrase for a question: who is on the port, and whether we started it."""
    if state.recorded is not None:
        return f"the server that oeactl started (pid {state.recorded.pid})"
    if state.listener is not None:
        title = f", {state.listener.title}" if state.listener.title else ""
        return f"a server that oeactl did not start (pid {state.listener.pid}{title})"
    return "no server"


def ask(site: Site, question: str) -> None:
    """Go on only after a yes. Raises Interrupted on a no, UsageError where nobody can be asked."""
    if not site.prompt.confirm(question):
        raise Interrupted("not confirmed, so nothing was changed", where=site.host.name)


def bring_up(site: Site, launch: Launch) -> Ready | Failed:
    """Start it and wait until it answers a real completion."""
    server = server_of(site)
    site.progress.step("starting the server")
    process = server.start(launch)
    site.progress.step("waiting until it answers")
    return server.await_ready(process, launch, site.progress)


def take_down(site: Site, state: ServerState) -> None:
    """Stop whatever serves here; nothing to do when nothing does."""
    if is_running(state):
        site.progress.step("stopping the server")
        server_of(site).stop(site.progress, foreign=state.recorded is None)
