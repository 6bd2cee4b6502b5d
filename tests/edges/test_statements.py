"""What libcst has read once it need not read again: kept between commands, and never trusted too far."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.core.changes import read_back
from oeactl.edges.statements import MOST, remembered


@pytest.fixture(autouse=True)
def nothing_read() -> Iterator[None]:
    before = set(read_back)
    read_back.clear()
    yield
    read_back.clear()
    read_back.update(before)


def kept(folder: Path) -> list[str]:
    with remembered({"XDG_STATE_HOME": str(folder)}):
        found = sorted(read_back)
    read_back.clear()
    return found


def add(folder: Path, *digests: str) -> None:
    with remembered({"XDG_STATE_HOME": str(folder)}):
        read_back.update(digests)
    read_back.clear()


def test_a_command_begins_with_what_earlier_ones_read(tmp_path: Path) -> None:
    with remembered({"XDG_STATE_HOME": str(tmp_path)}) as any_known:
        assert not any_known
        read_back.add("a")
    read_back.clear()
    add(tmp_path, "b")
    with remembered({"XDG_STATE_HOME": str(tmp_path)}) as any_known:
        assert any_known
        assert read_back == {"a", "b"}


def test_what_another_libcst_read_counts_for_nothing(tmp_path: Path) -> None:
    add(tmp_path, "a")
    path = tmp_path / "oeactl" / "statements"
    path.write_text(path.read_text().replace("libcst ", "libcst 0."))
    assert kept(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a\nb\n"])
def test_a_damaged_file_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "oeactl" / "statements"
    path.parent.mkdir()
    path.write_bytes(content)
    assert kept(tmp_path) == []
    add(tmp_path, "c")
    assert kept(tmp_path) == ["c"]


def test_a_folder_that_cannot_be_written_fails_no_command(tmp_path: Path) -> None:
    (tmp_path / "oeactl").write_text("a file")
    add(tmp_path, "a")
    assert kept(tmp_path) == []


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    add(tmp_path, "oldest")
    add(tmp_path, *(f"{number:04}" for number in range(MOST)))
    assert len(kept(tmp_path)) == MOST
    assert "oldest" not in kept(tmp_path)


PLANS = """
import sys
from oeactl.core.changes import _concrete, read_back
from oeactl.core.source import Source
text = b"def f(x):\\n    return x\\n"
read_back.update(sys.argv[1:])
_concrete(Source(text, "f.py"), [12])
print("libcst" in sys.modules, *read_back)
"""


def test_a_statement_that_was_read_back_is_not_read_again_and_libcst_not_imported() -> None:
    first = subprocess.run([sys.executable, "-c", PLANS], check=True, capture_output=True, text=True).stdout
    imported, *digests = first.split()
    assert imported == "True"
    assert len(digests) == 1
    second = subprocess.run(
        [sys.executable, "-c", PLANS, *digests], check=True, capture_output=True, text=True
    ).stdout
    assert second.split() == ["False", *digests]
