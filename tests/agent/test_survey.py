"""One look at a host tells what is there, and leaves no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oeactl.errors import UsageError
from tests.support.engine_tree import (
    ATTENTION,
    ORIGINAL,
    PATCHED,
    ROUTER,
    Tree,
    make_tree,
    sha256,
    with_release,
)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Every path with what a change would show in."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        facts = path.lstat()
        found[str(path)] = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_mode)
    return found


def test_it_finds_the_copy_that_the_server_would_import(tree: Tree) -> None:
    with_release(tree, "0.5.9")
    found = tree.files.survey(tree.request())
    assert found.engine.root == tree.root
    assert found.engine.version == "0.5.9"
    assert found.engine.python_version == ".".join(map(str, sys.version_info[:3]))
    assert not found.engine.editable
    router, attention = found.files
    assert router.path == str(tree.path(ROUTER))
    assert router.data == ORIGINAL[ROUTER]
    assert router.sha256 == router.record_sha256 == sha256(ORIGINAL[ROUTER])
    assert attention.module == ATTENTION
    assert attention.size == len(ORIGINAL[ATTENTION])
    assert router.writable and not router.missing and router.problem is None


def test_it_writes_nothing_anywhere(tree: Tree, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    before = snapshot(tmp_path)
    tree.files.survey(tree.request(env={"PYTHONPATH": str(tree.site), "HOME": str(home)}, model="a/b"))
    tree.files.survey(tree.request(state_dir=None))
    assert snapshot(tmp_path) == before


def test_it_writes_nothing_when_the_host_is_patched_either(tree: Tree, tmp_path: Path) -> None:
    tree.files.write(tree.transaction())
    before = snapshot(tmp_path)
    found = tree.files.survey(tree.request())
    assert snapshot(tmp_path) == before
    assert [record.pristine for record in found.journal.files] == [ORIGINAL[ROUTER], ORIGINAL[ATTENTION]]
    assert [layer.recipe for layer in found.journal.layers] == ["oea"]


def test_it_looks_at_every_file_the_journal_answers_for(tree: Tree) -> None:
    tree.files.write(tree.transaction())
    found = tree.files.survey(tree.request(modules=(ROUTER,), data=False))
    assert [file.module for file in found.files] == [ROUTER, ATTENTION]
    assert found.files[1].sha256 == sha256(PATCHED[ATTENTION])
    assert found.files[0].data is None
    assert found.journal.files[0].pristine is None


def test_the_version_is_read_without_importing_the_engine(tree: Tree) -> None:
    (tree.site / "sglang" / "__init__.py").write_text("raise SystemExit('imported')\n")
    assert tree.files.survey(tree.request()).engine.version == "0.0.1"


def test_a_given_root_wins_over_the_interpreters_copy(tree: Tree, tmp_path: Path) -> None:
    fork = tmp_path / "fork" / "python" / "sglang"
    target = fork / "srt" / "layers" / "moe"
    target.mkdir(parents=True)
    (fork / "__init__.py").write_text("")
    (target / "topk.py").write_text("x = 1\n")
    for root in (fork.parent, fork.parent.parent, fork):
        found = tree.files.survey(tree.request(root=str(root)))
        assert found.engine.root == str(fork)
        assert found.files[0].path == str(target / "topk.py")
        assert found.files[1].missing


@pytest.mark.parametrize("names", [[], ["sglang/__init__.py"], ["sglang/__init__.py", "sglang/other.py"]])
def test_a_folder_that_is_not_the_engine_is_said_not_to_be(
    tree: Tree, tmp_path: Path, names: list[str]
) -> None:
    root = tmp_path / "other"
    root.mkdir()
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    with pytest.raises(UsageError) as caught:
        tree.files.survey(tree.request(root=str(root)))
    assert "this is not sglang" in caught.value.what
    assert str(root) in str(caught.value.where)
    assert any("looked for" in line for line in caught.value.details)


def test_an_interpreter_without_the_engine_says_where_it_looked(tree: Tree) -> None:
    with pytest.raises(UsageError) as caught:
        tree.files.survey(tree.request(env={}))
    assert "finds no package sglang" in caught.value.what
    assert len(caught.value.details) > 1


def test_a_missing_interpreter_is_a_usage_error(tree: Tree) -> None:
    with pytest.raises(UsageError) as caught:
        tree.files.survey(tree.request(python="/no/such/python"))
    assert str(caught.value.where).endswith(":/no/such/python")


def test_a_noisy_interpreter_is_understood(tree: Tree) -> None:
    (tree.site / "sitecustomize.py").write_text("print('hello from sitecustomize {')\n")
    assert tree.files.survey(tree.request()).engine.root == tree.root


def test_the_servers_folder_is_searched_as_dash_m_would(tree: Tree) -> None:
    found = tree.files.survey(tree.request(env={}, cwd=str(tree.site)))
    assert found.engine.root == tree.root


def test_symlinks_are_followed_to_the_real_file(tree: Tree, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.py"
    tree.path(ROUTER).rename(real)
    tree.path(ROUTER).symlink_to(real)
    router = tree.files.survey(tree.request()).files[0]
    assert router.path == str(real)
    assert router.data == ORIGINAL[ROUTER]


def test_a_symlink_loop_is_a_problem_not_a_crash(tree: Tree) -> None:
    tree.path(ROUTER).unlink()
    tree.path(ROUTER).symlink_to(tree.path(ROUTER))
    router = tree.files.survey(tree.request()).files[0]
    assert not router.writable
    assert "symbolic links" in str(router.problem)


def test_a_read_only_file_is_not_writable_even_for_root(tree: Tree) -> None:
    tree.path(ROUTER).chmod(0o444)
    router = tree.files.survey(tree.request()).files[0]
    assert not router.writable
    assert router.problem == "it is read-only"
    assert router.mode == 0o444


def test_hard_links_are_counted(tree: Tree, tmp_path: Path) -> None:
    os.link(tree.path(ROUTER), tmp_path / "cache.py")
    assert tree.files.survey(tree.request()).files[0].nlink == 2


def test_an_editable_install_is_found_by_its_direct_url(tree: Tree, tmp_path: Path) -> None:
    info = tmp_path / "venv" / "sglang-0.5.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: sglang\nVersion: 0.5.9.dev1\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": f"file://{tree.site}", "dir_info": {"editable": True}})
    )
    path = os.pathsep.join((str(tree.site), str(info.parent)))
    engine = tree.files.survey(tree.request(env={"PYTHONPATH": path})).engine
    assert engine.editable
    assert engine.version == "0.5.9.dev1"


def test_a_given_root_and_the_agents_own_python_need_no_second_one_unless_a_project_is_around_it(
    tmp_path: Path,
) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python3.*/site-packages")
    asked = tmp_path / "asked"
    (packages / "sitecustomize.py").write_text(f"open({str(asked)!r}, 'w').close()\n")
    info = packages / "sglang-0.5.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: sglang\nVersion: 0.5.9.dev1\n")
    tree = make_tree(tmp_path / "tree", str(venv / "bin" / "python"))
    editable = {"url": f"file://{tree.site}", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(editable))
    request = tree.request(root=str(tree.site), env={})

    told = tree.files.survey(request).engine
    assert not asked.exists()
    assert told.python_version == ".".join(map(str, sys.version_info[:3]))
    assert (told.root, told.editable) == (tree.root, False)

    (tree.site / "pyproject.toml").write_text("")
    installed = tree.files.survey(request).engine
    assert asked.exists()
    assert (installed.editable, installed.version) == (True, "0.5.9.dev1")

    asked.unlink()
    tree.files.survey(tree.request(root=str(tree.site)))
    assert asked.exists(), "PYTHONPATH makes it another interpreter"


def git(tree: Tree, *words: str) -> str:
    settings = ("user.name=t", "user.email=t@example.org", "maintenance.auto=false", "commit.gpgsign=false")
    command = ["git", *(word for one in settings for word in ("-c", one)), "-C", str(tree.site), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_git_tree_gives_its_commit_and_what_differs_from_it(tree: Tree) -> None:
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "one")
    clean = tree.files.survey(tree.request()).engine
    assert clean.editable
    assert clean.git_commit == git(tree, "rev-parse", "HEAD")
    assert clean.git_dirty_sha256 is None
    tree.path(ROUTER).write_bytes(PATCHED[ROUTER])
    before = snapshot(tree.site)
    dirty = tree.files.survey(tree.request()).engine
    assert dirty.git_commit == clean.git_commit
    assert dirty.git_dirty_sha256 is not None
    assert snapshot(tree.site) == before, "git's index was left alone"


def test_a_package_that_git_does_not_track_is_not_in_git(tree: Tree) -> None:
    git(tree, "init", "-q")
    (tree.site / ".gitignore").write_text("sglang/\n")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "one")
    assert tree.files.survey(tree.request()).engine.git_commit is None


def test_the_host_tells_who_and_where_it_is(tree: Tree) -> None:
    host = tree.files.survey(tree.request()).host
    assert host.uid == os.geteuid()
    assert host.state_dir == str(tree.state)
    assert host.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host.cpus >= 1
    assert host.memory_bytes > 1 << 20


def test_nvidia_smi_rows_are_taken_where_there_is_one(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(
        "#!/bin/sh\n"
        'echo "0, NVIDIA RTX PRO 6000, GPU-1, 570.1, 97887 MiB, 600.00 W, Enabled"\n'
        'echo "1, NVIDIA RTX PRO 6000, GPU-2, 570.1, 97887 MiB, 600.00 W, Enabled"\n'
    )
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(smi.parent), prepend=os.pathsep)
    gpus = tree.files.survey(tree.request()).host.gpus
    assert [gpu["uuid"] for gpu in gpus] == ["GPU-1", "GPU-2"]
    assert gpus[0]["memory.total"] == "97887 MiB"


def test_the_models_config_is_read_from_a_folder(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"num_experts_per_tok": 8}')
    model = tree.files.survey(tree.request(model="model", cwd=str(tmp_path))).model
    assert model is not None
    assert model.config == {"num_experts_per_tok": 8}


@pytest.mark.parametrize("named", [True, False])
def test_the_models_config_is_read_from_the_servers_hub_cache(
    tree: Tree, tmp_path: Path, named: bool
) -> None:
    repository = tmp_path / "hf" / "hub" / "models--org--name"
    snapshot_dir = repository / "snapshots" / "abc123"
    snapshot_dir.mkdir(parents=True)
    (snapshot_dir / "config.json").write_text('{"top_k": 8}')
    if named:
        (repository / "snapshots" / "older").mkdir()
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("abc123")
    env = {"PYTHONPATH": str(tree.site), "HF_HOME": str(tmp_path / "hf")}
    model = tree.files.survey(tree.request(model="org/name", env=env)).model
    assert model is not None
    assert (model.revision, model.config) == ("abc123", {"top_k": 8})


@pytest.mark.parametrize("model", ["org/name", "/no/such/folder"])
def test_a_model_that_is_not_there_is_a_problem_not_an_error(tree: Tree, tmp_path: Path, model: str) -> None:
    env = {"PYTHONPATH": str(tree.site), "HF_HUB_CACHE": str(tmp_path)}
    found = tree.files.survey(tree.request(model=model, env=env)).model
    assert found is not None
    assert found.config is None
    assert found.problem
