"""A container, or a compose service, becomes an entry that starts the same again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker_world import IMAGE, NAME, NAMESPACES, DockerWorld, docker_world

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not NAMESPACES, reason="mount namespaces are not to be had here"),
]
KEY = "sk-very-secret"


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerWorld]:
    with docker_world(tmp_path, capsys, monkeypatch) as world:
        text = f"hosts:\n  '@local':  # here\n    state_dir: {world.place.standin.state_dir}\n# the end\n"
        (tmp_path / "hosts.yaml").write_text("default_host: '@local'\n" + text)
        yield world


def running(place: DockerWorld) -> tuple[list[str], dict[str, str]]:
    """argv and environment of the container's own process."""
    pid = place.inspect()["State"]["Pid"]
    words = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    items = Path(f"/proc/{pid}/environ").read_text().rstrip("\0").split("\0")
    return words, dict(item.split("=", 1) for item in items)


def test_the_entry_makes_a_container_that_runs_the_same_in_the_same_environment(
    place: DockerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = place.folder / "data"
    data.mkdir()
    flags = (
        "--gpus", '"device=0,1"', "--ipc", "host", "--shm-size", "32g", "-v", f"{data}:{data}:ro",
        "--ulimit", "memlock=-1", "--restart", "always", "--label", "owner=ann",
    )  # fmt: skip
    place.make("--api-key", KEY, flags=flags)
    place.docker("start", NAME)
    before, as_it_was = place.inspect(), running(place)
    found = place.oeactl("adopt", "--container", NAME, "--yes")
    text = (place.folder / "hosts.yaml").read_text()
    assert found["written"] and KEY not in text and "hf_very_secret" not in text
    assert "# here" in text and text.endswith("# the end\n")
    assert found["engine"] == f"sglang 0.0.1 in {place.place.tree.root}"
    server = found["entry"]["server"]
    assert server["run"][-len(place.serve()) - 3] == f"{IMAGE}@sha256:{'a' * 63}d"
    assert server["gpus"] == 2 and server["url"] == place.place.standin.url
    assert server["argv"] == [*place.serve("--api-key", "${API_KEY}")[1:]]
    assert set(found["secrets"]) == {"API_KEY", "HF_TOKEN"}
    assert found["entry"]["engine"]["python"] == sys.executable

    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    place.docker("update", "--restart=no", NAME)
    place.docker("stop", "-t", "5", NAME)
    place.docker("rm", NAME)
    place.oeactl("start")
    after = place.inspect()
    assert running(place) == as_it_was
    assert after["HostConfig"] == before["HostConfig"] and after["Image"] == before["Image"]
    assert after["Config"]["Labels"] == {"owner": "ann"}


def test_a_service_becomes_an_entry_of_compose(place: DockerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    path = place.compose()
    error = place.oeactl("adopt", "--compose", str(path), code=2)["error"]
    assert "no container was made from it" in error["what"] and "--no-start" in error["hint"]
    place.docker("compose", "-f", str(path), "up", "-d", "sglang")
    as_it_was = running(place)
    found = place.oeactl("adopt", "--compose", str(path), "--yes")
    server = found["entry"]["server"]
    assert server == {
        "manager": "compose",
        "compose": [str(path)],
        "project": "lab",
        "service": "sglang",
        "env": {"HF_TOKEN": "${HF_TOKEN}"},
        "url": place.place.standin.url,
        "argv": place.serve()[1:],
    }
    assert found["secrets"] == ["HF_TOKEN"]
    place.docker("stop", "-t", "5", NAME)
    place.docker("rm", NAME)
    place.oeactl("start")
    assert running(place) == as_it_was
    again = place.oeactl("adopt", "--container", NAME, "--dry-run")
    assert again["entry"]["server"] == server, "by its name it is known as a service too"


def test_what_is_not_known_is_listed_and_nothing_is_written_without_a_yes(place: DockerWorld) -> None:
    before = (place.folder / "hosts.yaml").read_bytes()
    words = ["sh", "-c", f"export A=b; cd /tmp; exec {sys.executable} -m sglang.launch_server --port 31000"]
    place.docker("create", "--pull", "never", "--name", NAME, "-p", "4000:30000", IMAGE, *words)
    found = place.oeactl("adopt", "--container", NAME, "--dry-run")
    assert found["entry"]["server"]["argv"] == ["-m", "sglang.launch_server", "--port", "31000"]
    lines = "\n".join(found["not_inferred"])
    assert (
        "server.argv: read from a shell's text" in lines
        and "port 31000 of the container is published" in lines
    )
    assert "does not run" in lines and "server.gpus" in lines
    error = place.oeactl("adopt", "--container", NAME, code=2)["error"]
    assert "--yes" in error["hint"]
    assert (place.folder / "hosts.yaml").read_bytes() == before
    error = place.oeactl("adopt", "--container", "nobody", code=2)["error"]
    assert "there is no container nobody" in error["what"]
    error = place.oeactl("adopt", "--container", NAME, "--port", "1", code=2)["error"]
    assert "name a server each" in error["what"]
    assert os.environ.get("HF_TOKEN") is None
