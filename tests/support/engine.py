"""The real SGLang that serves on this CPU: its venv and model in the cache, and copies that a test may patch.

Owns: where the engine is, how a copy of it is made, how a server on it is begun. Refuses: to hand out the
cached ``sglang`` for patching.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

INSTALL = Path(__file__).parents[2] / "demo" / "engine" / "install.py"
RELEASE = "0.5.20"
MODEL_NAME = "tiny"
VOCABULARY = 512
"""A token id beyond it kills the scheduler."""


@dataclass(frozen=True, kw_only=True)
class EngineInstall:
    """python: the venv's interpreter. model: its folder. site: site-packages, never to be changed."""

    python: Path
    model: Path
    site: Path


@cache
def cpu_engine() -> EngineInstall:
    """The engine, installed now if it is not there yet (minutes). Raises RuntimeError, saying why not."""
    done = subprocess.run(
        [sys.executable, str(INSTALL), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return EngineInstall(**{name: Path(path) for name, path in json.loads(done.stdout).items()})


def engine_copy(folder: Path) -> Path:
    """A copy of ``sglang`` to patch (168 MB, some seconds); returns ``folder``, for PYTHONPATH."""
    site = cpu_engine().site
    folder.mkdir(parents=True, exist_ok=True)
    parts = [str(site / "sglang"), str(site / f"sglang-{RELEASE}.dist-info")]
    subprocess.run(["cp", "--archive", "--reflink=auto", *parts, str(folder)], check=True)
    return folder


def server_env(copy: Path) -> dict[str, str]:
    """What the server's environment needs beside the usual. copy: from ``engine_copy``.

    One thread: with two, the gain of fewer experts nearly vanishes.
    """
    return {
        "PYTHONPATH": str(copy),
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }


def server_argv(port: int, *more: str) -> tuple[str, ...]:
    """What follows the interpreter: a server on loopback, ready in 12 to 47 s, 1.9 GB of memory."""
    return (
        *("-m", "sglang.launch_server", "--model-path", str(cpu_engine().model)),
        *("--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", str(port)),
        *("--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
        *("--max-total-tokens", "65536", "--max-running-requests", "64", "--context-length", "4096"),
        *("--enable-return-routed-experts", "--enable-metrics", *more),
    )
