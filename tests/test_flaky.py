"""A run of tests that failed is repeated once: what passes then is flaky, what fails twice is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.flaky import MOST_RUN_AGAIN

#: Fails once: the first run leaves a file by which the second one knows.
FLAKY = """
from pathlib import Path
def test_{name}():
    mark = Path({name!r})
    if not mark.exists():
        mark.touch()
        raise AssertionError("first error of {name}")
"""
BROKEN = "def test_broken():\n    assert 1 == 2\n"
SOUND = "def test_sound():\n    pass\n"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.flaky", "-p", "xdist", *words],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # half the time of a start
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sound.py").write_text(SOUND)
    return tmp_path


def flaky_file(folder: Path, *names: str) -> None:
    (folder / "test_some.py").write_text("".join(FLAKY.format(name=name) for name in names))


@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_passes_the_second_time_is_listed_with_its_first_error(folder: Path, processes: str) -> None:
    flaky_file(folder, "one", "two")
    assert run(folder, "-n", processes).returncode == 1
    again = run(folder, "--failed-again", "-n", "0")
    assert again.returncode == 0
    heading = again.stdout.index(" flaky ")
    for name in ("one", "two"):
        assert heading < again.stdout.index(f"first error of {name}")
    assert "2 passed" in again.stdout.splitlines()[-1]


def test_what_fails_twice_is_broken(folder: Path) -> None:
    flaky_file(folder, "one")
    (folder / "test_broken.py").write_text(BROKEN)
    run(folder)
    again = run(folder, "--failed-again")
    assert again.returncode == 1
    assert "1 failed, 1 passed" in again.stdout.splitlines()[-1]
    assert "first error of one" in again.stdout


def test_too_many_failures_are_not_run_again(folder: Path) -> None:
    flaky_file(folder, *"abcdefg"[: MOST_RUN_AGAIN + 1])
    run(folder)
    again = run(folder, "--failed-again")
    assert again.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"{MOST_RUN_AGAIN + 1} failed tests" in again.stderr


def test_a_test_that_is_skipped_the_second_time_did_not_pass(folder: Path) -> None:
    flaky_file(folder, "one")
    text = (folder / "test_some.py").read_text()
    run(folder)
    (folder / "test_some.py").write_text(text.replace("mark = ", "import pytest; pytest.skip('no'); mark = "))
    assert run(folder, "--failed-again").returncode == 1


@pytest.mark.parametrize(
    "broken_run",
    ["import nothing_of_this_name", "def test_stop():\n    raise KeyboardInterrupt", SOUND],
    ids=["not collected", "interrupted", "green"],
)
def test_a_run_that_did_not_end_with_failures_is_not_repeated(folder: Path, broken_run: str) -> None:
    flaky_file(folder, "one")
    run(folder)
    (folder / "test_some.py").write_text(broken_run)
    run(folder)
    again = run(folder, "--failed-again")
    assert again.returncode == pytest.ExitCode.USAGE_ERROR
    assert "0 failed tests" in again.stderr
