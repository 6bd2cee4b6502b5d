"""Who holds GPU memory, by nvidia-smi where there is one.

Owns: that one query. Refuses: to end anybody.
"""

from __future__ import annotations

import subprocess
from typing import NamedTuple

QUERY = ("nvidia-smi", "--query-compute-apps=pid,used_memory,process_name", "--format=csv,noheader,nounits")
TIMEOUT_S = 20.0


class Holding(NamedTuple):
    """pid as the driver numbers it (the host's, also inside a container). mib: None where it will not say."""

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
        fields = [field.strip() for field in line.split(",", 2)]
        if len(fields) == 3 and fields[0].isdigit():
            mib = int(fields[1]) if fields[1].isdigit() else None
            found.append(Holding(int(fields[0]), mib, fields[2]))
    return found
