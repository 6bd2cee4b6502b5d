"""From an idea to a tested recipe by commands alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oeactl.cli.app import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts.yaml").write_text("hosts: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(["recipe", *line.split()]) == code
    out, err = capsys.readouterr()
    return out + err


def test_a_new_recipe_is_found_tested_and_clean(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run("new warm-sampler --module sglang.srt.layers.sampler", capsys)
    assert "next: oeactl recipe test warm-sampler" in said
    assert "module: sglang.srt.layers.sampler" in (project / "recipes/warm-sampler/recipe.yaml").read_text()
    assert run("test warm-sampler", capsys).splitlines() == [
        "ok       warm-sampler/place-gone",
        "ok       warm-sampler/scaled",
        "2 of 2 cases pass",
    ]
    assert run("lint", capsys) == "recipes/warm-sampler: nothing to say\n0 findings\n"
    assert "[scaled] insert after" in run("show warm-sampler", capsys)
    assert "there is such a folder already; recipes/warm-sampler" in run("new warm-sampler", capsys, 2)
    assert "an id is lower-case letters" in run("new Warm", capsys, 2)
    assert "'a/b.py' is no module: write it as it is imported" in run("new a --module a/b.py", capsys, 2)


@pytest.mark.parametrize("command", ["test", "lint"])
@pytest.mark.usefixtures("project")
def test_a_project_without_recipes_is_no_success(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "this project has no recipes; recipes; oeactl recipe new ID" in run(command, capsys, 2)


def test_a_case_that_fails_shows_the_difference_and_can_be_accepted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("new mine", capsys)
    snippet = project / "recipes/mine/snippets/scaled.py"
    snippet.write_text("if OEACTL.level > 2:\n    total = OEACTL.level\n")
    said = run("test", capsys, 2)
    assert "FAILS    mine/scaled" in said and "+        total = 3" in said and "1 of 2 cases pass" in said
    assert "accepted mine/scaled" in run("test mine --accept", capsys)
    assert "total = 3" in (project / "recipes/mine/cases/scaled/after.py").read_text()
    document = json.loads(run("test --json", capsys))
    assert document["failed"] == 0 and [case["name"] for case in document["recipes"]["mine"]] == [
        "place-gone",
        "scaled",
    ]


def test_lint_names_lines_and_errors_end_with_two(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("new mine", capsys)
    path = project / "recipes/mine/recipe.yaml"
    path.write_text(path.read_text().replace("title:", "titel:"))
    said = run("lint mine", capsys, 2)
    assert (
        "recipes/mine/recipe.yaml:4: error: unknown key 'titel' in the document; did you mean 'title'?"
        in said
    )
    (finding,) = json.loads(run("lint --json", capsys, 2))["findings"]
    assert finding["where"] == "recipes/mine/recipe.yaml:4"


def test_a_folder_is_a_recipe_too_and_so_are_ours_without_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("new mine", capsys)
    assert "next: oeactl recipe test recipes/mine" in said
    assert "2 of 2 cases pass" in run("test recipes/mine", capsys)
    assert "ok       oea/attention" in run("test", capsys)
    assert "no recipe.yaml in this folder; recipes" in run("test recipes", capsys, 2)


SCRIPTED = """\
id: scripted
revision: 1
title: By a script
engine: {package: sglang}
files: [{module: sglang.a, transform: transform.py}]
"""


def test_a_script_is_run_only_when_allowed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project / "recipes" / "scripted"
    (folder / "cases" / "one").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(SCRIPTED)
    (folder / "transform.py").write_text("def transform(source, values):\n    return source + 'y = 2\\n'\n")
    (folder / "cases" / "one" / "before.py").write_text("x = 1\n")
    (folder / "cases" / "one" / "after.py").write_text("x = 1\ny = 2\n")
    assert (
        "runs code of its own on this machine; recipes/scripted/transform.py; read it, then --allow-code"
        in (run("test scripted", capsys, 3))
    )
    assert "1 of 1 cases pass" in run("test scripted --allow-code", capsys)
    assert "cases not run" in run("lint scripted", capsys)
    assert "cases not run" not in run("lint scripted --allow-code", capsys)
