"""The engine's installer, with a stand-in for CPython 3.11 that writes down what it is asked."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "demo" / "engine"
PYTHON = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$ASKED"
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" "$3/lib/python3.11/site-packages" && cp "$0" "$3/bin/python" ;;
  "-m pip") test ! -e "$ASKED.fail" ;;
  *make_model.py*) mkdir "$2" ;;
esac
"""
pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the engine is for Linux x86-64"
)


class Machine:
    """A cache, a copy of the installer and its stand-in Python in one folder."""

    def __init__(self, folder: Path) -> None:
        self.engine = Path(shutil.copytree(ENGINE, folder / "engine"))
        self.cache = folder / "cache"
        self.python = folder / "python3.11"
        self.python.write_text(PYTHON)
        self.python.chmod(0o755)
        self.asked_file = folder / "asked"

    def install(self, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(self.engine / "install.py"), "--json"],
            env={
                **os.environ,
                "OEACTL_CACHE": str(self.cache),
                "OEACTL_ENGINE_PYTHON": str(self.python),
                "ASKED": str(self.asked_file),
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def asked(self) -> list[str]:
        """What the stand-in was asked since the last look."""
        lines = self.asked_file.read_text().splitlines() if self.asked_file.exists() else []
        self.asked_file.unlink(missing_ok=True)
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_it_installs_by_hash_and_says_where(machine: Machine) -> None:
    done = machine.install()
    paths = {name: Path(path) for name, path in json.loads(done.stdout).items()}
    assert set(paths) == {"python", "model", "site"}
    assert all(path.exists() and path.is_relative_to(machine.cache) for path in paths.values())
    assert (paths["site"] / "sitecustomize.py").read_bytes() == (ENGINE / "sitecustomize.py").read_bytes()
    (locked,) = [line for line in machine.asked() if "--requirement" in line]
    assert "--require-hashes" in locked and "--no-deps" in locked
    assert "GB" in done.stderr


def test_a_second_run_changes_nothing(machine: Machine) -> None:
    first = machine.install()
    machine.asked()
    second = machine.install()
    assert (second.stdout, second.stderr, machine.asked()) == (first.stdout, "", [])


def test_an_interrupted_run_is_taken_up_again(machine: Machine) -> None:
    fail = Path(f"{machine.asked_file}.fail")
    fail.touch()
    broken = machine.install()
    assert broken.returncode == 1 and "run it again" in broken.stderr and not broken.stdout
    fail.unlink()
    machine.asked()
    assert machine.install().returncode == 0
    assert any("-m venv" in line for line in machine.asked())


def test_another_model_program_makes_another_model(machine: Machine) -> None:
    machine.install()
    machine.asked()
    program = machine.engine / "make_model.py"
    program.write_text(program.read_text() + "\n")
    assert machine.install().returncode == 0
    assert [line.partition(" ")[0] for line in machine.asked()] == [str(program)]


def test_without_python_3_11_it_says_how_to_get_one(machine: Machine) -> None:
    done = machine.install(OEACTL_ENGINE_PYTHON="/none/python3.11")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "uv python install 3.11" in done.stderr and "/none/python3.11" in done.stderr


def test_every_locked_package_has_its_hash() -> None:
    lines = (ENGINE / "sglang-0.5.20-cpu.lock.txt").read_text().splitlines()
    packages = [line for line in lines if not line.startswith("#")]
    assert len(packages) > 100
    assert all(re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in packages)
