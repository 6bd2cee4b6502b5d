"""An engine's releases as the package index has them, for work on recipes without any host.

Owns: fetching a wheel by pip, once, into the cache, and unpacking single files of it with what tells its
version. Refuses: to install or run anything of it, and a file that is not what the wheel's RECORD says.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from oeactl.errors import UsageError

_ASKED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][A-Za-z0-9.!+_-]*)")
_TOLD = ("METADATA", "RECORD")
_PLATFORM = ("--python-version", "3.11", "--platform", "manylinux_2_34_x86_64", "--only-binary=:all:")
FETCH_S = 600.0


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """``$OEACTL_CACHE``, else ``oeactl`` in the user's cache folder."""
    if environ.get("OEACTL_CACHE"):
        return Path(environ["OEACTL_CACHE"]).resolve()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oeactl"


def release(asked: str) -> tuple[str, str]:
    """Split ``sglang==0.5.16`` into package and version. Raises UsageError."""
    match = _ASKED.fullmatch(asked.strip())
    if match is None:
        raise UsageError(f"'{asked}' names no release", where="--engine", hint="--engine sglang==0.5.16")
    return match[1], match[2]


class Release:
    """One release of a package. folder: the files unpacked so far, laid out as in site-packages."""

    def __init__(self, package: str, version: str, cache: Path) -> None:
        self.package, self.version = package, version
        self.folder = cache / "releases" / f"{package}-{version}"
        self._wheels = cache / "wheels"
        self._names: frozenset[str] | None = None

    def unpack(self, names: Iterable[str]) -> Path:
        """Unpack the named files (``sglang/srt/server_args.py``) that the release has; the folder.

        Raises UsageError: no such release, no pip, no network.
        """
        with zipfile.ZipFile(self._wheel()) as archive:
            there = frozenset(archive.namelist())
            (info,) = {
                PurePosixPath(name).parts[0]
                for name in there
                if re.fullmatch(rf"{re.escape(self.package)}-[^/]+\.dist-info/RECORD", name)
            }
            told = [f"{info}/{name}" for name in _TOLD]
            record = _record(archive.read(f"{info}/RECORD").decode())
            for name in (f"{self.package}/__init__.py", *told, *sorted(set(names) & there)):
                data = archive.read(name)
                if record.get(name) not in (None, hashlib.sha256(data).hexdigest()):
                    raise UsageError("the wheel's file is not what its RECORD says", where=name)
                _write(self.folder / name, data)
        folders = {name.rpartition("/")[0] for name in there}
        for name in sorted(set(names) - there):  # a file that is yet to come may have its folder there
            if name.rpartition("/")[0] in folders:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        return self.folder

    def names(self) -> frozenset[str]:
        """Every file of the release."""
        if self._names is None:
            with zipfile.ZipFile(self._wheel()) as archive:
                self._names = frozenset(archive.namelist())
        return self._names

    def _wheel(self) -> Path:
        found = sorted(self._wheels.glob(f"{self.package}-{self.version}-*.whl"))
        return found[0] if found else self._fetch()

    def _fetch(self) -> Path:
        self._wheels.mkdir(parents=True, exist_ok=True)
        asked = f"{self.package}=={self.version}"
        with tempfile.TemporaryDirectory(dir=self._wheels) as folder:
            command = [*_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps", *_PLATFORM]
            done = subprocess.run(
                [*command, "--dest", folder, asked],
                capture_output=True,
                text=True,
                check=False,
                timeout=FETCH_S,
                stdin=subprocess.DEVNULL,
            )
            wheels = list(Path(folder).glob("*.whl"))
            if done.returncode or len(wheels) != 1:
                lines = tuple(line for line in done.stderr.splitlines() if line.startswith("ERROR"))
                raise UsageError(
                    f"pip could not fetch {asked}",
                    where="--engine",
                    hint=f"pip index versions {self.package}; or --root FOLDER, which needs no network",
                    details=lines[-1:],
                )
            return wheels[0].rename(self._wheels / wheels[0].name)


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise UsageError(
            "there is no pip to fetch a release with",
            hint="install pip, or give a folder that holds the engine: --root FOLDER",
        )
    return [found]


def _record(text: str) -> dict[str, str]:
    """File -> sha256, hex, of a wheel's RECORD."""
    rows = (row for row in csv.reader(text.splitlines()) if len(row) > 1 and row[1].startswith("sha256="))
    return {row[0]: base64.urlsafe_b64decode(row[1][7:] + "=" * (-len(row[1][7:]) % 4)).hex() for row in rows}


def _write(path: Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, begun = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    Path(begun).chmod(0o644)
    Path(begun).replace(path)
