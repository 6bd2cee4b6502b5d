"""The engine's files on one host, through the agent.

Owns: turning values into the agent's fields and back. Refuses: to retry; the journal tells what happened.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from oeactl.core.host import Holder, Journal, Survey, SurveyRequest, Transaction, Written
from oeactl.ports import Agent

T = TypeVar("T")

#: Beside the probe: waiting for the lock, copying, compiling.
WRITE_S = 120.0


class AgentFiles:
    """ports.Files over an Agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._root: str | None = None

    def survey(self, request: SurveyRequest) -> Survey:
        survey = _read(self._agent.ask("survey", **_fields(request)), Survey)
        self._root = survey.engine.root
        return survey

    def root(self, request: SurveyRequest) -> str:
        """The engine's root as the last survey found it; a survey is made where there was none."""
        return self._root or self.survey(request).engine.root

    def write(self, transaction: Transaction) -> Written:
        probing_s = 2 * transaction.probe.timeout_s if transaction.probe else 0.0
        answer = self._agent.ask("write", timeout_s=WRITE_S + probing_s, **_fields(transaction))
        return _read(answer, Written)

    def lease(
        self, *, root: str, state_dir: str | None, operation: str, what: str, holder: Holder, lease_s: float
    ) -> None:
        self._agent.ask(
            "lease",
            root=root,
            state_dir=state_dir,
            operation=operation,
            what=what,
            holder=msgspec.to_builtins(holder),
            lease_s=lease_s,
        )

    def settle(self, *, root: str, state_dir: str | None, operation: str) -> None:
        self._agent.ask("settle", root=root, state_dir=state_dir, operation=operation)

    def recover(self, *, root: str, state_dir: str | None, force: bool = False) -> Journal:
        """Finish or undo what an interrupted command left; ``recovered`` says which, None if nothing was."""
        return _read(self._agent.ask("recover", root=root, state_dir=state_dir, force=force), Journal)

    def journal(self, *, root: str, state_dir: str | None) -> Journal:
        return _read(self._agent.ask("journal", root=root, state_dir=state_dir), Journal)


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.to_builtins(value)
    assert isinstance(fields, dict)
    return fields


def _read(answer: Any, kind: type[T]) -> T:
    return msgspec.convert(answer, kind)
