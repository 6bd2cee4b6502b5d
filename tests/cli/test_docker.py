"""A server in a container, by a stand-in for docker: begun, watched, patched in place, and made anew."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_tree import ATTENTION, FILES, ROUTER
from tests.support.served import Served, served
from tests.support.serving import STANDIN

pytestmark = pytest.mark.timeout(120)
DOCKER = Path(__file__).parents[1] / "support" / "standin_docker.py"
NAME = "glm5"
RECIPE = """\
id: note
revision: 1
title: One line more
engine: {package: sglang}
files:
  - module: sglang.srt.layers.moe.topk
    edits:
      - {id: mode, op: append, code: "NOTED = True"}
"""
CASE = "module: sglang.srt.layers.moe.topk\nrefuses: nothing\n"


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    program, folder = tmp_path / "bin" / "docker", tmp_path / "docker"
    folder.mkdir()
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexport STANDIN_DOCKER={folder}\nexec {sys.executable} {DOCKER} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    recipe = tmp_path / "recipes" / "note"
    (recipe / "cases" / "one").mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "cases" / "one" / "case.yaml").write_text(CASE)
    (recipe / "cases" / "one" / "before.py").write_text("")
    one = served(tmp_path, capsys)
    one.write({**one.entry(manager="docker", container=NAME, argv=None, log=None, cwd=None)})
    make(one)
    yield one
    subprocess.run([str(program), "stop", "-t", "1", NAME], check=False, capture_output=True)
    one.standin.clear()


def make(place: Served, *args: str, identity: str = "1" * 64, restart: str = "no") -> None:
    """``docker run`` by its owner: a container with its image's files."""
    image = {
        "id": identity,
        "argv": [sys.executable, str(STANDIN), "--port", str(place.standin.port), *args],
        "env": {"PYTHONPATH": str(place.tree.site), "HOME": str(place.folder / "inside"), "OWN": "argument"},
        "cwd": str(place.folder),
        "restart": restart,
        "network": "bridge",
    }
    (place.folder / "docker" / f"{NAME}.json").write_text(json.dumps(image))
    for name, data in FILES.items():
        (place.tree.site / name).write_bytes(data)
    for path in place.standin.state_dir.glob("*"):
        if not path.name.startswith("docker-"):  # what is inside goes with the container
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def docker(place: Served, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(place.folder / "bin" / "docker"), *words], capture_output=True, text=True, check=False
    )


def outside(place: Served) -> list[Path]:
    """What the docker host keeps."""
    return [path for path in place.standin.state_dir.glob("docker-*/*") if path.is_file()]


def environment(pid: int) -> dict[str, str]:
    items = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(item.split("=", 1) for item in items)


def test_it_is_begun_and_ended_by_docker_with_its_own_arguments(place: Served) -> None:
    make(place, "--workers", "plain,plain")
    begun = place.oeactl("start")
    assert environment(begun["pid"])["OWN"] == "argument"
    found = place.oeactl("status")
    assert found["agrees"] and found["server"]["recorded"]["pid"] == begun["pid"]
    assert [worker["role"] for worker in found["server"]["workers"]] == ["tp0", "tp1"]
    assert any("fired up" in line for line in place.oeactl("logs")["lines"])
    assert place.oeactl("start")["status"] == "running already"
    assert place.oeactl("restart", "--yes")["pid"] != begun["pid"]
    place.oeactl("stop", "--yes")
    assert "not running" in docker(place, "exec", "-i", NAME, "true").stderr
    assert place.oeactl("status")["agrees"] and outside(place) == []


def test_a_patch_in_place_lasts_over_a_stop_and_a_revert_gives_the_bytes(place: Served) -> None:
    original = place.tree.contents()
    place.oeactl("start")
    assert place.oeactl("patch", "--recipe", "note", "--yes")["live"] == "restarted"
    assert b"NOTED" in place.tree.path(ROUTER).read_bytes()
    assert place.tree.path(ATTENTION).read_bytes() == original[ATTENTION]
    place.oeactl("stop", "--yes")
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "does not run, and its files are inside" in error["what"] and error["hint"].startswith(
        "oeactl start"
    )
    assert [layer["recipe"] for layer in place.oeactl("status", code=7)["layers"]] == ["note"]
    place.oeactl("start")
    assert place.oeactl("patch", "--recipe", "note")["status"] == "already applied"
    place.oeactl("revert", "--yes")
    assert place.tree.contents() == original
    place.oeactl("stop", "--yes")
    assert outside(place) == []


