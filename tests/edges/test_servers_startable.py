"""A mistake in hosts.yaml is found on the host before anything is begun there, or ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oeactl.edges.servers.commands import CommandsServer
from oeactl.errors import Refused, UsageError
from tests.support.serving import Standin, agent, free_port


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    return Standin(tmp_path, free_port())


def fault(standin: Standin, **launch: Any) -> UsageError:
    before = sorted(standin.folder.rglob("*"))
    with pytest.raises(UsageError) as refused:
        standin.server().check(standin.launch(**launch))
    assert sorted(standin.folder.rglob("*")) == before
    return refused.value


def test_a_launch_that_can_begin_is_passed_and_leaves_no_trace(standin: Standin) -> None:
    standin.server().check(standin.launch())
    standin.server().check(standin.launch(argv=("-u", "-m", "http.server", "--port", "1")))
    assert list(standin.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("launch", "told", "key"),
    [
        ({"cwd": "/no/such/folder"}, "the folder /no/such/folder does not exist", "server.cwd"),
        ({"python": "/no/such/python"}, "/no/such/python does not exist", "engine.python"),
        ({"argv": ("/no/launch.py",)}, "the script /no/launch.py does not exist", "server.argv"),
        ({"argv": ("-m", "no_such_module.x")}, "finds no module no_such_module.x", "server.argv"),
        ({"argv": ("-m", "http.servre")}, "finds no module http.servre", "server.argv"),
        ({"argv": ("-m", "http.server", "--model-path", "/no/model")}, "no model /no/model", "server.argv"),
        ({"argv": ("-m", "http.server", "--model-path=/no/model")}, "no model /no/model", "server.argv"),
        ({"log": "/proc/1/no/server.log"}, "the log cannot be written", "server.log"),
        ({"log": "/etc"}, "the log cannot be written: /etc is a folder", "server.log"),
        ({"log": "/etc/hosts/server.log"}, "/etc/hosts is no folder", "server.log"),
    ],
)
def test_each_mistake_is_told_with_its_key(
    standin: Standin, launch: dict[str, Any], told: str, key: str
) -> None:
    found = fault(standin, **launch)
    assert told in found.what
    assert found.hint is not None and key in found.hint


def test_all_mistakes_are_told_at_once(standin: Standin) -> None:
    found = fault(standin, cwd="/no/such/folder", python="/no/such/python", log="/etc")
    assert "folder" in found.what
    assert [line.split(":")[0] for line in found.details] == [
        "the log cannot be written",
        "the interpreter /no/such/python does not exist on this host",
    ]


def test_a_module_is_found_as_the_server_would_find_it(standin: Standin) -> None:
    package = standin.folder / "mine" / "engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "launch.py").write_text("")
    argv = ("-m", "engine.launch")
    assert "finds no module engine.launch" in fault(standin, argv=argv).what
    standin.server().check(standin.launch(argv=argv, env={"PYTHONPATH": str(package.parent)}))
    standin.server().check(standin.launch(argv=argv, cwd=str(package.parent)))


def test_a_gpu_that_the_driver_does_not_have_is_named(
    standin: Standin, program: Callable[[str, str], None]
) -> None:
    row = 'echo "{0}, H200, GPU-{0}abc, 1, 1 MiB, 1 W, On"'
    program("nvidia-smi", "\n".join(row.format(number) for number in (0, 1)))
    env = {"CUDA_VISIBLE_DEVICES": "0,2"}
    assert "names GPU 2, and there are 2" in fault(standin, env=env).what
    for visible in ("0,1", "GPU-1a", "", "-1"):
        standin.server().check(standin.launch(env={"CUDA_VISIBLE_DEVICES": visible}))


def test_gpus_that_others_hold_are_refused_where_none_of_ours_runs(
    standin: Standin, program: Callable[[str, str], None]
) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    rows = "; ".join(f"echo '{number}, H200, GPU-{number}abc, 1, 1 MiB, 1 W, On'" for number in (0, 1))
    held = f"echo 'GPU-1abc, {bystander.pid}, 2048, sleep'"
    program("nvidia-smi", f"case $1 in --query-gpu=*) {rows};; *) {held};; esac")
    try:
        server = standin.server()
        with pytest.raises(Refused, match="GPU memory is held by pid") as refused:
            server.check(standin.launch(), alone=True)
        assert f"pid {bystander.pid} (sleep 60)" in refused.value.what
        assert "2048 MiB of GPU 1" in refused.value.what
        server.check(standin.launch())
        for visible in ("0", "GPU-0abc", ""):
            server.check(standin.launch(env={"CUDA_VISIBLE_DEVICES": visible}), alone=True)
        with pytest.raises(Refused):
            server.check(standin.launch(env={"CUDA_VISIBLE_DEVICES": "0,1"}), alone=True)
        argv = ("-m", "http.server", "--device", "cpu")
        server.check(standin.launch(argv=argv), alone=True)
    finally:
        bystander.kill()
        bystander.wait()


@pytest.fixture
def program(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Put a shell script on PATH."""
    folder = tmp_path_factory.mktemp("bin")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(name: str, lines: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)

    return make


def test_commands_of_the_owner_must_be_there_and_executable(standin: Standin) -> None:
    script = standin.folder / "up.sh"
    script.write_text("#!/bin/sh\n")

    def server(start: str) -> CommandsServer:
        return CommandsServer(
            agent(),
            start=(start,),
            stop=("sh", "-c", "exit"),
            root=lambda: str(standin.folder / "sglang"),
            url=standin.url,
            log="",
        )

    launch = standin.launch(python=sys.executable, argv=())
    with pytest.raises(UsageError, match=r"up\.sh is not executable") as refused:
        server("./up.sh").check(launch)
    assert refused.value.hint == "correct server.start in hosts.yaml"
    script.chmod(0o755)
    server("./up.sh").check(launch)
    with pytest.raises(UsageError, match="no-such-program does not exist"):
        server("no-such-program").check(launch)
