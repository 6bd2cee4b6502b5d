"""Patches kept beside a container: mounted over its files, or put in place by a start script; off again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_world import CASE, IMAGE, NAME, NAMESPACES, RECIPE, DockerWorld, docker_world
from tests.support.engine_tree import ATTENTION, ORIGINAL, ROUTER

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not NAMESPACES, reason="mount namespaces are not to be had here"),
]
SECOND = RECIPE.replace("id: note", "id: second").replace("NOTED", "TWICE")


@pytest.fixture(params=["overlay", "prelude"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> Iterator[DockerWorld]:
    with docker_world(tmp_path, capsys, monkeypatch) as world:
        means(world, mode)
        world.make(
            "--workers", "plain", flags=("--restart", "always", "--ipc", "host", "--label", "owner=ann")
        )
        folder = tmp_path / "recipes" / "second" / "cases" / "one"
        folder.mkdir(parents=True)
        (folder / "case.yaml").write_text(CASE)
        (folder / "before.py").write_text("")
        (folder.parents[1] / "recipe.yaml").write_text(SECOND)
        yield world


def means(world: DockerWorld, mode: str) -> None:
    nothing = dict.fromkeys(("argv", "log", "cwd", "env"))
    world.place.write(world.place.entry(manager="docker", container=NAME, patch_mode=mode, **nothing))


def like(found: dict[str, Any]) -> dict[str, Any]:
    """What a container was made with, without what oeactl adds and without its name."""
    host = {key: value for key, value in found["HostConfig"].items() if key != "Mounts"}
    config = {key: found["Config"][key] for key in ("Env", "WorkingDir", "Image")}
    return {"host": host, "config": config, "owner": found["Config"]["Labels"]["owner"]}


def test_the_owners_container_is_kept_and_comes_back_as_it_was(place: DockerWorld, mode: str) -> None:
    place.oeactl("start")
    owned = place.inspect()
    (place.folder / "docker" / "argv").unlink()
    assert place.oeactl("patch", "--recipe", "note", "--yes")["live"] == "restarted"
    sent = (place.folder / "docker" / "argv").read_text()
    assert "'create'" in sent and "hf_very_secret" not in sent, "a secret is in no command line"
    patched = place.inspect()
    assert patched["Id"] != owned["Id"] and like(patched) == like(owned)
    assert b"NOTED" in place.file(ROUTER) and place.file(ATTENTION) == ORIGINAL[ATTENTION]
    aside = f"{NAME}.oeactl-{owned['Id'][:12]}"
    assert place.names() == [NAME, aside] and place.contents(aside) == ORIGINAL
    assert place.inspect(aside)["HostConfig"]["RestartPolicy"]["Name"] == "no"
    found = place.oeactl("status")
    assert found["agrees"] and found["patch_mode"] == mode
    assert place.oeactl("patch", "--recipe", "note")["status"] == "already applied"
    assert place.oeactl("restart", "--yes")["status"] == "restarted"
    assert place.inspect()["Id"] == patched["Id"] and b"NOTED" in place.file(ROUTER)

    place.oeactl("revert", "--yes")
    back = place.inspect()
    assert place.names() == [NAME] and back["Id"] == owned["Id"]
    assert like(back) == like(owned) and place.contents() == ORIGINAL
    assert place.oeactl("status")["agrees"]
    place.oeactl("stop", "--yes")
    assert place.kept() == [], "nothing is left on the docker host"


@pytest.mark.e2e
def test_recipes_on_one_file_come_and_go_one_by_one(place: DockerWorld) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    place.oeactl("patch", "--recipe", "second", "--yes")
    assert b"NOTED" in place.file(ROUTER) and b"TWICE" in place.file(ROUTER)
    assert len(place.names()) == 2, "the owner's is kept once"
    place.oeactl("revert", "--recipe", "note", "--yes")
    assert b"NOTED" not in place.file(ROUTER) and b"TWICE" in place.file(ROUTER)
    place.oeactl("stop", "--yes")
    assert place.oeactl("revert")["status"] == "reverted"
    assert place.names() == [NAME] and place.contents() == ORIGINAL
    assert place.inspect()["HostConfig"]["RestartPolicy"]["Name"] == "always"


@pytest.mark.e2e
def test_without_a_restart_it_is_said_and_the_next_one_brings_it(place: DockerWorld, mode: str) -> None:
    place.oeactl("start")
    owned = place.inspect()["Id"]
    assert place.oeactl("patch", "--recipe", "note", "--no-restart")["live"] == "old code"
    assert place.inspect()["Id"] == owned and place.file(ROUTER) == ORIGINAL[ROUTER]
    (trouble,) = place.oeactl("status", code=7)["troubles"]
    assert trouble["what"] == f"note is kept beside the container ({mode}), which was made without it"
    assert "oeactl restart" in trouble["remedy"]
    place.oeactl("restart", "--yes")
    assert b"NOTED" in place.file(ROUTER) and place.oeactl("status")["agrees"]
    place.oeactl("revert", "--no-restart")
    (trouble,) = place.oeactl("status", code=7)["troubles"]
    assert "still has files of a recipe that was taken off" in trouble["what"]
    place.oeactl("restart", "--yes")
    assert place.inspect()["Id"] == owned and place.contents() == ORIGINAL


@pytest.mark.e2e
def test_a_change_that_does_not_import_touches_nothing(place: DockerWorld) -> None:
    place.oeactl("start")
    owned = place.inspect()
    path = place.folder / "recipes" / "note" / "recipe.yaml"
    path.write_text(RECIPE.replace("NOTED = True", "raise RuntimeError('not this way')"))
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "does not import" in error["what"] and any("not this way" in line for line in error["details"])
    assert place.inspect()["Id"] == owned["Id"] and place.inspect()["State"] == owned["State"]
    assert place.oeactl("status")["agrees"] and place.names() == [NAME]


@pytest.mark.e2e
def test_a_change_whose_container_dies_is_rolled_back_to_the_owners_container(place: DockerWorld) -> None:
    path = place.place.tree.path(ROUTER)
    check = f"grep -q NOTED {path} && {{ echo 'RuntimeError: patched badly'; sleep 0.5; exit 3; }}"
    place.docker("rm", NAME)
    place.make(argv=["sh", "-c", f"{check}; exec {shlex.join(place.serve())}"])
    place.oeactl("start")
    owned = place.inspect()["Id"]
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=6)["error"]
    assert "the files are as they were, and the server is back and healthy" in error["what"]
    assert any("patched badly" in line for line in error["details"])
    assert place.inspect()["Id"] == owned and place.names() == [NAME]
    assert place.contents() == ORIGINAL and place.oeactl("status")["agrees"]


@pytest.mark.e2e
def test_a_container_its_owner_made_anew_gets_it_again_or_is_left_alone(place: DockerWorld) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    place.docker("update", "--restart=no", NAME)
    place.docker("stop", "-t", "5", NAME)
    place.docker("rm", NAME)
    place.make(flags=("--label", "owner=bob"))
    place.docker("start", NAME)
    bobs = place.inspect()["Id"]
    (trouble, *_) = place.oeactl("status", code=7)["troubles"]
    assert "was made without it" in trouble["what"]
    place.oeactl("restart", "--yes")
    assert b"NOTED" in place.file(ROUTER) and place.inspect()["Config"]["Labels"]["owner"] == "bob"
    place.oeactl("revert", "--yes")
    assert place.inspect()["Id"] == bobs and place.contents() == ORIGINAL


@pytest.mark.e2e
def test_another_image_is_not_given_files_made_for_the_old_one(place: DockerWorld) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    place.docker("update", "--restart=no", NAME)
    place.docker("stop", "-t", "5", NAME)
    place.docker("rm", NAME)
    place.image(identity="b", **{"srt/layers/moe/topk.py": b"def route():\n    return 'anew'\n"})
    place.make(flags=("--label", "owner=ann"))
    error = place.oeactl("start", code=3)["error"]
    assert "is another one than the change was made for" in error["what"] and "revert" in error["hint"]
    place.docker("start", NAME)
    (trouble, *_) = place.oeactl("status", code=7)["troubles"]
    assert "the engine was upgraded" in trouble["what"]
    assert place.oeactl("revert", "--yes")["status"] == "gone by upgrade"
    assert b"anew" in place.file(ROUTER)


@pytest.mark.e2e
def test_an_engine_that_was_changed_inside_is_not_made_anew(place: DockerWorld) -> None:
    place.oeactl("start")
    other = place.place.tree.path(ATTENTION)
    place.docker("exec", "-i", NAME, "sh", "-c", f"echo 'MODE = 1' >>{other}")
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "was changed inside" in error["what"] and "inplace" in error["hint"]
    assert error["details"] == [str(other)] and place.names() == [NAME]
    place.docker("exec", "-i", NAME, "sh", "-c", f"rm {other}")
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert place.names() == [NAME] and place.oeactl("status")["layers"] == []


@pytest.mark.e2e
def test_modes_are_not_mixed_and_what_is_on_governs(place: DockerWorld, mode: str) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    means(place, "inplace")
    assert place.oeactl("status")["patch_mode"] == mode
    error = place.oeactl("patch", "--recipe", "second", "--yes", code=3)["error"]
    assert f"by patch_mode {mode}, not inplace" in error["what"]
    place.oeactl("revert", "--yes")
    assert place.contents() == ORIGINAL and place.names() == [NAME]
    assert place.oeactl("status")["patch_mode"] == "inplace"


@pytest.mark.e2e
def test_a_container_that_its_stop_removes_is_refused(place: DockerWorld) -> None:
    place.docker("rm", NAME)
    place.make(flags=("--rm",))
    place.docker("start", NAME)
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "--rm" in error["what"] and place.names() == [NAME]


@pytest.mark.e2e
def test_a_compose_service_gets_the_files_by_a_second_file(place: DockerWorld, mode: str) -> None:
    place.docker("rm", NAME)
    path = place.compose(environment={**place.variables(), "PRICE": "$$5"})
    before = path.read_bytes()
    nothing = dict.fromkeys(("argv", "log", "cwd", "env"))
    keys = {"compose": [str(path)], "service": "sglang", "patch_mode": mode}
    place.place.write(place.place.entry(manager="compose", **keys, **nothing))
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    assert b"NOTED" in place.file(ROUTER) and "PRICE=$5" in place.inspect()["Config"]["Env"]
    assert place.oeactl("status")["agrees"] and path.read_bytes() == before
    place.docker("compose", "-f", str(path), "up", "-d", "sglang")
    (trouble, *_) = place.oeactl("status", code=7)["troubles"]
    assert "was made without it" in trouble["what"]
    place.oeactl("restart", "--yes")
    assert b"NOTED" in place.file(ROUTER)
    place.oeactl("revert", "--yes")
    assert place.contents() == ORIGINAL and "oeactl.files" not in place.inspect()["Config"]["Labels"]
    place.oeactl("stop", "--yes")
    assert place.kept() == []


@pytest.mark.e2e
def test_the_interpreter_of_a_start_script_becomes_the_engine_itself(place: DockerWorld, mode: str) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    pid = place.inspect()["State"]["Pid"]
    words = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    assert words == place.serve("--workers", "plain") and words[0] == sys.executable
    assert place.inspect()["Config"]["Image"] == IMAGE
