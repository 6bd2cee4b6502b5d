"""This machine and the served model, as far as a plain process can tell.

Owns: host facts, nvidia-smi's rows, the model's config.json. Refuses: to need root, a GPU or a network.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from . import disk, jsontext
from .environment import on_path
from .journal import boot_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any

NVIDIA_SMI_S = 30.0
GPU_FIELDS = ("index", "name", "uuid", "driver_version", "memory.total", "power.limit", "persistence_mode")


class GpuQuery:
    """nvidia-smi, begun early because it can take seconds."""

    def __init__(self) -> None:
        command = ["nvidia-smi", "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader"]
        self._process: subprocess.Popen[str] | None = None
        if not on_path(command[0]):
            return
        import subprocess  # only here, for the same reason

        with suppress(OSError):
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True
            )

    def rows(self) -> list[dict[str, str]]:
        if self._process is None:
            return []
        import subprocess

        try:
            text, _ = self._process.communicate(timeout=NVIDIA_SMI_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return []
        if self._process.returncode != 0:
            return []
        import csv  # only here: a host without GPUs answers sooner

        rows = csv.reader(text.splitlines(), skipinitialspace=True)
        return [dict(zip(GPU_FIELDS, row)) for row in rows if len(row) == len(GPU_FIELDS)]  # noqa: B905  # strict= is 3.10


def facts(state_dir: str, gpus: GpuQuery) -> dict[str, Any]:
    """The wire's HostFacts."""
    return {
        "hostname": os.uname().nodename,
        "user": disk.user_name(os.geteuid()),
        "uid": os.geteuid(),
        "boot_id": boot_id(),
        "time": time.time(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "kernel": os.uname().release,
        "state_dir": state_dir,
        "gpus": gpus.rows(),
    }


def model_facts(model: str, cwd: str | None, env: dict[str, str]) -> dict[str, Any]:
    """The wire's ModelFacts for a folder or a hub id. env: the server's."""
    folder = os.path.join(cwd or "/", os.path.expanduser(model))
    if os.path.isdir(folder):
        return _read_config(folder, None)
    if os.path.isabs(model) or model.count("/") != 1:
        return {"path": model, "revision": None, "config": None, "problem": "no such folder on the host"}
    repository = os.path.join(_hub_cache(env), "models--" + model.replace("/", "--"))
    revision = _revision(repository)
    if revision is None:
        problem = f"not in the hub cache of the server's environment ({repository})"
        return {"path": repository, "revision": None, "config": None, "problem": problem}
    return _read_config(os.path.join(repository, "snapshots", revision), revision)


def _hub_cache(env: dict[str, str]) -> str:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if env.get(name):
            return os.path.expanduser(env[name])
    home = env.get("HF_HOME")
    if not home:
        home = os.path.join(
            env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME", "~"), ".cache"), "huggingface"
        )
    return os.path.join(os.path.expanduser(home), "hub")


def _revision(repository: str) -> str | None:
    """What refs/main names, else the only snapshot there is."""
    with suppress(OSError):
        return disk.read(os.path.join(repository, "refs", "main")).decode().strip()
    with suppress(OSError):
        snapshots = os.listdir(os.path.join(repository, "snapshots"))
        if len(snapshots) == 1:
            return snapshots[0]
    return None


def _read_config(folder: str, revision: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": folder, "revision": revision, "config": None, "problem": None}
    try:
        config = jsontext.loads(disk.read(os.path.join(folder, "config.json")))
    except OSError as error:
        facts["problem"] = f"config.json: {error.strerror}"
    except ValueError:
        facts["problem"] = "config.json is not JSON"
    else:
        facts["config"] = config if isinstance(config, dict) else None
    return facts
