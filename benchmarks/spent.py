"""A client run once: its CPU between its first request and its last token, and what the server saw.

Owns: the process, with all that it begins, and the samples of their CPU. Refuses: to know a client.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from pace import pin  # beside this file

TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """A client that has no figures at a level; the text says why. The others go on."""


class Watched(threading.Thread):
    """CPU seconds of a process and all it began, sampled with the time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._seen: dict[int, float] = {}
        self.samples: list[tuple[float, float]] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            for pid in family(self._pid):
                spent = cpu(pid)
                if spent is not None:
                    self._seen[pid] = spent
            self.samples.append((time.perf_counter(), sum(self._seen.values())))

    def between(self, begun: float, ended: float) -> float:
        before = [spent for at, spent in self.samples if at <= begun]
        upto = [spent for at, spent in self.samples if at <= ended + 0.06]
        return (upto[-1] if upto else 0.0) - (before[-1] if before else 0.0)


def family(pid: int) -> list[int]:
    """A process and all it began, by whichever of their threads."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found


def cpu(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(
    argv: list[str], env: dict[str, str], url: str, core: int | None
) -> tuple[float, dict[str, Any]]:
    """CPU seconds between the first request and the last token, and what the server saw."""
    get(f"{url}/reset")
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            argv,
            env={**os.environ, **env},
            stdout=said,
            stderr=said,
            preexec_fn=lambda: pin(core),
        )
        watched = Watched(process.pid)
        watched.start()
        try:
            process.wait(timeout=600)
        finally:
            process.kill()
            watched.over.set()
            watched.join()
        said.seek(0)
        if process.returncode != 0:
            raise Failed(f"ended with {process.returncode}: {said.read()[-1500:].decode()}")
    stats = get(f"{url}/stats")
    return watched.between(stats["begun"], stats["ended"]), stats


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)
