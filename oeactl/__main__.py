"""``python -m oeactl``, and what the installed command ``oeactl`` calls."""

from __future__ import annotations

import gc


def main() -> int:
    """Run one command line. Garbage is looked for seldom, and not at the end: imports make none, and exit."""
    gc.set_threshold(50_000, 20, 20)
    from oeactl.cli.app import main as run

    try:
        return run()
    finally:
        gc.freeze()


if __name__ == "__main__":
    raise SystemExit(main())
