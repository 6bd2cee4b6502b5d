"""Fetch all that the tests need from elsewhere, so that they can run without a network: ``make fetch``.

Owns: the list of it. Refuses: to fetch anything that is there already.
"""

from __future__ import annotations

from tests.support import wheels


def main() -> None:
    for version in wheels.RELEASES:
        print(f"sglang {version}: {wheels.wheel(version)}", flush=True)


if __name__ == "__main__":
    main()
