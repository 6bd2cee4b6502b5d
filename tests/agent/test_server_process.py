"""A process is its pid and start time; a family is found wherever it goes; a stranger is never hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oeactl.agent import port, process, ready, record
from oeactl.agent.process import Family
from tests.support.patience import until

Spawn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    begun: list[subprocess.Popen[bytes]] = []

    def one(*argv: str, **options: object) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen(argv, start_new_session=True, **options))  # type: ignore[call-overload]
        return begun[-1]

    yield one
    for child in begun:
        child.kill()
        child.wait()


def key(pid: int) -> tuple[int, int]:
    found = process.stat(pid)
    assert found is not None
    return found.key


def test_a_name_with_parentheses_and_spaces_is_read_rightly(spawn: Spawn, tmp_path: Path) -> None:
    program = tmp_path / "odd) R 1 (name"
    program.symlink_to("/bin/sleep")
    child = spawn(str(program), "60")
    found = process.stat(child.pid)
    assert found is not None
    assert (found.ppid, found.pgid, found.sid) == (os.getpid(), child.pid, child.pid)


def test_a_zombie_and_another_start_time_are_not_alive(spawn: Spawn) -> None:
    child = spawn("sleep", "60")
    pid, ticks = key(child.pid)
    assert process.alive((pid, ticks))
    assert not process.alive((pid, ticks - 1))
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert process.stat(pid) is not None
    assert not process.alive((pid, ticks))


def test_a_signal_hits_only_the_process_that_was_meant(spawn: Spawn) -> None:
    child = spawn("sleep", "60")
    pid, ticks = key(child.pid)
    assert not process.send((pid, ticks + 1), signal.SIGKILL)
    assert child.poll() is None
    assert process.send((pid, ticks), signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert not process.send((pid, ticks), signal.SIGTERM)


def test_a_session_whose_number_was_given_anew_is_not_ours(spawn: Spawn) -> None:
    child = spawn("sleep", "60")
    pid, ticks = key(child.pid)
    assert Family((pid, ticks - 1)).look() == []


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("sglang::scheduler", "scheduler"),
        ("sglang::scheduler_TP3", "tp3"),
        ("sglang::scheduler_DP1_PP0_TP2_EP2", "dp1 pp0 tp2 ep2"),
        ("scheduler_TP0 /x/standin.py", "tp0"),
        ("sglang::detokenizer", ""),
        ("python -m sglang.launch_server --scheduler x", ""),
        ("sglang::data_parallel_controller", ""),
    ],
)
def test_workers_are_known_by_the_title_that_the_engine_gives_them(title: str, role: str) -> None:
    assert process.role(title) == role


@pytest.mark.parametrize(
    ("cgroup", "keeper"),
    [
        ("0::/system.slice/glm5.service\n", "the systemd unit glm5.service"),
        ("0::/system.slice/sshd.service\n", ""),
        ("0::/user.slice/user-0.slice/session-3.scope\n", ""),
        ("0::/system.slice/docker-0123456789abcdef0123.scope\n", "the container 0123456789ab"),
        ("4:memory:/docker/0123456789abcdef0123\n", "the container 0123456789ab"),
        ("0::/kubepods/burstable/pod1234/0123456789ab\n", "a Kubernetes pod"),
        ("0::/\n", ""),
    ],
)
def test_who_may_start_it_again_is_read_from_its_cgroup(cgroup: str, keeper: str) -> None:
    assert process.keeper_of(cgroup) == keeper


def test_a_title_shows_no_secret(spawn: Spawn) -> None:
    argv = [
        "-c",
        "import time; time.sleep(60)",
        "--api-key",
        "sk-1",
        "--hf-token=hf_1",
        "--tokenizer-path",
        "/m",
    ]
    child = spawn(sys.executable, *argv)
    until(lambda: "--tokenizer-path" in process.title(child.pid))
    title = process.title(child.pid)
    assert "sk-1" not in title and "hf_1" not in title
    assert title.endswith("--api-key [redacted] --hf-token=[redacted] --tokenizer-path /m")


def test_a_listener_is_found_by_its_socket(spawn: Spawn) -> None:
    code = "import socket; s = socket.create_server(('', 0)); print(s.getsockname()[1], flush=True); input()"
    child = spawn(sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdin is not None
    number = int(child.stdout.readline())
    assert port.listeners(number) == (child.pid,)
    assert port.listeners(number, [child.pid]) == (child.pid,)
    assert not port.wait_free(number, 0.0)
    child.kill()
    child.wait()
    assert port.listeners(number) is None
    assert port.wait_free(number, 60.0)
    child.stdin.close()
    child.stdout.close()


class LateFamily(Family):
    """Members that are begun after the first look."""

    looks = 0

    def look(self, marks: bool = False) -> list[process.Stat]:
        self.looks += 1
        return super().look(marks) if self.looks > 1 else []


def test_a_server_that_is_begun_between_two_looks_is_not_a_stranger(spawn: Spawn, tmp_path: Path) -> None:
    code = "import socket; s = socket.create_server(('', 0)); print(s.getsockname()[1], flush=True); input()"
    child = spawn(sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdin is not None
    url = f"http://127.0.0.1:{int(child.stdout.readline())}"
    pid, ticks = key(child.pid)
    begun = {"process": {"pid": pid, "start_ticks": ticks}, "url": url, "log": str(tmp_path / "log")}
    watch = ready.Watch(begun, None)
    watch.family = LateFamily((pid, ticks))
    assert watch.stranger() is None
    watch.family = Family(key(os.getpid()))
    assert f"is answered by another server: pid {pid}" in (watch.stranger(settled=True) or "")
    child.stdin.close()
    child.stdout.close()


def test_a_record_of_another_boot_has_no_family(tmp_path: Path) -> None:
    pid, ticks = key(os.getpid())
    kept = record.Record(pid, ticks, "another boot", "u", "l", 0, 0.0, "h", [], "m", [[pid, ticks]])
    record.write(str(tmp_path), kept)
    again = record.read(str(tmp_path))
    assert again == kept
    assert again is not None and again.members().look() == []


def test_a_torn_record_is_none(tmp_path: Path) -> None:
    tmp_path.joinpath("server.json").write_text('{"pid": 1')
    assert record.read(str(tmp_path)) is None
    tmp_path.joinpath("server.json").write_text('{"pid": 1}')
    assert record.read(str(tmp_path)) is None
