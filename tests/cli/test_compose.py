"""A compose service as the server, by a stand-in for docker: begun, watched, patched in place, made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker_world import NAME, NAMESPACES, DockerWorld, docker_world
from tests.support.engine_tree import ATTENTION, ORIGINAL, ROUTER

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not NAMESPACES, reason="mount namespaces are not to be had here"),
]


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerWorld]:
    with docker_world(tmp_path, capsys, monkeypatch) as world:
        meant(world, monkeypatch)
        yield world


def meant(world: DockerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """hosts.yaml names the service; HF_TOKEN, which its file leaves open, is a variable of ours."""
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    keys = {"compose": [str(world.compose())], "service": "sglang", "env": {"HF_TOKEN": "${HF_TOKEN}"}}
    nothing = dict.fromkeys(("argv", "log", "cwd"))
    world.place.write(world.place.entry(manager="compose", **keys, **nothing))


def test_a_service_is_made_begun_and_ended_as_its_file_says(place: DockerWorld) -> None:
    assert place.oeactl("status")["server"]["recorded"] is None
    begun = place.oeactl("start")
    config = place.inspect()["Config"]
    assert "HF_TOKEN=hf_very_secret" in config["Env"]
    assert config["Labels"]["com.docker.compose.service"] == "sglang"
    found = place.oeactl("status")
    assert found["agrees"] and found["server"]["recorded"]["pid"] == begun["pid"]
    assert any("fired up" in line for line in place.oeactl("logs")["lines"])
    assert place.oeactl("restart", "--yes")["pid"] != begun["pid"]
    place.oeactl("stop", "--yes")
    assert place.inspect()["State"]["Status"] == "exited" and place.kept() == []


def test_a_patch_in_place_is_not_lost_by_a_start_though_the_file_changed(place: DockerWorld) -> None:
    place.oeactl("start")
    identity = place.inspect()["Id"]
    place.oeactl("patch", "--recipe", "note", "--yes")
    assert b"NOTED" in place.file(ROUTER) and place.file(ATTENTION) == ORIGINAL[ATTENTION]
    place.compose("--workers", "plain")  # compose would make it anew now
    place.oeactl("restart", "--yes")
    assert place.inspect()["Id"] == identity and b"NOTED" in place.file(ROUTER)
    assert place.oeactl("status")["agrees"]
    place.oeactl("revert", "--yes")
    assert place.contents() == ORIGINAL
    place.oeactl("restart", "--yes")
    assert place.inspect()["Id"] != identity, "without a recipe in it, what the file says counts"


@pytest.mark.e2e
def test_a_service_that_its_owner_made_anew_is_noticed(place: DockerWorld) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--yes")
    path = place.compose("--workers", "plain")
    place.docker("compose", "-f", str(path), "up", "-d", "sglang")
    (trouble, *_) = place.oeactl("status", code=7)["troubles"]
    assert trouble["what"].startswith("note: gone with the container, which was made anew")
    assert place.oeactl("revert")["status"] == "nothing to revert"
    assert place.file(ROUTER) == ORIGINAL[ROUTER]


def test_what_compose_refuses_is_told(place: DockerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.folder / "compose.yaml").write_text("services: {other: {image: x}}\n")
    error = place.oeactl("start", code=2)["error"]
    assert "docker compose does not tell of sglang" in error["what"]
    assert error["details"] == ["no such service: sglang"]
    place.compose()
    error = place.oeactl("patch", "--recipe", "note", "--yes", code=3)["error"]
    assert "does not run" in error["what"] and error["hint"].startswith("oeactl start")
    place.docker("update", "--restart=no", NAME, fine=False)
    monkeypatch.delenv("HF_TOKEN")
    assert "HF_TOKEN" in place.oeactl("status", code=2)["error"]["what"]


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ("{compose: [c.yaml], service: x}", "must be absolute paths"),
        ("{compose: [/c.yaml]}", "lacks 'service'"),
        (
            "{compose: [/c.yaml], service: x, container: y}",
            "'hosts.@local.server.container' is not of manager",
        ),
        ("{compose: [/c.yaml], service: 'x y'}", "cannot be 'x y'"),
    ],
)
def test_a_wrong_entry_is_named(place: DockerWorld, server: str, what: str) -> None:
    text = server.replace("{", "{manager: compose, ", 1)
    (place.folder / "hosts.yaml").write_text(f"hosts: {{'@local': {{server: {text}}}}}\n")
    assert what in place.oeactl("status", "--host", "@local", code=2)["error"]["what"]
