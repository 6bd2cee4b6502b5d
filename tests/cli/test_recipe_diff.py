"""From a difference to a recipe and back: what git apply makes of the one, the recipe makes of the engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from oeactl.cli.app import main

ROUTER = b"""\
import os


def route(rows, size):
    kept = []
    for row in rows:
        kept.append(row)
    return kept
"""
FILES = {
    "sglang/__init__.py": b"",
    "sglang/version.py": b'__version__ = "1.2"\n',
    "sglang/srt/__init__.py": b"",
    "sglang/srt/router.py": ROUTER,
    "sglang/srt/sampler.py": b"\xef\xbb\xbfLEVEL = 1\r\nNAMES = ['a']\r\n",
    "sglang/srt/configs/E=8, [1].json": b"{}\n",
}
EDITED = {
    "sglang/srt/router.py": ROUTER.replace(b"    kept = []\n", b"    kept = []\n    rows = rows[:size]\n"),
    "sglang/srt/sampler.py": b"\xef\xbb\xbfLEVEL = 2\r\nNAMES = ['a', 'b']\r\n",
    "sglang/srt/configs/E=8, [1].json": b'{"a": 1}\n',
    "sglang/srt/configs/E=9, [2].json": b"{}",
    "sglang/srt/extra.py": b"MORE = 1\n",
}


def git(folder: Path, *words: str, data: bytes = b"") -> bytes:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.autocrlf=false"]
    command = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts and "__pycache__" not in path.parts
    }


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and in ``fork`` a checkout whose package lies in ``python``."""
    (tmp_path / "hosts.yaml").write_text("hosts: {}\n")
    put(tmp_path / "fork" / "python", FILES)
    git(tmp_path, "init", "-q", str(tmp_path / "fork"))
    git(tmp_path / "fork", "add", ".")
    git(tmp_path / "fork", "commit", "-q", "-m", "as it was")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def difference(place: Path, files: dict[str, bytes], *words: str) -> Path:
    """What git says of an edit; the checkout is as it was afterwards."""
    fork = place / "fork"
    put(fork / "python", files)
    git(fork, "add", "-A")
    made = place / "fix.diff"
    made.write_bytes(git(fork, "diff", "--cached", "--binary", *words))
    git(fork, "reset", "-q", "--hard")
    return made


