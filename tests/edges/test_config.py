"""The project is the nearest folder with a hosts.yaml; its recipes hide ours; what is missing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from oeactl.edges.config import (
    find_root,
    load_project,
    packaged_recipes,
    projectless,
    recipe_files,
    recipe_ids,
    recipe_path,
)
from oeactl.errors import UsageError

REPO = Path(__file__).parents[2]


def test_the_shipped_hosts_file_works_as_it_stands() -> None:
    project = load_project(REPO, environ={})
    assert project.inventory.default_host == "10.1.230.174"
    host = project.inventory.hosts["10.1.230.174"]
    assert host.server is not None
    assert host.server.gpus == 8
    assert host.server.argv[host.server.argv.index("--model-path") + 1] == "lukealonso/GLM-5-NVFP4"
    assert host.bench.concurrency == (1, 4, 8, 16, 32, 64, 128)


def test_the_nearest_parent_with_a_hosts_file_is_the_root(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / "hosts.yaml").touch()
    assert find_root(deep) == tmp_path
    (tmp_path / "a" / "hosts.yaml").touch()
    assert find_root(deep) == tmp_path / "a"
    assert find_root(deep, tmp_path) == tmp_path


def test_where_it_looked_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no hosts\.yaml here or in any folder above") as caught:
        find_root(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert "--project" in str(caught.value.hint)


@pytest.mark.parametrize(("name", "what"), [(".", "no hosts.yaml in the project"), ("x", "no such project")])
def test_a_named_project_must_be_one(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        find_root(REPO, tmp_path / name)


def test_a_mistake_is_named_by_the_path_one_would_type(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts:\n  a:\n    prot: 22\n")
    (tmp_path / "sub").mkdir()
    for start, shown in ((tmp_path, "hosts.yaml:3"), (tmp_path / "sub", f"{tmp_path}/hosts.yaml:3")):
        with pytest.raises(UsageError) as caught:
            load_project(start)
        assert caught.value.where == shown


def test_variables_are_of_this_process(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {state_dir: '${PLACE}/s'}}")
    inventory = load_project(tmp_path, environ={"PLACE": "/p"}).inventory
    assert inventory.hosts["a"].state_dir == "/p/s"


def test_without_a_project_there_is_this_machine(tmp_path: Path) -> None:
    project = projectless(tmp_path)
    assert project.root == tmp_path
    assert project.inventory.local.is_local
    assert not project.inventory.hosts


def test_a_recipe_of_the_project_hides_ours(tmp_path: Path) -> None:
    assert packaged_recipes() == REPO / "recipes"
    ours = recipe_ids(None)
    (tmp_path / "recipes" / "mine" / "snippets").mkdir(parents=True)
    (tmp_path / "recipes" / "mine" / "recipe.yaml").write_bytes(b"id: mine\n")
    (tmp_path / "recipes" / "mine" / "snippets" / "a.py").write_bytes(b"x = 1\r\n")
    (tmp_path / "recipes" / "not-one").mkdir()
    assert recipe_ids(tmp_path) == tuple(sorted({*ours, "mine"}))
    assert recipe_files(recipe_path(tmp_path, "mine")) == {
        "recipe.yaml": b"id: mine\n",
        "snippets/a.py": b"x = 1\r\n",
    }
    for name in ours:
        (tmp_path / "recipes" / name).mkdir()
        (tmp_path / "recipes" / name / "recipe.yaml").write_bytes(b"hidden")
        assert recipe_files(recipe_path(tmp_path, name)) == {"recipe.yaml": b"hidden"}


@pytest.mark.parametrize("name", ["mien", "../mine", "", "mine/snippets"])
def test_an_unknown_recipe_is_not_looked_for_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "recipes" / "mine").mkdir(parents=True)
    (tmp_path / "recipes" / "mine" / "recipe.yaml").touch()
    with pytest.raises(UsageError, match="unknown recipe") as caught:
        recipe_path(tmp_path, name)
    assert "mine" in str(caught.value.hint)
