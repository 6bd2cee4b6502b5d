"""An engine's compilation caches on a host, by its agent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from oeactl.core.caches import CacheState
from oeactl.ports import Agent

_LOOK_S = 120.0
_WIPE_S = 600.0


class AgentCaches:
    """ports.Caches over an Agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def look(self, env: Mapping[str, str]) -> tuple[CacheState, ...]:
        answer = self._agent.ask("caches.look", timeout_s=_LOOK_S, env=dict(env))
        return msgspec.convert(answer, tuple[CacheState, ...])

    def wipe(self, env: Mapping[str, str]) -> tuple[CacheState, ...]:
        answer = self._agent.ask("caches.wipe", timeout_s=_WIPE_S, env=dict(env))
        return msgspec.convert(answer, tuple[CacheState, ...])
