"""A recipe's own script, which makes a module's new text where no operation can.

Owns: what a script is, and what becomes of its answer. Refuses: to run it (an edge does, in a process of its
own, and only with --allow-code); its answer passes the same gates as any edit.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Protocol

from oeactl.core.edits import between
from oeactl.core.host import Edit, Value
from oeactl.core.reasons import CannotPlace, Reason
from oeactl.core.source import Source, parse_module
from oeactl.errors import UsageError

FUNCTION = "transform"


class Script(Value, frozen=True, kw_only=True):
    """``def transform(source: str, values: dict) -> str``. where: the file, for messages."""

    text: str
    where: str


class TransformFailed(Exception):
    """The script raised, did not end, or answered something else than one text."""


class Transformer(Protocol):
    """Runs a script on a module's text. Raises TransformFailed."""

    def __call__(self, script: Script, source: str, values: Mapping[str, Any]) -> str: ...


def read_script(text: bytes, where: str) -> Script:
    """Read a script without running it. Raises UsageError."""
    try:
        tree = parse_module(text.decode())
    except (UnicodeDecodeError, SyntaxError, ValueError) as error:
        raise UsageError(f"the script is not Python: {error}", where=where) from error
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION]
    if len(found) != 1 or len(found[0].args.args) != 2:
        raise UsageError("a script has one function: def transform(source, values)", where=where)
    return Script(text=text.decode(), where=where)


def transformed(
    script: Script, source: Source, values: Mapping[str, Any], transformer: Transformer | None
) -> tuple[Edit, ...]:
    """What the script makes of the source, as edits of ``source.utf8``. Raises CannotPlace."""
    if transformer is None:
        raise ValueError("a script without a transformer")
    try:
        text = transformer(script, source.text, values)
        return between(source.utf8, text.encode())
    except (TransformFailed, UnicodeEncodeError) as error:
        what = f"the script failed: {error}"
        raise CannotPlace(Reason(kind="edit", what=what, where=source.where, edit=script.where)) from error
