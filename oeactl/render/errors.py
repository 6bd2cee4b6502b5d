"""An error as a person reads it, and as a program does.

Owns: the house form, *what; where; next command*. Refuses: to print.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import Any

import oeactl
from oeactl.errors import OeactlError


def sentence(error: OeactlError) -> str:
    """``what; where; hint``, leaving out what the error does not say."""
    return "; ".join(part for part in (error.what.rstrip(". "), error.where, error.hint) if part)


def document(error: OeactlError) -> dict[str, Any]:
    """What ``--json`` says of an error: one document."""
    return {
        "error": {
            "kind": type(error).__name__,
            "exit_code": error.exit_code,
            "what": error.what,
            "where": error.where,
            "hint": error.hint,
            "details": list(error.details),
        }
    }


def unexpected(error: BaseException) -> OeactlError:
    """A bug of ours, as an error: which, and the line of ours that it passed last."""
    package = PurePath(oeactl.__path__[0])
    frames = [(PurePath(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [(path, line) for path, line in frames if path.is_relative_to(package)]
    where = f"{ours[-1][0].relative_to(package.parent)}:{ours[-1][1]}" if ours else None
    what = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
    return Bug(f"a bug of oeactl: {what}", where=where, hint="the same with --debug shows the traceback")


class Bug(OeactlError):
    """What we did not foresee."""
