"""What a plan changes in a file, as a unified diff with the hashes of both sides.

Owns: the text of the diff and its colours. Refuses: to print, and to pass a file's control characters on.
"""

from __future__ import annotations

import difflib
import hashlib
from typing import TYPE_CHECKING, Any

from oeactl.core.difference import write_difference

if TYPE_CHECKING:
    from oeactl.core.host import Survey
    from oeactl.core.plan import Planned

_STYLES = {"---": "bold", "+++": "bold", "@@": "cyan", "+": "green", "-": "red", "\\": "dim"}


def unified_diff(path: str, before: bytes, after: bytes, *, context: int = 3) -> str:
    """The difference, or an empty text where there is none. Undecodable bytes are shown as ``\\xNN``."""
    if before == after:
        return ""
    lines = difflib.unified_diff(_lines(before), _lines(after), n=context, lineterm="\n")
    next(lines), next(lines)  # its own headers, which know no hashes
    shown = [
        f"--- {path}  sha256 {hashlib.sha256(before).hexdigest()}\n",
        f"+++ {path}  sha256 {hashlib.sha256(after).hexdigest()}\n",
    ]
    for line in lines:
        shown.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(shown)


def patch_of(plan: Planned, survey: Survey) -> bytes:
    """A plan's files as one difference, their names from the folder that holds the engine's package."""
    parent = survey.engine.root.rpartition("/")[0] + "/"
    return b"".join(
        write_difference(
            file.path.removeprefix(parent),
            file.before if file.before_sha256 else None,
            file.after if file.after_sha256 else None,
        )
        for file in plan.files
    )


def coloured(diff: str) -> Any:
    """The diff as rich prints it."""
    from rich.text import Text

    text = Text()
    for line in diff.splitlines(keepends=True):
        style = next((style for start, style in _STYLES.items() if line.startswith(start)), "")
        text.append(line, style)
    return text


def _lines(data: bytes) -> list[str]:
    """Lines end at line feeds only, as in the file; other control characters become visible."""
    parts = data.decode("utf-8", "backslashreplace").split("\n")
    lines = [f"{part}\n" for part in parts[:-1]] + parts[-1:]
    return [_visible(line) for line in lines if line]


def _visible(line: str) -> str:
    if line.rstrip("\n").replace("\t", "").isprintable():  # nearly every one, and ten times as quick
        return line
    return "".join(
        one if one.isprintable() or one in "\t\n" else one.encode("unicode_escape").decode() for one in line
    )
