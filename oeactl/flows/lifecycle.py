"""Start, stop and replace a server: each ends with it answering, or with why it does not."""

from __future__ import annotations

from collections.abc import Sequence

from oeactl.core.host import Launch, Layer, ServerState
from oeactl.core.launch import launch_of
from oeactl.errors import Interrupted, OeactlError, Refused, UsageError
from oeactl.flows.site import Site
from oeactl.ports import Failed, Ready, Server

TAIL_LINES = 20


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
    return state.recorded is not None or state.listener is not None or bool(state.workers)


def describe(state: ServerState) -> str:
    """One phrase for a question: who is on the port, and whether we started it."""
    if state.recorded is not None:
        return f"the server that oeactl started ({state.recorded.called})"
    if state.listener is not None:
        title = f", {state.listener.title}" if state.listener.title else ""
        return f"a server that oeactl did not start ({state.listener.called}{title})"
    if state.workers:
        return f"what is left of a server ({state.workers[0].called})"
    return "no server"


def ask(site: Site, question: str) -> None:
    """Go on only after a yes. Raises Interrupted on a no, UsageError where nobody can be asked."""
    if not site.prompt.confirm(question):
        raise Interrupted("not confirmed, so nothing was changed", where=site.host.name)


def stop_question(site: Site, state: ServerState, then: str = "") -> str | None:
    """What to ask before what runs is stopped; None when nothing runs. then: what follows the stop.

    Raises Refused where two servers are in play: ours, and another that holds its port.
    """
    if not is_running(state):
        return None
    if state.recorded is not None and state.listener is not None and state.foreign:
        raise Refused(
            f"two servers are here: the one that oeactl started ({state.recorded.called}), and another on "
            f"its port ({state.listener.called}, {state.listener.title})",
            where=site.host.name,
            hint="end the other one the way it was started",
        )
    return f"Stop {describe(state)} on {site.host.name}{then}?"


def startable(site: Site, layers: Sequence[Layer], *, alone: bool = False, or_else: str = "") -> None:
    """Find out that the server can begin with these recipes, before the one that runs is stopped for it.

    Raises UsageError for a mistake in hosts.yaml that would leave the host without a server, and Refused
    where none runs (alone) and others hold its GPUs. or_else: what can be done without one, for the hint.
    """
    try:
        server_of(site).check(launch_of(site.host, layers), alone=alone)
    except (UsageError, Refused) as fault:
        again = "" if alone else " again"
        raise type(fault)(
            f"the server could not be started{again}, so nothing was touched: {fault.what}",
            where=fault.where,
            hint="; ".join(filter(None, (fault.hint, or_else))),
            details=fault.details,
        ) from fault


def bring_up(site: Site, launch: Launch) -> Ready | Failed:
    """Start it and wait until it answers a real completion.

    Once more where a port that the engine chose for itself was taken; and a server that something starts
    again after each failure is stopped after the first.
    """
    server = server_of(site)
    outcome = _started(site, launch)
    if isinstance(outcome, Failed) and outcome.kind == "port":
        left = server.state(health=False)
        if left.listener is None:
            site.progress.note(f"a port inside the engine was taken ({outcome.first_error}): once more")
            take_down(site, left)
            outcome = _started(site, launch)
    if isinstance(outcome, Failed) and outcome.kind == "loop":
        site.progress.step("stopping what starts it again")
        server.stop(site.progress)
    return outcome


def _started(site: Site, launch: Launch) -> Ready | Failed:
    site.progress.step("starting the server")
    process = server_of(site).start(launch)
    site.progress.step("waiting until it answers")
    return server_of(site).await_ready(process, launch, site.progress)


def take_down(site: Site, state: ServerState) -> None:
    """Stop whatever serves here; nothing to do when nothing does."""
    if is_running(state):
        site.progress.step("stopping the server")
        server_of(site).stop(site.progress, foreign=state.recorded is None)


def log_tail(site: Site, count: int = TAIL_LINES) -> tuple[str, ...]:
    """The log's last lines, for a message about something else: none where they cannot be had."""
    try:
        return server_of(site).log_lines(count)
    except OeactlError:
        return ()


def last_words(failed: Failed) -> tuple[str, ...]:
    """What a server that did not come up leaves to read: its last lines, and the first error in them."""
    return (*failed.tail, *((f"first error: {failed.first_error}",) if failed.first_error else ()))


def remedy(site: Site, failed: Failed) -> str:
    """The next step after a server did not come up: what that kind of error calls for, else its log."""
    return failed.hint or f"oeactl logs --host {site.host.name}"
