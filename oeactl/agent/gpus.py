"""Who holds GPU memory, by nvidia-smi where there is one.

Owns: that one query. Refuses: to end anybody.
"""

from __future__ import annotations

import subprocess
from typing import NamedTuple

FIELDS = "gpu_uuid,pid,used_memory,process_name"
QUERY = ("nvidia-smi", f"--query-compute-apps={FIELDS}", "--format=csv,noheader,nounits")
TIMEOUT_S = 20.0


class Holding(NamedTuple):
    """gpu: its uuid. pid as the driver numbers it (the host's, also in a container). mib: None if unsaid."""

    gpu: str
    pid: int
    mib: int | None
    name: str


def holdings() -> list[Holding]:
    """Every compute process on the GPUs; [] without nvidia-smi or when it fails."""
    try:
        answer = subprocess.run(
            QUERY, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for line in answer.stdout.splitlines() if answer.returncode == 0 else []:
        fields = [field.strip() for field in line.split(",", 3)]
        if len(fields) == 4 and fields[1].isdigit():
            mib = int(fields[2]) if fields[2].isdigit() else None
            found.append(Holding(fields[0], int(fields[1]), mib, fields[3]))
    return found
