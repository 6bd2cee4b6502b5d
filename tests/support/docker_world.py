"""A project whose one host, this machine, has a server in a container, by the stand-in for docker.

Owns: the image (an engine tree and a state folder), the container, and looks at it that do not go through the
code under test. Containers need mount namespaces: ``NAMESPACES`` says whether this machine gives them.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.engine_tree import ATTENTION, FILES, ROUTER
from tests.support.served import Served, served
from tests.support.serving import STANDIN

NAME = "glm5"
IMAGE = "lab/sglang:v1"
CHECKOUT = Path(__file__).parents[2]
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


def _namespaces() -> bool:
    unshare = shutil.which("unshare")
    words = [str(unshare), "-m" if os.geteuid() == 0 else "-rm", "true"]
    return bool(unshare) and subprocess.run(words, capture_output=True, check=False).returncode == 0


NAMESPACES = _namespaces()


@dataclass(frozen=True, kw_only=True)
class DockerWorld:
    """place: the project and the server's port. Containers are made by their owner, through docker."""

    place: Served

    @property
    def folder(self) -> Path:
        return self.place.folder

    def oeactl(self, *words: str, code: int = 0) -> Any:
        return self.place.oeactl(*words, code=code)

    def docker(self, *words: str, data: bytes = b"", fine: bool = True) -> bytes:
        """What docker prints; its stderr where it may fail."""
        program = str(self.folder / "bin" / "docker")
        done = subprocess.run([program, *words], capture_output=True, input=data, check=False)
        assert not fine or done.returncode == 0, done.stderr.decode()
        return done.stdout if fine else done.stderr

    def image(self, name: str = IMAGE, identity: str = "a", **files: bytes) -> None:
        """An image with the engine's files, some of them others."""
        kept = self.folder / "images" / identity
        for path, data in {**FILES, **{f"sglang/{path}": data for path, data in files.items()}}.items():
            (kept / "site" / path).parent.mkdir(parents=True, exist_ok=True)
            (kept / "site" / path).write_bytes(data)
        (kept / "state").mkdir()
        (kept / "opt").mkdir()
        nothing = dict.fromkeys(("Cmd", "Entrypoint", "Labels"))
        config = {**nothing, "Env": ["PATH=/usr/bin:/bin", "OF_THE_IMAGE=1"], "WorkingDir": ""}
        tree, state = str(self.place.tree.site), str(self.place.standin.state_dir)
        document = {
            "Id": f"sha256:{identity * 64}",
            "RepoTags": [name],
            "RepoDigests": [f"{name.partition(':')[0]}@sha256:{identity * 63}d"],
            "Config": config,
            "Folders": {tree: str(kept / "site"), state: str(kept / "state"), "/opt": str(kept / "opt")},
        }
        for other in (self.folder / "docker" / "images").glob("*.json"):
            told = json.loads(other.read_text())
            told["RepoTags"] = [tag for tag in told["RepoTags"] if tag != name]
            other.write_text(json.dumps(told))
        (self.folder / "docker" / "images" / f"{identity}.json").write_text(json.dumps(document))

    def variables(self) -> dict[str, str]:
        """What the container's owner gives it."""
        return {
            "PYTHONPATH": str(self.place.tree.site),
            "HOME": str(self.folder / "inside"),
            "OWN": "argument",
            "HF_TOKEN": "hf_very_secret",
        }

    def serve(self, *args: str) -> list[str]:
        """What runs in it."""
        return [sys.executable, str(STANDIN), "--port", str(self.place.standin.port), *args]

    def make(self, *args: str, flags: tuple[str, ...] = (), argv: list[str] | None = None) -> None:
        """``docker run`` by its owner, and stopped at once: made, and not running."""
        env = [word for name, value in self.variables().items() for word in ("-e", f"{name}={value}")]
        words = argv or self.serve(*args)
        self.docker(
            "create", "--pull", "never", "--name", NAME, "--network", "host", "-w", str(self.folder), *env,
            *flags, IMAGE, *words,
        )  # fmt: skip

    def compose(self, *args: str, command: list[str] | None = None, **keys: Any) -> Path:
        """A compose file with the service ``sglang``, as its owner keeps it."""
        service = {
            "image": IMAGE,
            "container_name": NAME,
            "command": command or self.serve(*args),
            "working_dir": str(self.folder),
            "network_mode": "host",
            "environment": {**self.variables(), "HF_TOKEN": "${HF_TOKEN:?is not set}"},
            **keys,
        }
        path = self.folder / "compose.yaml"
        path.write_text(yaml.safe_dump({"name": "lab", "services": {"sglang": service}}, sort_keys=False))
        return path

    def inspect(self, name: str = NAME) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.docker("inspect", "--type", "container", name))[0]
        return found

    def names(self) -> list[str]:
        """Every container there is."""
        documents = (self.folder / "docker" / "containers").glob("*/document.json")
        return sorted(json.loads(path.read_text())["Name"].lstrip("/") for path in documents)

    def file(self, module: str, name: str = NAME) -> bytes:
        """A module's file as the container has it, running or not."""
        return self._member(module, name)[1]

    def facts(self, module: str, name: str = NAME) -> tarfile.TarInfo:
        return self._member(module, name)[0]

    def _member(self, module: str, name: str) -> tuple[tarfile.TarInfo, bytes]:
        data = self.docker("cp", "-a", f"{name}:{self.place.tree.path(module)}", "-")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            found = archive.extractfile(archive.getmembers()[0])
            assert found is not None
            return archive.getmembers()[0], found.read()

    def contents(self, name: str = NAME) -> dict[str, bytes]:
        return {module: self.file(module, name) for module in (ROUTER, ATTENTION)}

    def kept(self) -> list[str]:
        """What the docker host keeps of oeactl's."""
        outside = self.place.standin.state_dir
        return sorted(
            str(path.relative_to(outside)) for path in outside.glob("docker-*/**/*") if path.is_file()
        )

    def clear(self) -> None:
        for name in self.names():
            self.docker("update", "--restart=no", name)
            self.docker("stop", "-t", "1", name)
        self.place.standin.clear()


@contextmanager
def docker_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerWorld]:
    """With an image, no container, and a hosts.yaml that means the container ``NAME``."""
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nexport STANDIN_DOCKER={tmp_path}/docker PYTHONPATH={CHECKOUT}\n"
        '[ "$1" = compose ] || quick=-S\n'
        f'exec {sys.executable} $quick -m tests.support.standin_docker "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for folder in ("docker/images", "docker/containers", "inside"):
        (tmp_path / folder).mkdir(parents=True)
    recipe = tmp_path / "recipes" / "note"
    (recipe / "cases" / "one").mkdir(parents=True)
    (recipe / "recipe.yaml").write_text(RECIPE)
    (recipe / "cases" / "one" / "case.yaml").write_text(CASE)
    (recipe / "cases" / "one" / "before.py").write_text("")
    place = served(tmp_path, capsys)
    shutil.rmtree(place.tree.site)  # the host itself has no engine: only mount points
    place.tree.site.mkdir()
    place.standin.state_dir.mkdir()
    world = DockerWorld(place=place)
    world.image()
    place.write(place.entry(manager="docker", container=NAME, argv=None, log=None, cwd=None, env=None))
    try:
        yield world
    finally:
        world.clear()
