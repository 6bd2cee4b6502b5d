"""Where faults are met: engines of two files, an sshd and a relay of their own, who patch and who revert.

Owns: the flows as the commands run them, over real transports, one fault put into one message to the host.
Refuses: to judge (``faults`` says what must hold).
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from oeactl.core.host import Holder
from oeactl.core.inventory import EngineSpec, Host
from oeactl.core.recipe import Recipe
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.clock import SystemClock
from oeactl.edges.config import read_recipe
from oeactl.edges.files import AgentFiles
from oeactl.edges.local import open_local
from oeactl.edges.ssh import open_ssh
from oeactl.flows.patch import patch
from oeactl.flows.revert import revert
from oeactl.flows.site import Site
from oeactl.ports import Remote
from tests.support import sshd
from tests.support.fleet import ENGINE, FILE, SECOND_FILE, Fleet, make_fleet

Kind = Literal["patch", "revert"]
HOST = "h1"
MODE = 0o640
ANN = Holder(user="ann", host="laptop", pid=1)
BOB = Holder(user="bob", host="desk", pid=2)
DEAD_AFTER_S = 1.5


class FaultyLink(AgentLink):
    """An AgentLink whose first ``write`` carries a fault; with ``trace`` its steps are kept."""

    def __init__(self, remote: Remote, python: str, fault: Mapping[str, Any] | None) -> None:
        super().__init__(remote, python=python, keep=True)
        self._fault = fault
        self.steps: list[dict[str, Any]] = []

    def ask(self, op: str, /, *, timeout_s: float = 120.0, **fields: Any) -> Any:
        if op != "write" or self._fault is None:
            return super().ask(op, timeout_s=timeout_s, **fields)
        fault, self._fault = self._fault, None
        if "trace" not in fault:
            return super().ask(op, timeout_s=timeout_s, **fields, fault=fault)
        with self.watch(op, **fields, fault=fault) as events:
            for event in events:
                if event["event"] == "answer":
                    return event["value"]
                self.steps.append(dict(event))
        raise AssertionError("no answer")


class Quiet:
    def step(self, text: str) -> None: ...
    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None: ...
    def note(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


class Nobody:
    def confirm(self, question: str) -> bool:
        return False


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One host with its engine. what: what the files held when the fault was met."""

    fleet: Fleet
    recipe: Recipe

    @property
    def site_folder(self) -> Path:
        return self.fleet.engine(HOST)

    @property
    def state(self) -> Path:
        return self.fleet.state(HOST)

    def path(self, name: str) -> Path:
        return self.site_folder / name

    def contents(self) -> dict[str, bytes]:
        return self.fleet.files(HOST)

    def facts(self) -> tuple[int, ...]:
        """Mode, owner and group of both files."""
        found = []
        for name in (FILE, SECOND_FILE):
            facts = self.path(name).stat()
            found += [stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid]
        return tuple(found)

    def left_behind(self) -> list[str]:
        """Files of ours that nobody should find: temporary ones beside the engine's and in the record."""
        folders = [self.site_folder, *([self.state] if self.state.exists() else [])]
        return [
            path.name
            for folder in folders
            for path in folder.rglob("*")
            if "oeactl-" in path.name or path.name.endswith(".new")
        ]

    @contextmanager
    def operator(
        self,
        remote: Remote,
        *,
        who: Holder = ANN,
        python: str = sys.executable,
        fault: Mapping[str, Any] | None = None,
    ) -> Iterator[Operator]:
        link = FaultyLink(remote, python, fault)
        host = Host(
            name=HOST,
            state_dir=str(self.state),
            engine=EngineSpec(python=python, root=str(self.site_folder)),
        )
        site = Site(
            host=host,
            files=AgentFiles(link),
            server=None,
            engine=None,
            clock=SystemClock(),
            progress=Quiet(),
            prompt=Nobody(),
            holder=who,
        )
        try:
            yield Operator(subject=self, site=site, link=link)
        finally:
            link.close()


@dataclass(frozen=True, kw_only=True)
class Operator:
    """Somebody who patches and reverts, as the commands do."""

    subject: Subject
    site: Site
    link: FaultyLink

    def carry_out(self, kind: Kind, operation: str = "op-1", *, force: bool = False) -> str:
        """Run one command to its end; the status it reports. Raises what it raises."""
        if kind == "revert":
            done = revert(self.site, recipe=None, operation=operation, restart=False, force=force)
            return done.status
        return patch(
            self.site,
            self.subject.recipe,
            {},
            operation=operation,
            applied_at="2026-01-01T00:00:00Z",
            dry_run=False,
            restart=False,
            show=lambda plan, survey: None,
        ).status

    def journal(self) -> Any:
        files = self.site.files
        assert isinstance(files, AgentFiles)
        root = str(self.subject.site_folder / "sglang")
        return files.journal(root=root, state_dir=str(self.subject.state))


class Ground:
    """Makes subjects. folder: on a quick disk. server: an sshd of ours; relay: a port that leads to it."""

    def __init__(self, folder: Path, server: sshd.Sshd | None) -> None:
        self._folder = folder
        self._count = 0
        self._turn = threading.Lock()
        self.server = server

    def subject(self, kind: Kind) -> Subject:
        """A fresh one, patched already where a revert is to meet the fault."""
        with self._turn:
            self._count += 1
            folder = self._folder / str(self._count)
        folder.mkdir(parents=True)
        fleet = make_fleet(folder, [], 1)
        subject = Subject(fleet=fleet, recipe=read_recipe(folder, "note"))
        for name in (FILE, SECOND_FILE):
            subject.path(name).chmod(MODE)
        if kind == "revert":
            with subject.operator(open_local()) as operator:
                operator.carry_out("patch", "before")
        return subject

    def discard(self, subject: Subject) -> None:
        shutil.rmtree(subject.fleet.folder)

    def ssh(self, *, port: int | None = None, connect_timeout_s: float = 10.0) -> Remote:
        assert self.server is not None
        return open_ssh(
            name="lab",
            address=self.server.address,
            port=port or self.server.port,
            ssh_config=self.server.ssh_config,
            environment={},
            connect_timeout_s=connect_timeout_s,
            dead_after_s=DEAD_AFTER_S,
        )

    def steps(self, kind: Kind) -> list[dict[str, Any]]:
        """What a write of that kind passes, in order, as the code itself says."""
        subject = self.subject(kind)
        with subject.operator(open_local(), fault={"trace": True}) as operator:
            operator.carry_out(kind)
        self.discard(subject)
        return operator.link.steps


ORIGINAL = {name: ENGINE[name] for name in (FILE, SECOND_FILE)}


class Relay:
    """A TCP relay to the sshd that can be made to reset, stall or slow down every connection."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flows = threading.Event()
        self._flows.set()
        self.delay_s = 0.0
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                if self.delay_s:
                    threading.Event().wait(self.delay_s)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Every connection ends with RST on both sides."""
        pairs, self._pairs = self._pairs, []
        for end in (end for pair in pairs for end in pair):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)
            end.close()

    def stall(self) -> None:
        """No byte passes any more, and nobody is told."""
        self._flows.clear()

    def close(self) -> None:
        self._flows.set()
        self._listener.close()
        for end in (end for pair in self._pairs for end in pair):
            with suppress(OSError):
                end.close()


def quick_folder() -> Path | None:
    """Memory, where it can be had: thousands of fsyncs to a real disk take minutes."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None