def test_a_container_made_anew_is_noticed_and_the_patch_is_said_to_be_gone(place: Served) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    place.oeactl("stop", "--yes")
    make(place, identity="2" * 64)
    place.oeactl("start")
    found = place.oeactl("status", code=7)
    (trouble,) = found["troubles"]
    assert trouble["what"].startswith("note: gone with the container, which was made anew")
    assert "oeactl patch" in trouble["remedy"] and "oeactl revert" in trouble["remedy"]
    assert place.oeactl("revert")["status"] == "nothing to revert"
    assert place.oeactl("status")["agrees"]


def test_a_patch_again_closes_the_record_of_the_lost_one(place: Served) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    docker(place, "stop", "-t", "5", NAME)
    make(place, identity="2" * 64)
    docker(place, "start", NAME)
    assert place.oeactl("status", code=7)["server"]["foreign"]
    time.sleep(0.5)
    assert place.oeactl("patch", "--recipe", "note", "--yes")["status"] == "patched"
    assert place.oeactl("status")["agrees"]


def test_a_restart_policy_that_loops_is_stopped_after_one_failure(place: Served) -> None:
    make(place, "--slow-start", "0.5", "--die", "oom", restart="always")
    error = place.oeactl("start", code=4)["error"]
    assert "something starts it again" in error["what"]
    assert any("CUDA out of memory" in line for line in error["details"])
    assert (
        json.loads(docker(place, "inspect", "--type", "container", NAME).stdout)[0]["State"]["Status"]
        == "exited"
    )


def test_a_death_and_a_container_that_is_not_there_are_told(place: Served) -> None:
    make(place, "--slow-start", "0.5", "--die", "argument")
    error = place.oeactl("start", code=4)["error"]
    assert any("unrecognized arguments" in line for line in error["details"])
    (place.folder / "docker" / f"{NAME}.json").unlink()
    error = place.oeactl("status", code=2)["error"]
    assert f"there is no container {NAME}" in error["what"]
    rows = place.oeactl("doctor", code=2)["checks"]
    assert any(row["state"] == "bad" and "no container" in row["what"] for row in rows)


def test_a_change_whose_container_dies_is_put_back_though_nothing_can_run_inside(place: Served) -> None:
    original = place.tree.contents()
    router = place.tree.path(ROUTER)
    serve = f"exec {sys.executable} {STANDIN} --port {place.standin.port}"
    check = f"grep -q NOTED {router} && {{ echo 'RuntimeError: patched badly'; sleep 0.5; exit 3; }}"
    make(place)
    image = json.loads((place.folder / "docker" / f"{NAME}.json").read_text())
    image["argv"] = ["sh", "-c", f"{check}; {serve}"]
    (place.folder / "docker" / f"{NAME}.json").write_text(json.dumps(image))
    place.oeactl("start")
    before = router.stat()
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=6)["error"]
    assert "the files are as they were, and the server is back and healthy" in error["what"]
    assert any("patched badly" in line for line in error["details"])
    assert place.tree.contents() == original
    after = router.stat()
    assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)
    assert after.st_mtime > before.st_mtime
    found = place.oeactl("status")
    assert found["agrees"] and found["layers"] == [] and found["server"]["healthy"]
    assert place.oeactl("patch", "--recipe", "note", "--no-restart")["status"] == "patched"
    place.oeactl("revert", "--no-restart")
    assert place.tree.contents() == original


def test_a_recipe_that_changes_the_launch_is_refused(place: Served) -> None:
    path = place.folder / "recipes" / "note" / "recipe.yaml"
    path.write_text(RECIPE + "launch: {args: [--max-running-requests, '8']}\n")
    place.oeactl("start")
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "a container keeps what it was made with" in json.dumps(error)


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker client is installed here")
@pytest.mark.parametrize(
    "words",
    [
        "inspect --type container glm5",
        "start glm5",
        "stop -t 5 glm5",
        "logs --tail 5 glm5",
        "logs -f --tail 5 glm5",
        "logs -f --since 2026-01-01T00:00:00Z glm5",
        "cp -a glm5:/a/b -",
        "cp -a - glm5:/a",
        "exec -i glm5 python3 -I -S -c pass",
    ],
)
def test_a_real_docker_client_knows_every_command_that_is_sent(words: str) -> None:
    done = subprocess.run(
        ["docker", "--host", "unix:///nonexistent.sock", *words.split()],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "unknown" not in done.stderr and "Usage" not in done.stderr, done.stderr
