"""Watching an operation of the agent to its answer.

Owns: ``answer_of``. Refuses: to know what the events mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oeactl.errors import ConnectionLost
from oeactl.ports import Agent


def answer_of(agent: Agent, op: str, told: Callable[[Mapping[str, Any]], None], /, **fields: Any) -> Any:
    """Run a watched operation, pass its events to ``told``, return its answer."""
    with agent.watch(op, **fields) as events:
        for event in events:
            if event["event"] == "answer":
                return event["value"]
            told(event)
    raise ConnectionLost(
        "the agent was ended before it answered: what it did is unknown",
        where=agent.name,
        hint="oeactl status tells how the host stands",
    )
