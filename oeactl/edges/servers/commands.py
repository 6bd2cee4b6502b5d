"""A server that its owner starts and stops by commands of his own.

Owns: running them on the host and finding the server by its port. Refuses: to guess a process before it
listens; one that began before the start command is never taken for ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oeactl.core.host import Launch, Process
from oeactl.edges.servers.process import ProcessServer
from oeactl.ports import Agent, Failed, Progress, Ready

START_S = 600.0


class CommandsServer(ProcessServer):
    """ports.Server by start, stop and status commands (argv; status is optional, exit code 0 means running).

    env comes over the host's basics. The start command must return; what it left running is awaited.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        start: tuple[str, ...],
        stop: tuple[str, ...],
        status: tuple[str, ...] = (),
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        **place: Any,
    ) -> None:
        super().__init__(agent, **place)
        self._start_argv, self._stop_argv, self._status_argv = start, stop, status
        self._cwd, self._env = cwd, dict(env or {})

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        named = {"start": self._start_argv, "stop": self._stop_argv, "status": self._status_argv}
        self._check(launch, alone=alone, commands={key: list(argv) for key, argv in named.items() if argv})

    def start(self, launch: Launch) -> Process:
        """Run the start command. The Process returned has pid 0 and the earliest possible start_ticks."""
        answer = self._agent.ask(
            "server.command_start",
            timeout_s=START_S + 60.0,
            command=list(self._start_argv),
            env={**self._env, **launch.env},
            cwd=self._cwd,
            deadline_s=START_S,
            **self._place,
        )
        return msgspec.convert(answer, Process)

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        return self._await_ready(process, progress, **self._commands())

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        """Run the stop command: its owner named it, so whose server it ends is not asked."""
        self._stop(progress, command=list(self._stop_argv), **self._commands())

    def _commands(self) -> dict[str, Any]:
        return {"status": list(self._status_argv), "env": self._env, "cwd": self._cwd}
