"""The import probe: do the changed modules still import, where the server would import them?

Owns: one child with the server's interpreter and environment and no GPU. Refuses: to judge an engine that
did not import before either.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from .engine import server_environment
from .wire import AgentError

TAIL_LINES = 20
SWALLOWED = "ignore import error"

PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

# Before the probe's program: these files read as their originals, and no cached bytecode is used for them.
ORIGINALS = """
import importlib.machinery, importlib.util, json, sys
_kept = json.loads(sys.argv.pop(1))
_data = importlib.machinery.SourceFileLoader.get_data
def _original(self, path):
    if path in _kept:
        return _data(self, _kept[path])
    if path.endswith(".pyc") and importlib.util.source_from_cache(path) in _kept:
        raise OSError(path)
    return _data(self, path)
importlib.machinery.SourceFileLoader.get_data = _original
"""


def run(probe: dict[str, Any], originals: dict[str, str]) -> None:
    """Raise AgentError when a module fails to import, or when an import error is newly swallowed.

    originals: real path -> where the bytes lie that it held before.
    """
    code, lines = _import(probe, PROGRAM, [])
    if code is None:
        raise AgentError(
            "refused", f"the import probe did not end within {probe['timeout_s']:g} s", details=lines
        )
    if code != 0:
        raise AgentError(
            "refused", f"the changed engine does not import (exit code {code})", details=lines[-TAIL_LINES:]
        )
    new = [line for line in lines if SWALLOWED in line.lower()]
    if new:
        _, before = _import(probe, ORIGINALS + PROGRAM, [json.dumps(originals)])
        new = [line for line in new if _nameless(line) not in {_nameless(old) for old in before}]
    if new:
        raise AgentError("refused", "the changed engine swallows an import error", details=new[-TAIL_LINES:])


def _nameless(line: str) -> str:
    """A log line from its message on: time stamps differ."""
    return line[line.lower().find(SWALLOWED) :]


def _import(probe: dict[str, Any], program: str, arguments: list[str]) -> tuple[int | None, list[str]]:
    """Exit code (None: too slow) and the lines it printed."""
    env = {
        **server_environment(probe["env"]),
        "CUDA_VISIBLE_DEVICES": "",
        "OEACTL_PROOF": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", program, *arguments, *probe["modules"]]
    child = subprocess.Popen(
        command,
        cwd=probe["cwd"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=probe["timeout_s"])
        code: int | None = child.returncode
    except subprocess.TimeoutExpired:
        _end(child)
        output, _ = child.communicate()
        code = None
    finally:
        _end(child)
    return code, output.decode("utf-8", "replace").splitlines()


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
