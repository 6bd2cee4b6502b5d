"""One server on several nodes: each an sshd of its own on loopback, an engine and a state folder of its own.

The engine is a stand-in: its workers import the engine's module, as SGLang's schedulers do, and its parts
meet before the first one answers. Owns: the project folder and commands run in this process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from oeactl.cli.app import main
from oeactl.core.host import Holder
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.files import AgentFiles
from oeactl.edges.local import open_local
from tests.support.engine_tree import FILES, ROUTER
from tests.support.serving import STANDIN, free_port
from tests.support.sshd import Sshd

HOST = "whole"
RECIPE = f"""\
id: shown
revision: 1
title: Each worker that imports the engine's module leaves proof of it
engine: {{package: sglang}}
proof: true
parameters:
  size: {{type: int, default: 4, min: 1, max: 64}}
files:
  - module: {ROUTER}
    edits:
      - {{id: show, op: append, snippet: snippets/show.py}}
"""
SNIPPET = """\
def _show():
    import json
    import os
    import pathlib

    if os.environ.get("NODE_BREAKS"):
        raise RuntimeError("patched badly")
    if not os.environ.get("OEACTL_PROOF_DIR"):
        return
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    proof = {
        "kind": "eager",
        "recipe": "shown",
        "digest": OEACTL.digest,
        "parameters": {"size": OEACTL.size},
        "file": os.path.realpath(__file__),
        "pid": os.getpid(),
        "start_ticks": ticks,
    }
    place = pathlib.Path(os.environ["OEACTL_PROOF_DIR"], f"eager-{os.getpid()}.json")
    place.write_text(json.dumps(proof))


_show()
"""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """folder: the project. names: of the nodes, by rank. ports: of each one's part of the server.

    meeting: the port on which the parts meet.
    """

    folder: Path
    names: tuple[str, ...]
    servers: tuple[Sshd, ...]
    ports: tuple[int, ...]
    meeting: int
    capsys: pytest.CaptureFixture[str]

    def engine(self, name: str) -> Path:
        return self.folder / "engines" / name

    def state(self, name: str) -> Path:
        return self.folder / "states" / name

    def topk(self, name: str) -> Path:
        return self.engine(name) / "sglang/srt/layers/moe/topk.py"

    def patched(self) -> list[bool]:
        """By node: whether the engine's file is another than it came as."""
        original = FILES["sglang/srt/layers/moe/topk.py"]
        return [self.topk(name).read_bytes() != original for name in self.names]

    def write(self, *, server: dict[str, Any] | None = None, **own: dict[str, Any]) -> None:
        """hosts.yaml. server: keys for all. own: node -> its keys; ``words``: more of the stand-in's."""
        nodes = []
        for name, sshd, port in zip(self.names, self.servers, self.ports, strict=True):
            more = dict(own.get(name, {}))
            words = more.pop("words", ())
            env = {"PYTHONPATH": str(self.engine(name)), **more.pop("env", {})}
            nodes.append(
                {
                    "name": name,
                    "address": sshd.address,
                    "port": sshd.port,
                    "ssh_config": sshd.ssh_config,
                    "state_dir": str(self.state(name)),
                    "engine": {"root": str(self.engine(name))},
                    "server": {
                        "url": f"http://127.0.0.1:{port}",
                        "argv": self._argv(port, words),
                        "env": env,
                        "log": str(self.folder / "log" / f"{name}.log"),
                    },
                    **more,
                }
            )
        shared = {
            "dist_init_addr": f"127.0.0.1:{self.meeting}",
            "cwd": str(self.folder),
            "ready_timeout": "40s",
            "stop_timeout": "5s",
            **(server or {}),
        }
        entry = {"engine": {"python": sys.executable}, "server": shared, "nodes": nodes}
        text = yaml.safe_dump({"hosts": {HOST: entry}}, sort_keys=False)
        (self.folder / "hosts.yaml").write_text(text)

    def _argv(self, port: int, words: Sequence[str]) -> list[str]:
        workers = ["--workers", "plain,plain", "--imports", ROUTER]
        return [str(STANDIN), "--port", str(port), *workers, *words]

    def only(self, name: str) -> str:
        """hosts.yaml with this node as a host by itself, as if nobody knew of the others."""
        document = yaml.safe_load((self.folder / "hosts.yaml").read_text())
        whole = document["hosts"][HOST]
        one = next(node for node in whole["nodes"] if node.pop("name") == name)
        one["engine"] |= whole["engine"]
        one.pop("server")
        (self.folder / "hosts.yaml").write_text(yaml.safe_dump({"hosts": {name: one}}, sort_keys=False))
        return name

    def lease(self, name: str, holder: Holder) -> None:
        """Somebody is at work on one node's engine."""
        files = AgentFiles(AgentLink(open_local(), python=sys.executable))
        files.lease(
            root=str(self.engine(name) / "sglang"),
            state_dir=str(self.state(name)),
            operation="theirs",
            what="bench",
            holder=holder,
            lease_s=600.0,
        )

    def oeactl(self, *words: str, code: int = 0) -> Any:
        """One command with ``--json``, in this process: its document. Fails on another exit code."""
        got = main([*words, "--json", "--project", str(self.folder)])
        out, err = self.capsys.readouterr()
        assert got == code, f"{words} ended with {got}\n{out}\n{err}"
        return json.loads(out)

    def pids(self, name: str) -> list[int]:
        """Every process of this node's part, found without the code under test."""
        found = []
        mark = f"OEACTL_PROOF_DIR={self.state(name)}/proof".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    text = (entry / "environ").read_bytes()
                    ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                except OSError:
                    continue
                if not ended and mark in text.split(b"\0"):
                    found.append(int(entry.name))
        return sorted(found)

    def up(self) -> list[int]:
        """By node: how many processes its part has."""
        return [len(self.pids(name)) for name in self.names]

    def clear(self) -> None:
        for name in self.names:
            for pid in self.pids(name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def make_nodes(folder: Path, servers: Sequence[Sshd], capsys: pytest.CaptureFixture[str]) -> Nodes:
    """A node an sshd, n1 the first. Clear it with ``clear()``."""
    names = tuple(f"n{rank + 1}" for rank in range(len(servers)))
    made = Nodes(
        folder=folder,
        names=names,
        servers=tuple(servers),
        ports=tuple(free_port() for _ in names),
        meeting=free_port(),
        capsys=capsys,
    )
    for name in names:
        for path, data in FILES.items():
            place = made.engine(name) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    recipe = folder / "recipes" / "shown"
    (recipe / "snippets").mkdir(parents=True)
    (recipe / "cases" / "one").mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "snippets" / "show.py").write_text(SNIPPET)
    (recipe / "cases" / "one" / "before.py").write_text("")
    (recipe / "cases" / "one" / "case.yaml").write_text(f"refuses: matches\nmodule: {ROUTER}\n")
    made.write()
    return made
