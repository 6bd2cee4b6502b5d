"""The host's machine itself, through the agent.

Owns: ports.Machine. Refuses: to judge what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from oeactl.core.adoption import FoundServer
from oeactl.core.container_adoption import FoundContainer
from oeactl.core.host import MachineFacts
from oeactl.ports import Agent


class AgentMachine:
    """ports.Machine over an Agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def look(
        self,
        *,
        folders: Sequence[str] = (),
        programs: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> MachineFacts:
        answer = self._agent.ask(
            "checkup", folders=list(folders), programs=list(programs), env=dict(env or {})
        )
        return msgspec.convert(answer, MachineFacts)

    def running(self, *, port: int | None = None, pid: int | None = None) -> FoundServer:
        return msgspec.convert(self._agent.ask("adopt", port=port, pid=pid), FoundServer)

    def container(
        self, *, name: str | None = None, file: str | None = None, service: str | None = None
    ) -> FoundContainer:
        answer = self._agent.ask("container.adopt", name=name, file=file, service=service)
        return msgspec.convert(answer, FoundContainer)

    def read_text(self, path: str) -> str:
        text = self._agent.ask("read_text", path=path)
        assert isinstance(text, str)
        return text
