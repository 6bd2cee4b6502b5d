"""Fetch all that the tests need from elsewhere, so that they can run without a network: ``make fetch``.

    python -m tests.support.fetch [--every-release]    # for make compat: two files of every release as well,
                                                       # and the releases that serve

Owns: the list of it. Refuses: to fetch anything that is there already. A machine that cannot have the engine
(not Linux x86-64, no CPython 3.11) is told so, and the tests that need it skip.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import eras, wheels

ENGINE = Path(__file__).parents[2] / "demo" / "engine" / "install.py"


def main() -> None:
    every = "--every-release" in sys.argv[1:]
    for version in wheels.EVERY_RELEASE if every else wheels.RELEASES:
        kept = wheels.wheel(version) if version in wheels.RELEASES else wheels.keep_files(version)
        print(f"sglang {version}: {kept}", flush=True)
    if subprocess.run([sys.executable, str(ENGINE)], check=False).returncode:
        print("no engine here: tests marked 'engine' skip", file=sys.stderr)
    elif every:
        eras.fetch()


if __name__ == "__main__":
    main()
