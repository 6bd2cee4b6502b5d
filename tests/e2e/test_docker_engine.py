"""The three ways to patch a container, and its adoption, on a real docker engine, where one answers.

DOCKER_TEST_HOST: where it does (``unix:///…/docker.sock``). It needs no registry: the image is made of this
interpreter and its libraries. A stand-in serves in it.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_world import CASE, RECIPE
from tests.support.engine_tree import FILES
from tests.support.served import Served
from tests.support.serving import STANDIN, Standin, free_port

PROGRAM = shutil.which("docker") or "docker"
WHERE = os.environ.get("DOCKER_TEST_HOST", "")
NAME = "oeactl-test"
IMAGE = "oeactl-test-engine:1"
SITE = "/opt/site"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not WHERE, reason="DOCKER_TEST_HOST names no docker engine"),
]


def docker(*words: str, data: bytes = b"") -> str:
    argv = [PROGRAM, "--host", WHERE, *words]
    done = subprocess.run(argv, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def libraries(path: Path) -> set[Path]:
    """The shared libraries that a program or library needs."""
    text = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    return {Path(word) for word in text.split() if word.startswith("/")}


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """This interpreter, a shell, the stand-in server, and an engine tree of it."""
    base, stdlib = Path(sys.base_prefix), Path(sysconfig.get_path("stdlib"))
    python = Path(sys.executable).resolve()
    programs = [python, *(Path(str(shutil.which(name))).resolve() for name in ("sh", "cat"))]
    needed = {one for path in (*programs, *stdlib.glob("lib-dynload/*.so")) for one in libraries(path)}
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:

        def skip(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
            parts = Path(member.name).parts
            return None if {"site-packages", "test", "__pycache__", "idlelib"} & set(parts) else member

        archive.add(stdlib, arcname=str(stdlib), filter=skip)
        for path in {*programs, *needed}:
            archive.add(path.resolve(), arcname=str(path))
        for name, target in (
            ("/usr/bin/python3", python),
            ("/bin/sh", programs[1]),
            ("/bin/cat", programs[2]),
        ):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, str(target)
            archive.addfile(link)
        for name, data in {**{f"{SITE}/{path}": text for path, text in FILES.items()},
                           "/opt/server.py": STANDIN.read_bytes(), "/tmp/.keep": b""}.items():  # fmt: skip
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    env = f"ENV PATH=/usr/bin:/bin PYTHONPATH={SITE} PYTHONHOME={base}"
    docker("import", "-c", env, "-", IMAGE, data=stream.getvalue())
    yield IMAGE
    docker("rmi", IMAGE)


@pytest.fixture
def place(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {PROGRAM} --host {WHERE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    recipe = tmp_path / "recipes" / "note" / "cases" / "one"
    recipe.mkdir(parents=True)
    (recipe.parents[1] / "recipe.yaml").write_text(RECIPE)
    (recipe / "case.yaml").write_text(CASE)
    (recipe / "before.py").write_text("")
    (tmp_path / "hosts.yaml").write_text("default_host: '@local'\n")
    standin = Standin(tmp_path, free_port())
    one = Served(folder=tmp_path, standin=standin, tree=None, capsys=capsys)  # type: ignore[arg-type]
    docker(
        "run", "-d", "--name", NAME, "--network", "host", "--ipc", "host", "--shm-size", "1g",
        "--restart", "always", "-v", f"{tmp_path}:/data:ro", "-e", "HF_TOKEN=hf_very_secret",
        "--label", "owner=oeactl-test", image,
        "python3", "/opt/server.py", "--port", str(standin.port), "--workers", "plain",
    )  # fmt: skip
    try:
        yield one
    finally:
        for name in docker("ps", "-a", "-q", "--filter", "label=owner=oeactl-test").split():
            docker("rm", "-f", name)


def inspect() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(docker("inspect", "--type", "container", NAME))[0]
    return found


def router() -> str:
    return docker("exec", NAME, "cat", f"{SITE}/sglang/srt/layers/moe/topk.py")


def made_with(found: dict[str, Any]) -> dict[str, Any]:
    """Its arguments, without what docker gives each container and what oeactl adds."""
    own = ("Mounts", "MaskedPaths", "ReadonlyPaths")
    host = {key: value for key, value in found["HostConfig"].items() if key not in own}
    config = {key: found["Config"][key] for key in ("Env", "WorkingDir", "User", "Image")}
    return {"host": host, "config": config, "image": found["Image"]}


@pytest.mark.parametrize("mode", ["inplace", "overlay", "prelude"])
def test_an_adopted_container_is_patched_and_comes_back_as_it_was(place: Served, mode: str) -> None:
    owned, before = inspect(), router()
    place.oeactl("adopt", "--container", NAME, "--yes")
    assert "hf_very_secret" not in (place.folder / "hosts.yaml").read_text()
    text = (place.folder / "hosts.yaml").read_text()
    (place.folder / "hosts.yaml").write_text(
        text.replace("manager: docker", f"manager: docker\n      patch_mode: {mode}")
    )
    assert place.oeactl("patch", "--recipe", "note", "--yes")["live"] == "restarted"
    assert "NOTED" in router() and made_with(inspect()) == made_with(owned)
    found = place.oeactl("status")
    assert found["agrees"] and found["patch_mode"] == mode
    assert (inspect()["Id"] == owned["Id"]) == (mode == "inplace")
    place.oeactl("revert", "--yes")
    assert inspect()["Id"] == owned["Id"] and router() == before and made_with(inspect()) == made_with(owned)
    place.oeactl("stop", "--yes")
    docker("rm", NAME)
    place.oeactl("start")
    assert made_with(inspect()) == made_with(owned) and inspect()["Args"] == owned["Args"]
