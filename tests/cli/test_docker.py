"""A server in a container, by a stand-in for docker: begun, watched, patched in place, and made anew."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker_world import IMAGE, NAME, NAMESPACES, RECIPE, DockerWorld, docker_world
from tests.support.engine_tree import ATTENTION, ORIGINAL, ROUTER
from tests.support.patience import until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not NAMESPACES, reason="mount namespaces are not to be had here"),
]


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerWorld]:
    with docker_world(tmp_path, capsys, monkeypatch) as world:
        world.make()
        yield world


def made_anew(place: DockerWorld, *args: str, flags: tuple[str, ...] = ()) -> None:
    """``docker rm`` and ``docker run`` by its owner."""
    place.docker("stop", "-t", "5", NAME)
    place.docker("rm", NAME)
    place.make(*args, flags=flags)


def environment(pid: int) -> dict[str, str]:
    items = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return dict(item.split("=", 1) for item in items)


def test_it_is_begun_and_ended_by_docker_with_its_own_arguments(place: DockerWorld) -> None:
    made_anew(place, "--workers", "plain,plain")
    begun = place.oeactl("start")
    assert environment(begun["pid"])["OWN"] == "argument"
    found = place.oeactl("status")
    told = (found["server"]["image"], found["server"]["image_digest"])
    assert told == (IMAGE, f"{IMAGE.partition(':')[0]}@sha256:{'a' * 63}d")
    assert found["agrees"] and found["server"]["recorded"]["pid"] == begun["pid"]
    assert [worker["role"] for worker in found["server"]["workers"]] == ["tp0", "tp1"]
    assert any("fired up" in line for line in place.oeactl("logs")["lines"])
    assert place.oeactl("start")["status"] == "running already"
    assert place.oeactl("restart", "--yes")["pid"] != begun["pid"]
    place.oeactl("stop", "--yes")
    assert b"not running" in place.docker("exec", "-i", NAME, "true", fine=False)
    assert place.oeactl("status")["agrees"] and place.kept() == []


def test_a_patch_in_place_lasts_over_a_stop_and_a_revert_gives_the_bytes(place: DockerWorld) -> None:
    place.oeactl("start")
    assert place.oeactl("patch", "--recipe", "note", "--yes")["live"] == "restarted"
    assert b"NOTED" in place.file(ROUTER)
    assert place.file(ATTENTION) == ORIGINAL[ATTENTION]
    place.oeactl("stop", "--yes")
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "does not run, and its files are inside" in error["what"] and error["hint"].startswith(
        "oeactl start"
    )
    assert [layer["recipe"] for layer in place.oeactl("status", code=7)["layers"]] == ["note"]
    place.oeactl("start")
    assert place.oeactl("patch", "--recipe", "note")["status"] == "already applied"
    place.oeactl("revert", "--yes")
    assert place.contents() == ORIGINAL
    place.oeactl("stop", "--yes")
    assert place.kept() == []


def test_a_container_made_anew_is_noticed_and_the_patch_is_said_to_be_gone(place: DockerWorld) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    place.oeactl("stop", "--yes")
    made_anew(place)
    place.oeactl("start")
    found = place.oeactl("status", code=7)
    (trouble,) = found["troubles"]
    assert trouble["what"].startswith("note: gone with the container, which was made anew")
    assert "oeactl patch" in trouble["remedy"] and "oeactl revert" in trouble["remedy"]
    assert place.oeactl("revert")["status"] == "nothing to revert"
    assert place.oeactl("status")["agrees"]


def test_a_patch_again_closes_the_record_of_the_lost_one(place: DockerWorld) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    made_anew(place)
    place.docker("start", NAME)
    until(place.place.standin.answers)
    assert place.oeactl("status", code=7)["server"]["foreign"]
    assert place.oeactl("patch", "--recipe", "note", "--yes")["status"] == "patched"
    assert place.oeactl("status")["agrees"]


def test_a_restart_policy_that_loops_is_stopped_after_one_failure(place: DockerWorld) -> None:
    made_anew(place, "--slow-start", "0.5", "--die", "oom", flags=("--restart", "always"))
    error = place.oeactl("start", code=4)["error"]
    assert "something starts it again" in error["what"]
    assert any("CUDA out of memory" in line for line in error["details"])
    assert place.inspect()["State"]["Status"] == "exited"


def test_a_death_and_a_container_that_is_not_there_are_told(place: DockerWorld) -> None:
    made_anew(place, "--slow-start", "0.5", "--die", "argument")
    error = place.oeactl("start", code=4)["error"]
    assert any("unrecognized arguments" in line for line in error["details"])
    place.docker("rm", NAME)
    error = place.oeactl("status", code=2)["error"]
    assert f"there is no container {NAME}" in error["what"]
    rows = place.oeactl("doctor", code=2)["checks"]
    assert any(row["state"] == "bad" and "no container" in row["what"] for row in rows)


def test_a_change_whose_container_dies_is_put_back_though_nothing_can_run_inside(place: DockerWorld) -> None:
    path = place.place.tree.path(ROUTER)
    check = f"grep -q NOTED {path} && {{ echo 'RuntimeError: patched badly'; sleep 0.5; exit 3; }}"
    place.docker("rm", NAME)
    place.make(argv=["sh", "-c", f"{check}; exec {shlex.join(place.serve())}"])
    place.oeactl("start")
    before = place.facts(ROUTER)
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=6)["error"]
    assert "the files are as they were, and the server is back and healthy" in error["what"]
    assert any("patched badly" in line for line in error["details"])
    assert place.contents() == ORIGINAL
    after = place.facts(ROUTER)
    assert (after.mode, after.uid, after.mtime > before.mtime) == (before.mode, before.uid, True)
    found = place.oeactl("status")
    assert found["agrees"] and found["layers"] == [] and found["server"]["healthy"]
    assert place.oeactl("patch", "--recipe", "note", "--no-restart")["status"] == "patched"
    place.oeactl("revert", "--no-restart")
    assert place.contents() == ORIGINAL


def test_a_recipe_that_changes_the_launch_is_refused(place: DockerWorld) -> None:
    path = place.folder / "recipes" / "note" / "recipe.yaml"
    path.write_text(RECIPE + "launch: {args: [--max-running-requests, '8']}\n")
    place.oeactl("start")
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "a container keeps what it was made with" in json.dumps(error)


def test_a_container_that_its_stop_removes_is_neither_patched_nor_stopped_for_good(
    place: DockerWorld,
) -> None:
    made_anew(place, flags=("--rm",))
    place.docker("start", NAME)
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "--rm" in error["what"] and place.contents() == ORIGINAL
    error = place.oeactl("restart", "--yes", code=3)["error"]
    assert "nothing here could make it again" in error["what"] and "adopt --container" in error["hint"]
    assert place.inspect()["State"]["Running"]


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker client is installed here")
@pytest.mark.parametrize(
    "words",
    [
        "inspect --type container glm5",
        "start glm5",
        "ps -a -q --no-trunc --filter label=com.docker.compose.service",
        "create --pull never --name new --label a=b --mount type=bind,target=/a,source=/b,readonly x",
        "rename glm5 glm5.oeactl-0123456789ab",
        "update --restart=no glm5",
        "rm glm5",
        "diff glm5",
        "stop -t 5 glm5",
        "inspect --type image lab/sglang:v1",
        "run -d --name glm5 --network host -e A=b --gpus all lab/sglang:v1 python3",
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
