"""Fetch all that the tests need from elsewhere, so that they can run without a network: ``make fetch``.

Owns: the list of it. Refuses: to fetch anything that is there already. A machine that cannot have the engine
(not Linux x86-64, no CPython 3.11) is told so, and the tests that need it skip.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import wheels

ENGINE = Path(__file__).parents[2] / "demo" / "engine" / "install.py"


def main() -> None:
    for version in wheels.RELEASES:
        print(f"sglang {version}: {wheels.wheel(version)}", flush=True)
    if subprocess.run([sys.executable, str(ENGINE)], check=False).returncode:
        print("no engine here: tests marked 'engine' skip", file=sys.stderr)


if __name__ == "__main__":
    main()
