"""A project whose one host, this machine, has a small engine and a stand-in server: whole commands, quickly.

Owns: the folder, and commands run within this process. Refuses: a real engine (tests/e2e has that).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from oeactl.cli.app import main
from tests.support.engine_tree import Tree, make_tree
from tests.support.serving import STANDIN, Standin, free_port


@dataclass(frozen=True, kw_only=True)
class Served:
    """folder: the project. standin: the server's place. capsys: where a command's output is read."""

    folder: Path
    standin: Standin
    tree: Tree
    capsys: pytest.CaptureFixture[str]

    def entry(self, *args: str, **server: Any) -> dict[str, Any]:
        """The entry of the host. args: more words for the stand-in. server: its keys; None leaves one out."""
        keys: dict[str, Any] = {
            "url": self.standin.url,
            "cwd": str(self.folder),
            "env": {"PYTHONPATH": str(self.tree.site)},
            "argv": [str(STANDIN), "--port", str(self.standin.port), *args],
            "log": str(self.standin.log),
            "ready_timeout": "30s",
            "stop_timeout": "5s",
            **server,
        }
        return {
            "state_dir": str(self.standin.state_dir),
            "engine": {"python": sys.executable},
            "server": {name: value for name, value in keys.items() if value is not None},
        }

    def write(self, entry: Mapping[str, Any] | None = None, **hosts: Mapping[str, Any]) -> None:
        """hosts.yaml: ``@local`` with this entry, and other hosts."""
        document = {"default_host": "@local", "hosts": {"@local": dict(entry or self.entry()), **hosts}}
        (self.folder / "hosts.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def oeactl(self, *words: str, code: int = 0) -> Any:
        """One command with ``--json``, in this process: its document. Fails on another exit code."""
        got = main([*words, "--json", "--project", str(self.folder)])
        out, err = self.capsys.readouterr()
        assert got == code, f"{words} ended with {got}\n{out}\n{err}"
        return json.loads(out)


def served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Served:
    """In ``tmp_path``, hosts.yaml written. Clear it with ``standin.clear()``."""
    standin = Standin(tmp_path, free_port())
    one = Served(folder=tmp_path, standin=standin, tree=make_tree(tmp_path, sys.executable), capsys=capsys)
    one.write()
    return one
