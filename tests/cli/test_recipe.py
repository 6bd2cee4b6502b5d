"""``oeactl recipe``: one recipe shown, and tried on a release or a folder without any host."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from oeactl.cli.app import main

RECIPE = """\
id: trial
revision: 1
title: A test
engine: {package: sglang, versions: ">=1"}
parameters: {size: {type: int, default: 4}}
files:
  - module: sglang.a
    require: {symbols: [x]}
    edits:
      - {id: note, op: insert_after, at: {statement: x = 1}, code: y = OEACTL.size}
  - module: sglang.sub
    edits:
      - {id: tail, op: append, code: z = 1}
"""
CASE = "module: sglang.a\nrefuses: there is no\n"
FILES = {"sglang/__init__.py": b"", "sglang/a.py": b"x = 1\n", "sglang/sub/__init__.py": b"# a package\n"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "recipes" / "trial"
    (folder / "cases" / "none").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "cases" / "none" / "before.py").write_text("")
    (folder / "cases" / "none" / "case.yaml").write_text(CASE)
    (tmp_path / "hosts.yaml").write_text("hosts: {}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OEACTL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def make_wheel(folder: Path, version: str, files: dict[str, bytes], *, wrong: str = "") -> None:
    """A wheel where pip would have put it. wrong: a file that RECORD has another hash of."""
    folder.mkdir(parents=True)
    info = f"sglang-{version}.dist-info"
    rows = []
    with zipfile.ZipFile(folder / f"sglang-{version}-py3-none-any.whl", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
            said = b"another" if name == wrong else data
            digest = base64.urlsafe_b64encode(hashlib.sha256(said).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.4\nName: sglang\nVersion: {version}\n")
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,", ""]))


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def run(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(["recipe", *line.split()]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_it_is_tried_on_a_release_through_every_gate(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(project / "cache" / "wheels", "1.2", FILES)
    said = run("check trial --engine sglang==1.2 --set size=7 -v", capsys)
    assert "sglang 1.2 in " in said
    assert "trial r1 size=7 applies" in said
    assert "  sglang.a: +3 -0 lines" in said and "  sglang.sub: +5 -0 lines" in said
    assert "+y = 7" in said
    assert "unlisted" in said
    document = json.loads(run("check trial --engine sglang==1.2 --json", capsys))
    assert (document["status"], document["listed"], document["parameters"]) == ("applies", False, {"size": 4})
    assert [file["module"] for file in document["files"]] == ["sglang.a", "sglang.sub"]
    assert document["engine"]["version"] == "1.2"


def test_a_release_that_it_does_not_fit_is_a_refusal(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(project / "cache" / "wheels", "1.3", {**FILES, "sglang/a.py": b"x = 2\n"})
    said = run("check trial --engine sglang==1.3", capsys, 3)
    assert "statement 'x = 1' matches 0 places, not 1" in said and "a.py:1: x = 2" in said
    with zipfile.ZipFile(project / "cache" / "wheels" / "sglang-0.9-py3-none-any.whl", "w") as archive:
        archive.writestr("sglang/__init__.py", b"")
    assert "has none of the modules that are changed" in run("check trial --engine sglang==0.9", capsys, 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "which engine?; --engine sglang==0.5.16"),
        ("--engine sglang==1.2 --root .", "which engine?"),
        ("--engine sglang", "'sglang' names no release"),
        ("--engine vllm==1.0", "this is for sglang"),
        ("--root nowhere", "there is no such folder; nowhere"),
        ("--root .", "this is not sglang"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_wrong_engine_is_usage(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in run(f"check trial {words}", capsys, 2)


def test_a_wheel_that_is_not_what_its_record_says_is_not_used(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(project / "cache" / "wheels", "1.2", FILES, wrong="sglang/a.py")
    assert "not what its RECORD says; sglang/a.py" in run("check trial --engine sglang==1.2", capsys, 2)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_fork_is_judged_by_its_source_with_commit_and_dirt_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Version 0.0.0, a checkout, no RECORD: what the source says decides, and where it came from is kept."""
    fork = project / "fork"
    put(fork / "python", {**FILES, "sglang/version.py": b'__version__ = "0.0.0"\n'})
    git(fork.parent, "init", "-q", str(fork))
    git(fork, "add", ".")
    git(fork, "commit", "-q", "-m", "fork")
    commit = git(fork, "rev-parse", "HEAD")
    said = run("check trial --root fork", capsys)
    assert "sglang 0.0.0 in" in said and f"git commit {commit}\n" in said and "unlisted" in said
    (fork / "python" / "sglang" / "a.py").write_bytes(b"x = 1\nown = 2\n")
    assert f"git commit {commit}, with changes sha256 " in run("check trial --root fork/python", capsys)
    engine = json.loads(run("check trial --root fork --json", capsys))["engine"]
    assert engine["git_commit"] == commit and len(engine["git_dirty_sha256"]) == 64 and engine["editable"]
    (fork / "python" / "sglang" / "a.py").write_bytes(b"own = 2\n")
    assert "there is no 'x' in this module" in run("check trial --root fork", capsys, 3)


@pytest.mark.usefixtures("project")
def test_show_says_what_it_does_where(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("show trial", capsys)
    for words in (
        "size=4 (int)",
        "needs x",
        "[note] insert after: `x = 1`",
        "[tail] append",
        "cases: none",
        "for: sglang >=1",
    ):
        assert words in said
    assert main(["recipes", "trial"]) == 0
    assert capsys.readouterr().out == said, "the same by its older name"


@pytest.mark.network
def test_oea_is_checked_on_a_real_release(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("check oea --engine sglang==0.5.16", capsys)
    assert "every file is a tested one" in said and "variant 'layer known'" in said
    assert "tried on: 56 releases, 0.4.7 to 0.5.23" in run("show oea", capsys)
