"""Real SGLang releases, fetched by version, checked against a committed hash, kept in the cache.

Owns: the wheels and the package trees unzipped from them. Refuses: a release without a hash, a wheel that
does not have it, and to write anywhere but into the cache. None of SGLang's text is in this repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.support.cache import alone, cache_dir

TABLE: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "sglang_wheels.json").read_text())
RELEASES = tuple(TABLE)
"""Every release of the table, oldest first."""


def wheel(version: str) -> Path:
    """The wheel of that release, downloaded (5-40 MB) at most once. Raises KeyError, RuntimeError."""
    expected = TABLE[version]
    path = cache_dir() / "wheels" / expected["file"]
    with alone("wheels"):
        if not path.exists():
            _download(version, path)
    return path


def engine_file(version: str, name: str) -> bytes:
    """One file of the release, such as ``sglang/srt/layers/moe/topk.py``. Raises KeyError."""
    with zipfile.ZipFile(wheel(version)) as archive:
        return archive.read(name)


def engine_tree(version: str) -> Path:
    """The release's Python files and metadata as a folder for PYTHONPATH (22-75 MB). Read it, never write."""
    tree = cache_dir() / "trees" / TABLE[version]["sha256"][:16]
    archive_path = wheel(version)
    with alone("trees"):
        if not tree.exists():
            tree.parent.mkdir(parents=True, exist_ok=True)
            begun = Path(tempfile.mkdtemp(dir=tree.parent))
            try:
                with zipfile.ZipFile(archive_path) as archive:
                    names = archive.namelist()
                    archive.extractall(begun, [n for n in names if n.endswith(".py") or ".dist-info/" in n])
                begun.rename(tree)
            finally:
                shutil.rmtree(begun, ignore_errors=True)
    return tree


def _download(version: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        asked = Path(folder) / "requirements.txt"
        asked.write_text(f"sglang=={version} --hash=sha256:{TABLE[version]['sha256']}\n")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--quiet", "download"),
                *("--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--only-binary=:all:"),
                *("--python-version", "3.11", "--platform", "manylinux_2_34_x86_64"),
                *("--require-hashes", "--dest", folder, "--requirement", str(asked)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        fetched = Path(folder) / path.name
        if done.returncode or not fetched.exists():
            raise RuntimeError(f"pip could not fetch sglang {version}:\n{done.stderr}")
        fetched.rename(path)
