"""docs/recipes.md does what it says: each file it shows is written, each command run, each line expected."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oeactl.cli.app import main
from oeactl.core.operations import OPERATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass(frozen=True)
class Command:
    """code: the exit code it says. lines: what its output must hold, in order."""

    words: list[str]
    code: int
    lines: list[str]


def steps() -> Iterator[tuple[str, str] | Command]:
    """Files to write (path, content) and commands, in the page's order."""
    for language, name, body in _BLOCK.findall(PAGE):
        if name:
            yield name, body
        elif language == "sh" and body.startswith("rm "):
            yield Command(words=shlex.split(body), code=0, lines=[])
        elif language == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, *lines = part.splitlines()
                code = _EXIT.search(line)
                words = shlex.split(_EXIT.sub("", line))
                yield Command(words=words, code=int(code[1]) if code else 0, lines=lines)


def follow(folder: Path, capsys: pytest.CaptureFixture[str], *, engine: bool) -> int:
    """Do what the page says in ``folder``; how many commands were run."""
    count = 0
    for step in steps():
        if not isinstance(step, Command):
            path = folder / step[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step[1])
        elif step.words[0] == "rm":
            for name in step.words[2:]:
                path = folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif engine or "--engine" not in step.words:
            assert step.words[0] == "oeactl"
            code = main(step.words[1:])
            out, err = capsys.readouterr()
            said = out + err
            assert code == step.code, f"{step.words}\n{said}"
            for line in step.lines:
                assert line.strip() in said, f"{shlex.join(step.words)} does not say: {line}\n{said}"
                said = said[said.index(line.strip()) :]
            count += 1
    return count


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yaml").write_text("hosts: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_newcomer_who_follows_the_page_gets_what_it_shows(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert follow(project, capsys, engine=False) >= 9


@pytest.mark.network
def test_with_real_releases_too(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(project, capsys, engine=True) >= 14


def test_every_operation_is_on_the_page() -> None:
    told = set(re.findall(r"`(\w+)`", PAGE))
    assert set(OPERATIONS) - told == set()
