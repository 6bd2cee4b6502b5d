"""A stand-in server begun through the real agent on this machine, and what a person would have been told."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from oeactl.core.host import Launch
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.local import open_local
from oeactl.edges.servers.process import ProcessServer
from oeactl.edges.terminal import share

STANDIN = Path(__file__).with_name("standin_server.py")
WORKERS = 8


def _ports() -> Iterator[int]:
    """Below those that outgoing connections take, each once, and none that another worker of xdist gives."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    mine = range(20000 + worker, 32000, WORKERS)
    return cycle(random.sample(mine, len(mine)))


_left = _ports()


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that is nobody's and stays free while a server loads."""
    for number in _left:
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", number))
            return number
    raise AssertionError("there is always a next one")


def agent() -> AgentLink:
    """An agent on this machine. OEACTL_TEST_PYTHON: another interpreter for it (3.8 is the oldest)."""
    return AgentLink(open_local(), python=os.environ.get("OEACTL_TEST_PYTHON", sys.executable))


@dataclass
class Told:
    """ports.Progress that remembers."""

    updates: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def step(self, text: str) -> None:
        self.updates.append(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        self.updates.append(text + share(done, total))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@dataclass
class Standin:
    """One server's place: a port, a state folder, a log."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log" / "server.log"

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    def answers(self) -> bool:
        """Whether somebody listens on the port, well or not."""
        return listens(self.port)

    def launch(self, *args: str, **changes: Any) -> Launch:
        fields: dict[str, Any] = {
            "python": sys.executable,
            "argv": (str(STANDIN), "--port", str(self.port), *args),
            "cwd": str(self.folder),
            "env": {"STANDIN_DIGEST": "d1", "HF_TOKEN": "hf_in_the_environment"},
            "log": str(self.log),
            "url": self.url,
        }
        return Launch(**{**fields, **changes})

    def server(self, **changes: Any) -> ProcessServer:
        fields: dict[str, Any] = {
            "root": lambda: str(self.folder / "sglang"),
            "state_dir": str(self.state_dir),
            "url": self.url,
            "log": str(self.log),
            "ready_timeout_s": 60.0,
            "stop_timeout_s": 10.0,
            "grace_s": 0.5,
        }
        return ProcessServer(agent(), **{**fields, **changes})

    def pids(self) -> list[int]:
        """Every process whose environment names this folder: found without the code under test."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    text = (entry / "environ").read_bytes()
                    ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                except OSError:
                    continue
                if not ended and f"{self.folder}/state".encode() in text:
                    found.append(int(entry.name))
        return found

    def clear(self) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
