"""A project whose hosts are names for sshds of our own on loopback, each with a small engine of its own.

Owns: the folder with hosts.yaml, one recipe and the engines. Refuses: to start an sshd (it is given them).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.sshd import Sshd

MODULE = "sglang.srt.layers.moe.topk"
FILE = "sglang/srt/layers/moe/topk.py"
SECOND = "sglang.srt.layers.radix_attention"
SECOND_FILE = "sglang/srt/layers/radix_attention.py"
ANCHOR = "    chosen = sorted(rows, reverse=True)[:count]"
BLOCK = tuple(f"    note_{number} = chosen[{number} % len(chosen)]" for number in range(12))
HEAD = '"""An engine\'s module, made up."""\n\n\n'
ROUTE = f"def select_experts(rows, count):\n{ANCHOR}\n    return chosen\n\n\n"
FILLER = "def helper_{0}(value):\n    total = value * {0}\n    return total + {0}\n\n\n"
RECIPE = """\
id: note
revision: 1
title: A block of twelve lines
engine: {{package: sglang}}
files:
  - module: {module}
    edits:
      - id: block
        op: insert_after
        at: {{scope: [def select_experts], statement: "chosen = sorted(rows, reverse=True)[:count]"}}
        snippet: snippets/block.py
  - module: {second}
    edits:
      - {{id: mode, op: append, code: "NOTED = True"}}
"""
CASE = "module: {module}\nrefuses: matches\n"


def source(functions: int = 200) -> bytes:
    """A module of about a thousand lines."""
    return (HEAD + ROUTE + "".join(FILLER.format(number) for number in range(functions))).encode()


ENGINE: Mapping[str, bytes] = {
    "sglang/__init__.py": b"",
    "sglang/version.py": b'__version__ = "0.5.20"\n',
    "sglang/srt/__init__.py": b"",
    "sglang/srt/layers/__init__.py": b"",
    "sglang/srt/layers/moe/__init__.py": b"",
    FILE: source(),
    SECOND_FILE: b"MODE = 'plain'\n",
}


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """folder: the project, with hosts.yaml. hosts: their names. environment: of every command run here."""

    folder: Path
    hosts: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def engine(self, host: str) -> Path:
        """The folder that holds the package of ``host``."""
        return self.folder / "engines" / host

    def state(self, host: str) -> Path:
        return self.folder / "states" / host

    def files(self, host: str) -> dict[str, bytes]:
        return {name: (self.engine(host) / name).read_bytes() for name in (FILE, SECOND_FILE)}

    def is_patched(self, host: str) -> bool:
        """All files changed. Fails where only some are."""
        changed = {data != ENGINE[name] for name, data in self.files(host).items()}
        assert len(changed) == 1, f"half a change on {host}"
        return changed.pop()

    def reset(self) -> None:
        """Engines as they came, and no record of them."""
        for host in self.hosts:
            for name, data in ENGINE.items():
                path = self.engine(host) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            shutil.rmtree(self.state(host), ignore_errors=True)

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "oeactl", *words, "--project", str(self.folder)],
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            **options,
        )

    def env(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.folder / "record"), **self.environment}

    def json(self, *words: str, code: int = 0) -> Any:
        """One command with ``--json``: its document. Fails on another exit code."""
        done = self.run(*words, "--json")
        assert done.returncode == code, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


def make_fleet(
    folder: Path,
    servers: Sequence[Sshd],
    count: int,
    *,
    entry: Mapping[str, Any] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Fleet:
    """``count`` hosts h1, h2, ... over the given sshds in turn (none: not to be reached).

    entry: more keys for every host.
    """
    hosts = tuple(f"h{number}" for number in range(1, count + 1))
    fleet = Fleet(folder=folder, hosts=hosts)
    recipe = folder / "recipes" / "note"
    (recipe / "snippets").mkdir(parents=True)
    (recipe / "cases" / "none").mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(RECIPE.format(module=MODULE, second=SECOND))
    (recipe / "snippets" / "block.py").write_text("".join(f"{line.strip()}\n" for line in BLOCK))
    (recipe / "cases" / "none" / "before.py").write_text("")
    (recipe / "cases" / "none" / "case.yaml").write_text(CASE.format(module=MODULE))
    entries = {}
    for number, host in enumerate(hosts):
        server = servers[number % len(servers)] if servers else None
        reach = (
            {"address": server.address, "port": server.port, "ssh_config": server.ssh_config}
            if server
            else {}
        )
        entries[host] = {
            **reach,
            "state_dir": str(fleet.state(host)),
            "engine": {"python": sys.executable, "root": str(fleet.engine(host))},
            **(entry or {}),
        }
    document = {"groups": {name: list(names) for name, names in (groups or {}).items()}, "hosts": entries}
    (folder / "hosts.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    fleet.reset()
    return fleet
