"""A server that a systemd unit keeps.

Owns: ports.Server over systemctl, on the host. Refuses: to edit the unit; what it adds is a drop-in under
/run, gone with the stop.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oeactl.core.host import Launch, Process
from oeactl.edges.servers.process import ProcessServer
from oeactl.ports import Agent, Failed, Progress, Ready

START_S = 600.0  # a unit of Type=notify returns when it says that it is up
UNITS_DIR = "/run/systemd/system"


class SystemdServer(ProcessServer):
    """ports.Server by ``systemctl start`` and ``stop`` of ``unit``, watched by its main process.

    argv: what the unit starts after its interpreter; only where the launch says something else is its
    command replaced. log: the file that its output goes to while oeactl runs it.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        unit: str,
        argv: tuple[str, ...] = (),
        units_dir: str = UNITS_DIR,
        **place: Any,
    ) -> None:
        super().__init__(agent, **place)
        self._unit: dict[str, Any] = {"unit": unit, "units_dir": units_dir}
        self._argv = argv

    def check(self, launch: Launch, *, alone: bool = False) -> None:
        self._check(launch, alone=alone, unit=self._unit["unit"])

    def start(self, launch: Launch) -> Process:
        changed = launch.argv != self._argv
        answer = self._agent.ask(
            "server.unit_start",
            timeout_s=START_S + 60.0,
            env=launch.env,
            exec=[launch.python, *launch.argv] if changed else None,
            deadline_s=START_S,
            **self._unit,
            **self._place,
        )
        return msgspec.convert(answer, Process)

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        return self._await_ready(process, progress, **self._unit)

    def stop(self, progress: Progress, *, foreign: bool = False) -> None:
        """Let systemd stop it: its owner named the unit, so whose server it ends is not asked."""
        unit = self._unit["unit"]
        status = ["systemctl", "is-active", "--quiet", unit]
        self._stop(progress, command=["systemctl", "stop", unit], status=status)
        self._agent.ask("server.unit_clean", **self._unit)
