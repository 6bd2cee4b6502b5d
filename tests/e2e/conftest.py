"""Worlds for the end-to-end tests: an engine of their own, a host over a real sshd or ``@local``."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo import world
from tests.support import sshd
from tests.support.serving import free_port

BENCH = {"concurrency": [1, 16], "input_len": 64, "output_len": 32, "seed": 42}
VOID = 8
"""Exit code: a level is void. Of the client's delay it may be, on a machine that others use too."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project folder with one host. url: its server's, on loopback."""

    folder: Path
    host: str
    url: str

    def oeactl(self, *words: str, code: int = 0, fine: Sequence[int] = ()) -> Any:
        """Run one command as a person would, but with --json: its document. Fails on another exit code.

        fine: further ones that may be.
        """
        done = self.run(*words, "--json")
        how = f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode in (code, *fine), how
        return json.loads(done.stdout)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "oeactl", *words, "--project", str(self.folder)],
            env={**os.environ, "XDG_STATE_HOME": str(self.folder / "record")},
            capture_output=True,
            text=True,
            check=False,
            timeout=1500,
        )

    def files(self) -> list[Path]:
        return [self.folder / "engine" / name for name in world.MODULES]

    def hashes(self) -> list[str]:
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files()]

    def traces(self) -> dict[str, tuple[int, int]]:
        """Everything in the folder that a write would show in: name -> (mtime, size)."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and "record" not in path.parts and path.name != "server.log":
                facts = path.stat()
                found[str(path)] = (facts.st_mtime_ns, facts.st_size)
        return found


@pytest.fixture(scope="session")
def engine() -> world.Installed:
    try:
        return world.installed()
    except subprocess.CalledProcessError:
        pytest.skip("the CPU engine cannot be installed here")


@pytest.fixture
def remote(engine: world.Installed, tmp_path: Path) -> Iterator[Project]:
    """A host behind a real sshd on loopback."""
    with sshd.running(tmp_path / "ssh") as running:
        reach = {"address": "127.0.0.1", "port": running.port, "ssh_config": running.ssh_config}
        yield from project(engine, tmp_path / "project", "lab", reach)


@pytest.fixture
def local(engine: world.Installed, tmp_path: Path) -> Iterator[Project]:
    """This machine itself."""
    yield from project(engine, tmp_path / "project", "@local", {})


def project(engine: world.Installed, folder: Path, host: str, reach: dict[str, Any]) -> Iterator[Project]:
    """A folder with a copy of the engine and one host; at the end its server is stopped."""
    port = free_port()
    world.copy_engine(engine, folder / "engine")
    world.write_hosts(folder, host, world.host_entry(engine, folder, port, **reach), BENCH)
    project = Project(folder=folder, host=host, url=f"http://127.0.0.1:{port}")
    try:
        yield project
    finally:
        project.run("stop", "--yes")
