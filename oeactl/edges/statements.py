"""Which statements libcst has read and given back unchanged: kept between commands, as its import costs most.

Owns: that file beside the record of patched hosts. Refuses: to count for another release of libcst, and to
fail a command.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from oeactl.core.changes import read_back
from oeactl.edges.local_record import state_folder

MOST = 500


@contextmanager
def remembered(environ: Mapping[str, str] = os.environ) -> Iterator[bool]:
    """Let the block begin with what was read before, and keep what it adds. Yields whether there was any."""
    path = state_folder(environ) / "statements"
    head = f"libcst {version('libcst')}"
    known = _read(path, head)
    read_back.update(known)
    try:
        yield bool(known)
    finally:
        new = read_back.difference(known)
        if new:
            _write(path, [head, *([*known, *sorted(new)][-MOST:])])


def _read(path: Path, head: str) -> list[str]:
    try:
        first, *digests = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
    return digests if first == head else []


def _write(path: Path, lines: list[str]) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write("".join(f"{line}\n" for line in lines))
        Path(temporary).replace(path)
