"""Killed at every step of a change of containers: the owner's is never lost, and the next call ends it."""

from __future__ import annotations

import getpass
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.local import open_local
from oeactl.errors import OeactlError
from tests.support.docker_world import NAME, NAMESPACES, DockerWorld, docker_world
from tests.support.engine_tree import ORIGINAL, ROUTER

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not NAMESPACES, reason="mount namespaces are not to be had here"),
]
MOST_STEPS = 40


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerWorld]:
    with docker_world(tmp_path, capsys, monkeypatch) as world:
        nothing = dict.fromkeys(("argv", "log", "cwd", "env"))
        entry = world.place.entry(manager="docker", container=NAME, patch_mode="overlay", **nothing)
        world.place.write(entry)
        world.make(flags=("--restart", "always"))
        yield world


def asked(world: DockerWorld, op: str, **fields: Any) -> Any:
    """One question to an agent of its own on the docker host."""
    outside = {"root": f"/docker/{NAME}", "state_dir": f"{world.place.standin.state_dir}/docker-{NAME}"}
    link = AgentLink(open_local(), python=sys.executable)
    return link.ask(op, container={"name": NAME, "run": [], "env": {}}, **outside, **fields)


def killed_at(world: DockerWorld, step: int, op: str, **fields: Any) -> bool:
    """Ask, the agent killed at ``step``; whether it got that far."""
    try:
        asked(world, op, fault={"at": step, "do": "kill"}, **fields)
    except OeactlError:
        return True
    return False


def never_lost(world: DockerWorld, owned: str) -> None:
    """The owner's container is there, as it was, under its own name or beside it."""
    (name,) = [name for name in world.names() if world.inspect(name)["Id"] == owned]
    assert name in (NAME, f"{NAME}.oeactl-{owned[:12]}") and world.contents(name) == ORIGINAL
    standing = NAME in world.names() and not any(one.endswith("oeactl-new") for one in world.names())
    assert standing or asked(world, "beside.look", data=False)["cut_short"]


def test_putting_files_on_and_taking_them_off_survive_a_kill_at_each_step(place: DockerWorld) -> None:
    owned = place.inspect()["Id"]
    holder = {"user": getpass.getuser(), "host": platform.node(), "pid": os.getpid()}
    off = {
        "operation": "revert-1", "kind": "revert", "files": [], "layers": [], "holder": holder,
        "what": "revert", "lease_s": None, "force": False, "mode": "overlay", "python": sys.executable,
        "engine": place.place.tree.root, "originals": {}, "owners": {},
    }  # fmt: skip
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--no-restart")
    place.oeactl("stop", "--yes")
    for step in range(MOST_STEPS):
        died = killed_at(place, step, "beside.recover")
        never_lost(place, owned)
        asked(place, "beside.recover")
        never_lost(place, owned)
        assert b"NOTED" in place.file(ROUTER) and len(place.names()) == 2
        assert asked(place, "beside.look", data=False)["mounted"]
        if step == 2:  # once with the words of a person
            found = place.oeactl("status", code=7)
            assert [one["what"] for one in found["troubles"]] == ["note is on disk and no server runs"]
        died = killed_at(place, step, "beside.write", **off) or died
        never_lost(place, owned)
        place.oeactl("revert")
        never_lost(place, owned)
        assert place.names() == [NAME] and place.contents() == ORIGINAL
        assert place.inspect()["HostConfig"]["RestartPolicy"]["Name"] == "always"
        if not died:
            assert step > 5
            return
        place.oeactl("start")
        place.oeactl("patch", "--recipe", "note", "--no-restart")
        place.oeactl("stop", "--yes")
    raise AssertionError("it does not end")


def test_a_change_of_containers_that_was_cut_short_is_said_and_the_next_command_ends_it(
    place: DockerWorld,
) -> None:
    place.oeactl("start")
    place.oeactl("patch", "--recipe", "note", "--no-restart")
    place.oeactl("stop", "--yes")
    step = 0
    while killed_at(place, step, "beside.recover") and NAME in place.names():
        asked(place, "beside.recover")
        place.oeactl("revert")
        place.oeactl("start")
        place.oeactl("patch", "--recipe", "note", "--no-restart")
        place.oeactl("stop", "--yes")
        step += 1
    assert NAME not in place.names(), "no step leaves it without its name: nothing was tested"
    (trouble, *_) = place.oeactl("status", code=7)["troubles"]
    assert "change of containers" in trouble["what"] and "was cut short" in trouble["what"]
    assert "oeactl revert" in trouble["remedy"]
    place.oeactl("start")
    assert b"NOTED" in place.file(ROUTER) and place.oeactl("status")["agrees"]
    place.oeactl("revert", "--yes")
    assert place.names() == [NAME] and place.contents() == ORIGINAL
