"""Bring sglang_wheels.json up to date with the package index: ``python -m tests.support.find_releases``.

Owns: which releases the table has: every final and post release from ``FIRST`` on that pip offers.
Refuses: to change a row that is there. Wheels it had to fetch are hashed and dropped.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.version import Version

from tests.support import wheels

FIRST = Version("0.4.7")


def offered() -> list[Version]:
    """The releases that pip offers, oldest first. Raises CalledProcessError."""
    words = [sys.executable, "-m", "pip", "index", "versions", "sglang", "--disable-pip-version-check"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("Available versions: "))
    found = (Version(text) for text in line.partition(": ")[2].split(","))
    return sorted(version for version in found if version >= FIRST and not version.is_prerelease)


def main() -> None:
    table = dict(wheels.TABLE)
    for version in offered():
        if str(version) in table:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = wheels.download(f"sglang=={version}", Path(folder))
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            table[str(version)] = {"file": path.name, "sha256": digest}
        print(f"sglang {version}: {path.name} {digest}", flush=True)
    rows = (f"  {json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table, key=Version))
    wheels.TABLE_FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
