"""The real SGLang that serves on this CPU (see demo/world.py), for tests; they skip where it cannot be.

Owns: one look for it a session. Refuses: to patch it; a test that patches works on ``world.copy_engine``.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from demo import world

RELEASE = "0.5.20"
VOCABULARY = 512
"""A token id beyond it kills the scheduler."""


@cache
def _installed() -> world.Installed | None:
    try:
        return world.installed()
    except subprocess.CalledProcessError:
        return None


def cpu_engine() -> world.Installed:
    """Interpreter, model and site-packages, installed now if they are not there yet (minutes)."""
    engine = _installed()
    if engine is None:
        pytest.skip("the CPU engine cannot be installed here")
    return engine


def server_argv(port: int, *more: str) -> tuple[str, ...]:
    """What follows the interpreter: a server on loopback, ready in 12 to 47 s, 1.9 GB of memory."""
    return tuple(world.server_argv(cpu_engine(), port, *more))


def server_env(folder: Path) -> dict[str, str]:
    """What it needs in its environment. folder: of the ``sglang`` that it imports."""
    return world.server_env(folder)
