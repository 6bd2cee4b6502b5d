"""Real SGLang releases, fetched by version, checked against a committed hash, kept in the cache.

Owns: the wheels and the package trees unzipped from them. Refuses: a release without a hash, a wheel that
does not have it, and to write anywhere but into the cache. None of SGLang's text is in this repository.

The table has every final and post release. ``RELEASES`` are those marked ``era``, some of each shape that
the router has had: their wheels stay in the cache, of the others only the files in ``KEPT``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.support.cache import alone, cache_dir

TABLE_FILE = Path(__file__).parent / "sglang_wheels.json"
TABLE: dict[str, dict[str, Any]] = json.loads(TABLE_FILE.read_text())
EVERY_RELEASE = tuple(TABLE)
"""Every release of the table, oldest first."""
RELEASES = tuple(version for version, row in TABLE.items() if row.get("era"))
KEPT = ("sglang/srt/layers/moe/topk.py", "sglang/srt/layers/radix_attention.py", "sglang/version.py")


def wheel(version: str) -> Path:
    """The wheel of that release, downloaded (5-40 MB) at most once. Raises KeyError, RuntimeError."""
    row = TABLE[version]
    path = cache_dir() / "wheels" / row["file"]
    with alone("wheels"):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                asked = f"sglang=={version} --hash=sha256:{row['sha256']}"
                download(asked, Path(folder), "--require-hashes").rename(path)
    return path


def keep_files(version: str) -> Path:
    """The folder with that release's ``KEPT`` files; a wheel that had to be fetched for them goes again."""
    folder = cache_dir() / "files" / TABLE[version]["sha256"][:16]
    missing = [name for name in KEPT if not (folder / name).exists()]
    if missing:
        had = (cache_dir() / "wheels" / TABLE[version]["file"]).exists()
        with zipfile.ZipFile(wheel(version)) as archive:
            for name in missing:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                begun = path.with_name(f"{path.name}.{os.getpid()}")
                begun.write_bytes(archive.read(name))
                begun.rename(path)
        if not had:
            wheel(version).unlink()
    return folder


def engine_file(version: str, name: str) -> bytes:
    """One file of the release, such as ``sglang/srt/layers/moe/topk.py``. Raises KeyError."""
    if name in KEPT:
        return (keep_files(version) / name).read_bytes()
    with zipfile.ZipFile(wheel(version)) as archive:
        return archive.read(name)


def engine_tree(version: str) -> Path:
    """The release as a folder for PYTHONPATH, without its compiled parts (26-86 MB). Read it, never write."""
    tree = cache_dir() / "trees" / TABLE[version]["sha256"][:16]
    archive_path = wheel(version)
    with alone("trees"):
        if not tree.exists():
            tree.parent.mkdir(parents=True, exist_ok=True)
            begun = Path(tempfile.mkdtemp(dir=tree.parent))
            try:
                with zipfile.ZipFile(archive_path) as archive:
                    names = archive.namelist()
                    archive.extractall(begun, [name for name in names if not name.endswith(".so")])
                begun.rename(tree)
            finally:
                shutil.rmtree(begun, ignore_errors=True)
    return tree


def download(requirement: str, folder: Path, *more: str) -> Path:
    """Have pip fetch the one wheel that a line of a requirements file means. Raises RuntimeError."""
    asked = folder / "requirements.txt"
    asked.write_text(f"{requirement}\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--quiet", "download"),
            *("--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--only-binary=:all:"),
            *("--python-version", "3.11", "--platform", "manylinux_2_34_x86_64", *more),
            *("--dest", str(folder), "--requirement", str(asked)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = list(folder.glob("*.whl"))
    if done.returncode or len(found) != 1:
        raise RuntimeError(f"pip could not fetch {requirement}:\n{done.stderr}")
    return found[0]
