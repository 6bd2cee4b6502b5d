"""Somebody who has nothing but a bundle: its folder, a home and a record of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_again(bundle: Path, *words: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """``run-again.sh`` with these words; however it ended, no patch and no server of theirs stays.

    The record of a stranger's host is not below the bundle, so nothing else would clear it.
    """
    try:
        return _by_them(bundle, "sh", "run-again.sh", *words, timeout_s=timeout_s)
    finally:
        for ending in (("revert", "--no-restart"), ("stop", "--yes")):
            _by_them(bundle, sys.executable, "-m", "oeactl", *ending, timeout_s=100)


def _by_them(bundle: Path, *argv: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    theirs = {name: str(bundle.parent / name) for name in ("HOME", "XDG_STATE_HOME")}
    return subprocess.run(
        argv,
        cwd=bundle,
        env={**os.environ, "PYTHON": sys.executable, **theirs},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
