"""Bundles on this disk: writing one, and this very oeactl to put into it.

Owns: the archive's form (the same files give the same bytes). Refuses: to choose what is in it (core does).
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from oeactl.core.bundle import SCRIPT
from oeactl.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent.parent


def own_package() -> dict[str, bytes]:
    """This package's files, as ``PYTHONPATH`` finds them: its folder -> bytes."""
    files = (path for path in sorted(_PACKAGE.rglob("*")) if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(_PACKAGE.parent).as_posix(): path.read_bytes() for path in files}


def own_requirements(name: str = "oeactl", beside: Path = _PACKAGE.parent) -> tuple[str, ...]:
    """What this package needs at run time, each as it is installed here: ``name==version``.

    Of a package that is not installed, for it is run out of a bundle, what that bundle says.
    """
    from packaging.requirements import Requirement

    try:
        told = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return tuple((beside / "requirements.txt").read_text(encoding="utf-8").split())
    wanted = [Requirement(text) for text in told]
    names = sorted(one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""}))
    return tuple(f"{one}=={metadata.version(one)}" for one in names)


def write_bundle(path: Path, name: str, files: Mapping[str, bytes], *, at: float) -> int:
    """Write a .tar.gz with everything under the folder ``name``; its size. at: every file's time.

    Raises UsageError where it cannot be written; an older file of that name is replaced whole.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for inner, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{inner}")
            entry.size, entry.mtime = len(data), int(at)
            entry.mode = 0o755 if inner == SCRIPT else 0o644
            tar.addfile(entry, io.BytesIO(data))
    packed = gzip.compress(archive.getvalue(), mtime=0)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(packed)
        temporary.replace(path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"cannot be written: {problem.strerror}", where=str(path)) from problem
    return len(packed)