def run(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(["recipe", *line.split()]) == code, capsys.readouterr()
    out, err = capsys.readouterr()
    return out + err


def test_an_import_gives_the_bytes_that_git_apply_gives(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = difference(place, EDITED)
    said = run(f"import {made} --id fix --root fork", capsys)
    assert "recipes/fix/: 3 edits" in said and "left out" not in said
    assert "cases pass" in run("test fix", capsys)
    document = json.loads(run("check fix --root fork --json", capsys))
    git(place / "fork", "apply", str(made))
    theirs = files_of(place / "fork" / "python")
    git(place / "fork", "reset", "-q", "--hard")
    git(place / "fork", "clean", "-qfd")
    diff = run("export fix --diff --root fork", capsys).encode()
    shutil.copytree(place / "fork" / "python", place / "copy")
    git(place, "init", "-q", str(place / "copy"))
    git(place / "copy", "apply", "--whitespace=nowarn", "-", data=diff)
    ours = files_of(place / "copy")
    assert ours == theirs == {**FILES, **EDITED}
    assert {file["module"] for file in document["files"]} == {
        "sglang.srt.router",
        "sglang.srt.sampler",
        "sglang/srt/configs/E=8, [1].json",
        "sglang/srt/configs/E=9, [2].json",
        "sglang/srt/extra.py",
    }


def test_on_an_engine_that_moved_on_it_applies_by_meaning_or_refuses(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"import {difference(place, EDITED)} --id fix --root fork", capsys)
    router = place / "fork/python/sglang/srt/router.py"
    router.write_bytes(b"# newer\n" * 40 + ROUTER)
    assert "applies" in run("check fix --root fork", capsys)
    router.write_bytes(ROUTER.replace(b"kept = []", b"kept = list()"))
    assert "matches 0 places" in run("check fix --root fork", capsys, 3)
    (place / "fork/python/sglang/srt/configs/E=8, [1].json").write_bytes(b'{"b": 1}\n')
    assert "not the file that the recipe takes the place of" in run("check fix --root fork", capsys, 3)


def test_what_has_no_place_is_named_and_ends_with_three(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = place / "fork"
    put(fork, {"docs/a.md": b"x\n"})
    git(fork, "rm", "-q", "python/sglang/srt/sampler.py")
    made = difference(
        place, {"sglang/srt/router.py": EDITED["sglang/srt/router.py"], "sglang/logo.bin": bytes(9)}
    )
    said = run(f"import {made} --id fix --root fork", capsys, 3)
    assert "outside the engine, not in the recipe: b/docs/a.md" in said
    assert "left out: sglang/srt/sampler.py: a file that is deleted" in said
    assert "left out: sglang/logo.bin: a binary file" in said
    assert "the recipe is unfinished" in run("check fix --root fork", capsys, 3)
    assert "left out by the import: sglang/logo.bin" in run("lint fix", capsys, 2)


def test_a_difference_for_another_engine_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = difference(place, EDITED)
    router = place / "fork/python/sglang/srt/router.py"
    router.write_bytes(ROUTER.replace(b"kept = []", b"kept = list()"))
    said = run(f"import {made} --root fork", capsys, 3)
    assert "the difference does not apply to sglang 1.2" in said and "router.py:" in said
    router.unlink()
    assert "sglang 1.2 has no file sglang/srt/router.py" in run(f"import {made} --root fork", capsys, 3)
    assert not (place / "recipes").exists()


def test_an_edited_file_is_as_good_as_a_difference(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(place, {"new.py": EDITED["sglang/srt/router.py"], "old.py": ROUTER})
    said = run("import --from-edited new.py --pristine old.py --module sglang.srt.router --id fix", capsys)
    assert "recipes/fix/: 1 edit, " in said
    assert "+    rows = rows[:size]" in run("export fix --root fork", capsys)
    path = place / "fork/python/sglang/srt/router.py"
    assert "nothing differs" in run(f"import --from-edited old.py --pristine {path}", capsys, 3)


def test_an_edited_file_stands_against_the_engines_own(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(place, {"new.py": EDITED["sglang/srt/router.py"], "mine/sglang/srt/__init__.py": b"x = 1\n"})
    said = run("import --from-edited new.py --module sglang.srt.router --root fork --id fix", capsys)
    assert "recipes/fix/: 1 edit, " in said
    assert "every file is a tested one" in run("check fix --root fork", capsys), "the version is known"
    said = run("import --from-edited mine/sglang/srt/__init__.py --root fork --id whole", capsys)
    assert "recipes/whole/: 0 edits" in said, "there was nothing to find a place by"
    lost = run("import --from-edited new.py --module sglang.srt.lost --root fork", capsys, 3)
    assert "sglang 1.2 has no file sglang/srt/lost.py" in lost


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "a difference, or an edited file?"),
        ("fix.diff --from-edited a.py", "a difference, or an edited file?"),
        ("fix.diff", "fix.diff"),
        ("--from-edited new.py", "goes with the module as it was; new.py; --engine sglang==0.5.16, --root"),
        ("--from-edited new.py --pristine old.py --root fork", "goes with the module as it was"),
        ("--from-edited hosts.yaml --pristine old.py", "which module is it?"),
        ("hosts.yaml --root fork", "no unified difference"),
        (
            "hosts.yaml --id A --root fork",
            "an id is lower-case letters, digits, '-' and '_', a letter first; --id A",
        ),
    ],
)
def test_wrong_words_are_usage(
    place: Path, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in run(f"import {words}", capsys, 2)


def test_an_export_to_a_file_and_of_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"import {difference(place, EDITED)} --id fix --root fork", capsys)
    assert "out.diff: 5 files" in run("export fix --root fork -o out.diff", capsys)
    lost = run("export fix --root fork -o nowhere/out.diff", capsys, 2)
    assert "cannot be written: No such file or directory; nowhere/out.diff" in lost
    document = json.loads(run("export fix --root fork --json", capsys))
    assert document["diff"].encode() == (place / "out.diff").read_bytes()
    assert "changes no file there" in run("export max-running-requests --root fork", capsys, 3)
