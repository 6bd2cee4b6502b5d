"""Small recipes for the planning tests."""

from __future__ import annotations

import textwrap

from oeactl.core.parameters import Bound, bind
from oeactl.core.recipe import Recipe, load_recipe

MODULE = "sglang.a"

_HEAD = """\
id: {id}
revision: {revision}
title: A test
engine: {{package: sglang}}
proof: {proof}
parameters:
  size: {{type: int, default: 4, min: 1, max: 64}}
files:
"""
CASES = {"cases/none/before.py": b"", "cases/none/case.yaml": b"refuses: matches\nmodule: sglang.a\n"}


def recipe_of(
    edits: str,
    *,
    id: str = "trial",
    revision: int = 1,
    module: str = MODULE,
    more: str = "",
    proof: bool = False,
    files: dict[str, bytes] | None = None,
    cases: dict[str, bytes] | None = None,
) -> Recipe:
    """A recipe with these edits (YAML, a list) of one module. more: further keys of that file."""
    text = _HEAD.format(id=id, revision=revision, proof=str(proof).lower()) + f"  - module: {module}\n"
    text += textwrap.indent(textwrap.dedent(more), "    ")
    text += "    edits:\n" + textwrap.indent(textwrap.dedent(edits), "      ")
    case = {path: data.replace(b"sglang.a", module.encode()) for path, data in CASES.items()}
    return load_recipe({"recipe.yaml": text.encode(), **(case if cases is None else cases), **(files or {})})


def bound_of(edits: str, size: str | None = None, **more: object) -> Bound:
    return bind(recipe_of(edits, **more), {"size": size} if size else {}, {})  # type: ignore[arg-type]
