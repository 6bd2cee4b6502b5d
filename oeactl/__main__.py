"""``python -m oeactl``, and what the installed command ``oeactl`` calls."""

from __future__ import annotations

from oeactl.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
