"""start, stop, restart: a server by itself, with whatever is on disk; a patched one is proven as well.

Each holds the host's lease while it works, so that no patch and no bench is under way at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from oeactl.core.host import Layer, ServerState, Survey
from oeactl.core.launch import launch_of
from oeactl.core.outcomes import Served
from oeactl.errors import Degraded, Interrupted, Unreachable
from oeactl.flows.intent import Intent, Steps, on_one
from oeactl.flows.lease import KeepingProgress, holding
from oeactl.flows.lifecycle import (
    bring_up,
    is_running,
    last_words,
    remedy,
    server_of,
    startable,
    stop_question,
    take_down,
)
from oeactl.flows.prove import inactive, prove, remedy_after_exercise
from oeactl.flows.site import Site, claim, even, look, look_settled
from oeactl.ports import Failed


def starting(site: Site, *, operation: str) -> Steps[Served]:
    """Start the server, wait for a completion, prove what is on disk. Nothing when it runs already.

    Raises Refused where another server holds the port, Locked, Unreachable when it does not come up,
    Degraded when it does and a recipe on disk is not active.
    """
    state = server_of(site).state()
    if state.recorded is not None:
        return Served(status="running already", pid=state.recorded.pid, notes=_unwell(site, state))
    survey = _settled(site)
    startable(site, survey.journal.layers, alone=not is_running(state))
    yield Intent(survey=survey, operation=operation, what="start", lasting=True)
    with _held(site, survey, "start", operation) as leased:
        return _up(leased, survey.journal.layers, "started")


def stopping(site: Site, *, operation: str) -> Steps[Served]:
    """Stop it with all its processes, after a yes."""
    state = server_of(site).state(health=False)
    if not is_running(state):
        return Served(status="was not running")
    survey = look(site, (), data=False)
    claim(site, survey.journal)
    question = stop_question(site, state)
    yield Intent(survey=survey, operation=operation, what="stop", question=question, lasting=True)
    with _held(site, survey, "stop", operation) as leased:
        take_down(leased, state)
    return Served(status="stopped")


def restarting(site: Site, *, operation: str) -> Steps[Served]:
    """Stop what runs, after a yes, and start it from hosts.yaml with the recipes on disk."""
    state = server_of(site).state(health=False)
    survey = _settled(site)
    startable(site, survey.journal.layers, alone=not is_running(state))
    question = stop_question(site, state, " and start it again")
    yield Intent(survey=survey, operation=operation, what="restart", question=question, lasting=True)
    with _held(site, survey, "restart", operation) as leased:
        take_down(leased, state)
        return _up(leased, survey.journal.layers, "restarted" if is_running(state) else "started")


start, stop, restart = on_one(starting), on_one(stopping), on_one(restarting)


def _settled(site: Site) -> Survey:
    """Look at what is on disk and will be started, before anything is stopped. Raises Locked, Refused."""
    survey = look_settled(site, (), data=False)
    claim(site, survey.journal)
    even(site, survey)
    return survey


@contextmanager
def _held(site: Site, survey: Survey, what: str, operation: str) -> Iterator[Site]:
    """The site under a lease; a Ctrl-C says how the server stands."""
    name = site.host.name
    try:
        with holding(site, root=survey.engine.root, operation=operation, what=what) as lease:
            yield replace(site, progress=KeepingProgress(site.progress, lease))
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; the {what} was not waited for, and what was begun of it goes on by itself",
            where=name,
            hint=f"oeactl status --host {name}; oeactl stop --host {name}",
        ) from None


def _unwell(site: Site, state: ServerState) -> tuple[str, ...]:
    name = site.host.name
    if state.lost:
        return (f"a part of it ended: oeactl status --host {name}; oeactl restart --host {name}",)
    if state.healthy is not False:
        return ()
    return (f"it does not answer yet ({state.health}): oeactl logs -f --host {name}",)


def _up(site: Site, layers: tuple[Layer, ...], status: Literal["started", "restarted"]) -> Served:
    outcome = bring_up(site, launch_of(site.host, layers))
    if isinstance(outcome, Failed):
        raise _not_up(site, outcome)
    verdicts = prove(site, layers)
    if isinstance(verdicts, Failed):
        raise _not_up(site, verdicts)
    bypassed = inactive(verdicts)
    if bypassed is not None:
        raise Degraded(
            f"the server is up, and {bypassed.summary}",
            where=site.host.name,
            hint=remedy_after_exercise(site, bypassed),
            details=bypassed.lines(),
        )
    return Served(status=status, pid=outcome.process.pid, seconds=outcome.seconds, verdicts=verdicts)


def _not_up(site: Site, failed: Failed) -> Unreachable:
    return Unreachable(
        f"the server did not come up: {failed.why}",
        where=site.host.name,
        hint=remedy(site, failed),
        details=last_words(failed),
    )
