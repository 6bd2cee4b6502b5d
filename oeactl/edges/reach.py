"""Whether a machine reaches a server that runs on another, before a load is sent from there.

Owns: one request, and what its failure says. Refuses: to judge an answer; any is one.
"""

from __future__ import annotations

from oeactl.edges.engines.requests import Loopback
from oeactl.errors import Unreachable
from oeactl.ports import Agent

_TIMEOUT_S = 15.0


def check_reach(agent: Agent, url: str, *, api_key: str | None = None) -> None:
    """Ask the server at ``url`` for its models from where ``agent`` is. Raises Unreachable."""
    answer = Loopback(agent, url=url, api_key=api_key).get("/v1/models", timeout_s=_TIMEOUT_S)
    if answer.status == 0:
        raise Unreachable(
            f"the server is not reached from there: {answer.error}",
            where=f"{agent.name}: {url}",
            hint="it must listen on more than loopback; --from-url names it as that host sees it",
        )
