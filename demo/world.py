"""A work folder with all that a host of oeactl needs: its own copy of the engine, a hosts.yaml, a port.

Owns: what is in that folder. Refuses: to touch the cached installation it copies from. The demo and the
end-to-end tests live in such folders.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

INSTALL = Path(__file__).resolve().parent / "engine" / "install.py"
MODULES = ("sglang/srt/layers/moe/topk.py", "sglang/srt/layers/radix_attention.py")


@dataclass(frozen=True, kw_only=True)
class Installed:
    """The CPU engine in the cache: interpreter, model folder, site-packages."""

    python: Path
    model: Path
    site: Path


def installed() -> Installed:
    """Install the CPU engine unless it is there. Raises CalledProcessError after it has said why not."""
    done = subprocess.run([sys.executable, str(INSTALL), "--json"], stdout=subprocess.PIPE, check=True)
    return Installed(**{name: Path(path) for name, path in json.loads(done.stdout).items()})


def copy_engine(engine: Installed, folder: Path) -> Path:
    """Copy ``sglang`` with its bytecode and metadata (168 MB) to ``folder``: it goes first on PYTHONPATH."""
    folder.mkdir(parents=True)
    for source in engine.site.glob("sglang*"):
        if source.is_dir():
            shutil.copytree(source, folder / source.name)
    return folder


def server_argv(engine: Installed, port: int, *more: str) -> list[str]:
    """How the small model is served on a CPU.

    In float32: a CPU without bfloat16 instructions emulates them, and the time that this takes hides what a
    recipe saves.

    No prefix cache: random ids out of a vocabulary of 512 make 512 different prompts, so that long levels
    would find many of theirs cached, and be void.
    """
    return [
        *("-m", "sglang.launch_server", "--model-path", str(engine.model), "--served-model-name", "tiny"),
        *("--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"),
        *("--dtype", "float32"),
        *("--host", "127.0.0.1", "--port", str(port), "--context-length", "4096"),
        *("--max-total-tokens", "65536", "--max-running-requests", "64", "--disable-radix-cache"),
        *("--mem-fraction-static", "0.5"),  # else it is drawn anew from the free memory at each start
        *("--enable-return-routed-experts", "--enable-metrics", *more),
    ]


def server_env(engine_copy: Path) -> dict[str, str]:
    """One OpenMP thread: with two the cost of reading experts nearly hides."""
    return {
        "PYTHONPATH": str(engine_copy),
        "SGLANG_USE_CPU_ENGINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "ENGINE_STUBS": "torchvision,sgl_kernel,datasets",
    }


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def host_entry(engine: Installed, folder: Path, port: int, /, **reach: Any) -> dict[str, Any]:
    """One host of hosts.yaml: the engine's copy in ``folder``, served on ``port``. reach: address, port, …"""
    copy = folder / "engine"
    return {
        **reach,
        "state_dir": str(folder / "state"),
        "engine": {"python": str(engine.python)},
        "server": {
            "url": f"http://127.0.0.1:{port}",
            "cwd": str(folder),
            "env": server_env(copy),
            "argv": server_argv(engine, port),
            "log": str(folder / "server.log"),
            "ready_timeout": "5m",
            "stop_timeout": "1m",
        },
    }


def write_hosts(folder: Path, name: str, entry: dict[str, Any], bench: dict[str, Any]) -> None:
    """hosts.yaml with this one host as the default."""
    document = {"default_host": name, "defaults": {"bench": bench}, "hosts": {name: entry}}
    (folder / "hosts.yaml").write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
