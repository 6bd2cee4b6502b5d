"""The first version of a recipe: it loads, its cases pass, and each part says what to put in its place.

Owns: that text. Refuses: files (it gives path -> bytes).
"""

from __future__ import annotations

from oeactl.core.cases import outcome
from oeactl.core.recipe import ID_RULE, is_id, load_recipe, module_fault
from oeactl.errors import UsageError

RECIPE = """\
# docs/recipes.md leads through this file; docs/schemas/recipe.json tells editors what may stand where.
id: {id}
revision: 1              # count up when what it does changes
title: Say in a line what it does
summary: >-
  Say in a few lines why one would want it, and what it costs.
engine: {{package: {package}, versions: ">=0"}}

parameters:              # what a user may set: --set level=2; in code it is OEACTL.level
  level: {{type: int, default: 1, min: 0, max: 9, about: "say what it sets"}}

files:
  - module: {module}
    require:             # what must hold of the module before anything else is looked for
      symbols: [scale]
      parameters: {{scale: [values]}}
    edits:
      - id: scaled
        op: insert_after                            # also: body_start, replace_expression, add_argument, ...
        at:                                         # one place, by meaning: exactly one, or a refusal
          scope: [def scale]
          depth: top
          statement: total = sum(values)
        bound: [values]                             # names that must have a value there
        snippet: snippets/scaled.py
"""
SNIPPET = '''\
"""Say what this code is for. What stands above and in this docstring is not put into the engine."""

if OEACTL.level > 1:
    total = total * OEACTL.level
'''
BEFORE = '''\
"""A small source of your own, in the shape of the engine's."""


def scale(values):
    total = sum(values)
    return total
'''
MOVED = '''\
"""The engine has changed: the place is not where it was. A recipe says so and touches nothing."""


def scale(values):
    return sum(values)
'''
MOVED_CASE = "refuses: matches 0 places, not 1\n"


def skeleton(id: str, module: str) -> dict[str, bytes]:
    """A recipe's folder for a change of ``module``: path -> content. Raises UsageError for a bad id."""
    if not is_id(id):
        raise UsageError(ID_RULE, where=id)
    package = module.partition(".")[0]
    fault = module_fault(module, package)
    if fault:
        raise UsageError(f"'{module}' {fault}", where="--module", hint="--module sglang.srt.layers.sampler")
    text = RECIPE.format(id=id, module=module, package=package)
    folder = {
        "recipe.yaml": text,
        "snippets/scaled.py": SNIPPET,
        "cases/scaled/before.py": BEFORE,
        "cases/scaled/case.yaml": "set: {level: '3'}\n",
        "cases/scaled/after.py": "",
        "cases/place-gone/before.py": MOVED,
        "cases/place-gone/case.yaml": MOVED_CASE,
    }
    files = {path: content.encode() for path, content in folder.items()}
    recipe = load_recipe(files)
    case = next(case for case in recipe.cases if case.name == "scaled")
    return {**files, "cases/scaled/after.py": outcome(recipe, case)}
