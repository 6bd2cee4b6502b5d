"""Every recipe of this repository passes its own cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from oeactl.core.cases import run_cases
from oeactl.core.recipe import Recipe, load_recipe

RECIPES = Path(__file__).parents[2] / "recipes"


def read(folder: Path) -> Recipe:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return load_recipe(files, folder.name)


@pytest.mark.parametrize("folder", sorted(RECIPES.iterdir()), ids=lambda folder: folder.name)
def test_the_cases_of_a_recipe_pass(folder: Path) -> None:
    results = run_cases(read(folder))
    assert results
    for result in results:
        assert result.ok, f"{result.name}\n{result.why}\n{result.diff}"
