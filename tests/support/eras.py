"""Releases of SGLang that serve on this CPU beside the one that is installed, and what each needs for it.

Owns: another ``transformers`` where a release wants one, in the cache, put before the engine's own on
PYTHONPATH; everything else is the engine's venv. Refuses: a package without a hash.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from demo.world import Installed
from tests.support.cache import alone, cache_dir
from tests.support.engine import cpu_engine
from tests.support.wheels import engine_tree

_OLD = (
    "transformers==4.57.1 --hash=sha256:b10d05da8fa67dc41644dbbf9bc45a44cb86ae33da6f9295f5fbf5b7890bd267",
    "huggingface-hub==0.36.0 --hash=sha256:7bcc9ad17d5b3f07b57c78e79d527102d08313caa278a641993acddcb894548d",
)
_NEW = (
    "transformers==5.19.0 --hash=sha256:afcd2dd5f603ed28c1e1fcb00a338ccbb4ef5f878ed289635df8b58187afb518",
    "tokenizers==0.23.1 --hash=sha256:5075b405006415ea148a992d093699c66eb01952bf59f4d5727089a98bda45a4",
)
NEEDS = {"0.5.9": _OLD, "0.5.12.post1": _OLD, "0.5.16": (), "0.5.23": _NEW}
"""Release -> lines of a requirements file."""


def beside(version: str) -> Path | None:
    """The folder of what that release needs, some 60 MB, fetched at most once; None: nothing."""
    lines = NEEDS[version]
    if not lines:
        return None
    folder = cache_dir() / "beside" / hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    with alone("beside"):
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            begun = Path(tempfile.mkdtemp(dir=folder.parent))
            try:
                (begun / "needs.txt").write_text("\n".join(lines) + "\n")
                pip = (cpu_engine().python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
                asked = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--no-compile")
                where = ("--target", begun / "packages", "--requirement", begun / "needs.txt")
                subprocess.run([*pip, *asked, *where], check=True)
                (begun / "packages").rename(folder)
            finally:
                shutil.rmtree(begun, ignore_errors=True)
    return folder


def engine_of(version: str, folder: Path) -> Installed:
    """The engine with that release in place of its own. folder: where its model is put."""
    engine = cpu_engine()
    folder.mkdir()
    for file in engine.model.iterdir():
        (folder / file.name).symlink_to(file)
    tokenizer = folder / "tokenizer_config.json"
    known = json.loads(tokenizer.read_text())
    tokenizer.unlink()  # a link
    known["tokenizer_class"] = "PreTrainedTokenizerFast"  # what transformers 4 calls it
    tokenizer.write_text(json.dumps(known))
    return Installed(python=engine.python, model=folder, site=engine_tree(version))


def fetch() -> None:
    """Everything, so that the tests can run without a network."""
    for version in NEEDS:
        engine_tree(version)
        beside(version)
