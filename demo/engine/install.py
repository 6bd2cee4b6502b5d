"""Install a real SGLang 0.5.20 that serves a small model on this machine's CPU, once, into the cache.

    python install.py [--json]

Linux x86-64 and CPython 3.11 are needed; this program itself runs on any Python from 3.11. What is there
already is left alone, an interrupted run is taken up again. On stdout: the paths, as lines or as JSON.

Packages come by pip from whatever index it is configured for, each checked against the hash in the lock.
Only torch comes by version: indexes differ in its build, and the plain one may be for CUDA (some gigabytes
more, and it serves here just as well).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = HERE / "sglang-0.5.20-cpu.lock.txt"
TORCH = "torch==2.13.0"
PYTHON = (3, 11)
CHECK = (
    f"import ensurepip, sys, venv; "
    f"sys.exit((sys.implementation.name, *sys.version_info[:2]) != ('cpython', *{PYTHON}))"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", action="store_true", help="print the paths as one JSON document")
    as_json = parser.parse_args().json
    home = cache_dir() / f"engine-{key()}"
    try:
        with alone(home):
            python = install_packages(home / "venv")
            site = install_stand_ins(python)
            model = make_model(python, home / "model")
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(
            f"error: {' '.join(error.cmd[:5])} … ended with {error.returncode}; run it again", file=sys.stderr
        )
        return 1
    paths = {"python": str(python), "model": str(model), "site": str(site)}
    print(json.dumps(paths) if as_json else "\n".join(f"{name}: {path}" for name, path in paths.items()))
    return 0


class InstallError(Exception):
    """This machine cannot have the engine; the message says what it lacks."""


def cache_dir() -> Path:
    """``$OEACTL_CACHE``, else ``oeactl`` in the user's cache folder."""
    if os.environ.get("OEACTL_CACHE"):
        return Path(os.environ["OEACTL_CACHE"]).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oeactl"


def key() -> str:
    """What tells one set of packages from another."""
    return hashlib.sha256(LOCK.read_bytes() + TORCH.encode()).hexdigest()[:12]


@contextlib.contextmanager
def alone(home: Path) -> Iterator[None]:
    """Wait until no other run is at work here."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_packages(venv: Path) -> Path:
    """The interpreter of the engine's venv, made and filled unless it is complete."""
    python = venv / "bin" / "python"
    done = venv / ".complete"
    if done.exists():
        return python
    base = find_python()
    began = time.monotonic()
    say(f"SGLang 0.5.20 for this CPU, once, into {venv.parent}")
    say("about 0.6 GB of downloads, more where torch comes for CUDA; 2.8 GB of disk; two to five minutes")
    shutil.rmtree(venv, ignore_errors=True)  # no venv can be moved into place: its scripts name its folder
    run(base, "-m", "venv", str(venv))
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
    say("packages by hash (1 of 2)")
    run(*pip, "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", str(LOCK))
    say(f"{TORCH} (2 of 2)")
    run(*pip, "--only-binary=:all:", TORCH)
    done.touch()
    say(f"installed in {time.monotonic() - began:.0f} s")
    return python


def find_python() -> str:
    """A CPython 3.11 that can make a venv. Raises InstallError, saying how to get one."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise InstallError(
            f"SGLang's CPU engine is for Linux x86-64, not {platform.system()} {platform.machine()}"
        )
    named = os.environ.get("OEACTL_ENGINE_PYTHON")
    for candidate in [named] if named else [sys.executable, "python3.11", *managed_pythons()]:
        path = shutil.which(candidate)
        if path and subprocess.run([path, "-c", CHECK], capture_output=True, check=False).returncode == 0:
            return path
    raise InstallError(
        f"{named or 'no CPython 3.11 here'} cannot make the engine's venv: 'uv python install 3.11', or your "
        "system's python3.11 with python3.11-venv; OEACTL_ENGINE_PYTHON=/path/to/python3.11 names one"
    )


def managed_pythons() -> list[str]:
    """CPython 3.11 as uv or pyenv keep it, where they are not on the PATH."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [*uv.glob("cpython-3.11.*/bin/python3.11"), *pyenv.glob("versions/3.11.*/bin/python3.11")]
    return [str(path) for path in sorted(found)]


def install_stand_ins(python: Path) -> Path:
    """Put sitecustomize.py where the venv's Python finds it; returns that folder."""
    site = python.parents[1] / "lib/python{}.{}/site-packages".format(*PYTHON)
    ours = (HERE / "sitecustomize.py").read_bytes()
    target = site / "sitecustomize.py"
    if not target.exists() or target.read_bytes() != ours:
        replace(target, ours)
    return site


def make_model(python: Path, folder: Path) -> Path:
    """The model's folder, made anew where the program that makes it is another one."""
    program = HERE / "make_model.py"
    made_by = hashlib.sha256(program.read_bytes()).hexdigest()
    done = folder / ".complete"
    if not done.exists() or done.read_text() != made_by:
        say("making the model: 202 MB, some seconds")
        shutil.rmtree(folder, ignore_errors=True)
        run(str(python), str(program), str(folder))
        replace(done, made_by.encode())
    return folder


def replace(path: Path, data: bytes) -> None:
    """Write a file at once or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)


def run(*argv: str) -> None:
    """A step, with what it prints on stderr: stdout is for the paths. Raises CalledProcessError."""
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)


def say(line: str) -> None:
    print(f"engine: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
