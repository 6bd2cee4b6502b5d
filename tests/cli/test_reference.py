"""docs/reference.md is what the program says of itself."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_made_from_the_program() -> None:
    made = runpy.run_path(str(DOCS / "make_reference.py"))["reference"]()
    assert (DOCS / "reference.md").read_text() == made, "run: make docs"
