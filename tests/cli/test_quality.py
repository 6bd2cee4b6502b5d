"""``oeactl quality`` against a scripted server: its words, its ends, and what a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.cli.app import main
from tests.support.answering_server import Script, answering

FEW = ("--prompts", "4", "--output-len", "8", "--concurrency", "4", "--passes", "2")


@pytest.fixture
def server() -> Iterator[Script]:
    with answering() as script:
        yield script


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quality(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main(["quality", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_person_reads_the_verdict_and_its_limits(
    capsys: pytest.CaptureFixture[str], server: Script
) -> None:
    assert main(["quality", "--url", server.url, *FEW]) == 0
    assert "oeactl quality --against" in capsys.readouterr().out
    assert main(["quality", "--url", server.url, "--against", "last"]) == 0
    out = capsys.readouterr().out
    assert "within the floor: not told apart" in out and "4 prompts are too few to tell any change" in out


def test_a_key_is_taken_from_its_variable(
    capsys: pytest.CaptureFixture[str], server: Script, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    server.key = "very-secret"
    quality(capsys, "--url", server.url, *FEW, "--api-key-env", "THE_KEY", code=2)
    monkeypatch.setenv("THE_KEY", "very-secret")
    quality(capsys, "--url", server.url, *FEW, "--api-key-env", "THE_KEY")
    assert not [path for path in folder.rglob("*.json") if "very-secret" in path.read_text()]


def test_a_server_that_is_not_there_is_exit_4(capsys: pytest.CaptureFixture[str]) -> None:
    quality(capsys, "--url", "http://127.0.0.1:9", *FEW, code=4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--url", "http://x", "--host", "a"], "two servers"),
        (["--model", "m"], "belong to --url"),
        (["--url", "127.0.0.1"], "is no URL"),
        (["--recorded", "last"], "with --against"),
        (["--against", "last"], "no answers are recorded"),
    ],
)
def test_wrong_words_are_usage(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert says in quality(capsys, *words, code=2)["error"]["what"]


def test_what_was_asked_otherwise_is_not_compared(capsys: pytest.CaptureFixture[str], server: Script) -> None:
    first = quality(capsys, "--url", server.url, *FEW)["recording"]["recording_id"]
    error = quality(capsys, "--url", server.url, "--against", "last", "--output-len", "9", code=2)["error"]
    assert "asked in another way" in error["what"]
    other = ("--prompts", "5", "-c", "4", "--passes", "2")
    second = quality(capsys, "--url", server.url, *other)["recording"]["recording_id"]
    error = quality(capsys, "--recorded", second, "--against", first, code=2)["error"]
    assert "not asked alike" in error["what"]
    error = quality(capsys, "--recorded", second, "--against", second, code=2)["error"]
    assert "against itself" in error["what"]
