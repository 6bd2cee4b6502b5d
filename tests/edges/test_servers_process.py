"""A real process tree behind the agent: begun once, awaited to a completion, ended to the last process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oeactl.errors import Refused, UsageError
from oeactl.ports import Failed, Ready
from tests.support.patience import in_quiet, until
from tests.support.serving import STANDIN, Standin, Told, free_port


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[Standin]:
    one = Standin(tmp_path, free_port())
    yield one
    one.clear()


def ready(standin: Standin, *args: str, told: Told | None = None) -> Ready:
    server, launch = standin.server(), standin.launch(*args)
    outcome = server.await_ready(server.start(launch), launch, told or Told())
    assert isinstance(outcome, Ready), outcome
    return outcome


def failed(standin: Standin, *args: str, **place: object) -> Failed:
    server, launch = standin.server(**place), standin.launch(*args)
    outcome = server.await_ready(server.start(launch), launch, Told())
    assert isinstance(outcome, Failed), outcome
    return outcome


def listening(standin: Standin) -> bool:
    return f":{standin.port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()


def end(standin: Standin, pid: int) -> None:
    """Kill it, and wait until it is a zombie at most."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid not in standin.pids())


def test_it_starts_detached_and_answers_then_ends_with_nothing_left(standin: Standin) -> None:
    told = Told()
    begun = ready(standin, "--workers", "plain,plain", "--slow-start", "4", told=told)
    assert os.getsid(begun.process.pid) == os.getpgid(begun.process.pid) == begun.process.pid
    assert Path(f"/proc/{begun.process.pid}/fd/0").readlink() == Path("/dev/null")
    state = standin.server().state()
    assert state.recorded == state.listener == begun.process
    assert not state.foreign
    assert state.healthy is True
    assert [worker.role for worker in state.workers] == ["tp0", "tp1"]
    assert standin.server().state(health=False).log_end == standin.log.stat().st_size
    assert "loading weights 50 %" in told.updates  # said once, not again as "1 of 2"
    standin.server().stop(told)
    assert "no server was running" not in told.notes  # however quickly it ended
    assert standin.pids() == []
    assert not listening(standin)
    assert not standin.state_dir.exists()
    assert standin.server().state().recorded is None
    ready(standin)  # closed connections do not keep the port


def test_nothing_secret_is_kept_or_shown(standin: Standin) -> None:
    server = standin.server(api_key="sk-on-the-command-line")
    launch = standin.launch("--api-key", "sk-on-the-command-line")
    assert isinstance(server.await_ready(server.start(launch), launch, Told()), Ready)
    record = standin.state_dir / "server.json"
    assert record.stat().st_mode & 0o777 == 0o600
    kept = record.read_text()
    assert "hf_in_the_environment" not in kept and "sk-" not in kept
    assert "HF_TOKEN" in json.loads(kept)["env_names"]
    state = server.state()
    assert state.listener is not None and "--api-key [redacted]" in state.listener.title
    assert not [line for line in server.log_lines(100) if "sk-in-the-log" in line]


def test_the_environment_is_explicit(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    pid = ready(standin).process.pid
    names = {item.partition(b"=")[0] for item in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")}
    assert b"PYTHONPATH" not in names
    assert {b"PATH", b"HOME", b"LC_ALL", b"STANDIN_DIGEST", b"OEACTL_PROOF_DIR"} <= names


def test_a_second_start_is_refused(standin: Standin) -> None:
    ready(standin)
    with pytest.raises(Refused, match="already running") as caught:
        standin.server().start(standin.launch())
    assert caught.value.hint == "oeactl stop"


def test_a_taken_port_is_refused_and_says_by_whom(standin: Standin) -> None:
    with stranger(standin) as pid:
        with pytest.raises(
            Refused, match=f"port {standin.port} is taken by pid {pid}.*running for"
        ) as caught:
            standin.server().start(standin.launch())
        assert STANDIN.name in caught.value.what


@contextmanager
def stranger(standin: Standin, *args: str) -> Iterator[int]:
    """A server on the port that oeactl did not start; its pid."""
    # Of a long command line the end is not shown: a clone's path stands in it but once.
    argv = [sys.executable, STANDIN.name, "--port", str(standin.port), *args]
    process = subprocess.Popen(argv, cwd=STANDIN.parent, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: listening(standin))
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"python": "/no/such/python"}, "interpreter /no/such/python does not exist", "engine.python"),
        ({"python": "/etc/passwd"}, "interpreter /etc/passwd is not executable", "engine.python"),
        ({"cwd": "/no/such/folder"}, "folder /no/such/folder does not exist", "server.cwd"),
        ({"log": "/proc/nowhere/server.log"}, "log cannot be written", "server.log"),
    ],
)
def test_what_is_not_there_is_said_at_once(
    standin: Standin, changes: dict[str, str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        standin.server().start(standin.launch(**changes))
    assert hint in (caught.value.hint or "")
    assert standin.pids() == []
    assert not (standin.state_dir / "server.json").exists()


@pytest.mark.parametrize(
    ("kind", "first_error", "hint"),
    [
        ("oom", "torch.OutOfMemoryError: CUDA out of memory.", "--mem-fraction-static"),
        ("port", "address already in use", "oeactl status"),
        ("module", "ModuleNotFoundError: No module named 'sgl_kernel'", "engine.python"),
        ("argument", "error: unrecognized arguments: --bogus", "server.argv"),
        ("traceback", "ValueError: patched badly", None),
    ],
)
def test_a_death_at_start_is_reported_with_its_first_error(
    standin: Standin, kind: str, first_error: str, hint: str | None
) -> None:
    standin.log.parent.mkdir()
    standin.log.write_text("ValueError: of an earlier start\n")
    outcome = failed(standin, "--die", kind)
    assert "the server's process ended" in outcome.why
    assert first_error in (outcome.first_error or "")
    assert "earlier start" not in "".join(outcome.tail)
    assert (hint or "") in (outcome.hint or "")


@in_quiet
def test_a_death_while_loading_is_noticed_within_a_second(standin: Standin) -> None:
    server, launch = standin.server(), standin.launch("--slow-start", "60")
    begun = server.start(launch)
    child = subprocess.Popen(
        ["sh", "-c", f"sleep 1.5; date +%s.%N; kill -9 {begun.pid}"], stdout=subprocess.PIPE
    )
    outcome = server.await_ready(begun, launch, Told())
    noticed = time.time()
    killed, _ = child.communicate()
    assert isinstance(outcome, Failed)
    assert noticed - float(killed) < 1.5


def test_503_while_loading_is_waited_out(standin: Standin) -> None:
    outcome = ready(standin, "--loading", "1.5")
    assert outcome.seconds >= 1.5


def test_the_deadline_is_its_own_and_says_what_was_waited_for(standin: Standin) -> None:
    server, launch = standin.server(ready_timeout_s=1.5), standin.launch("--slow-start", "60")
    begun = server.start(launch)
    until(lambda: "50% Completed" in standin.log.read_text())
    outcome = server.await_ready(begun, launch, Told())
    assert isinstance(outcome, Failed)
    assert "not ready within 2 s" in outcome.why
    assert "loading weights 50 %" in outcome.why


def test_health_without_a_completion_is_not_ready(standin: Standin) -> None:
    server, launch = standin.server(ready_timeout_s=4.0), standin.launch("--no-completion")
    begun = server.start(launch)
    until(lambda: listening(standin))
    outcome = server.await_ready(begun, launch, Told())
    assert isinstance(outcome, Failed)
    assert "a completion was answered 500" in outcome.why
    assert "no kernel image" in outcome.why


def test_a_missing_key_is_told_at_once(standin: Standin) -> None:
    outcome = failed(standin, "--api-key", "sk-1")
    assert "a completion was answered 401" in outcome.why


def test_a_stale_server_on_the_port_is_not_taken_for_ours(standin: Standin) -> None:
    server, launch = standin.server(), standin.launch("--slow-start", "30")
    begun = server.start(launch)
    with stranger(standin) as pid:
        outcome = server.await_ready(begun, launch, Told())
    assert isinstance(outcome, Failed)
    assert f"answered by another server: pid {pid}" in outcome.why


EIGHT = "plain,stubborn,setsid,orphan,daemon,plain,plain,plain"


def test_stop_ends_every_worker_however_naughty(standin: Standin) -> None:
    ready(standin, "--workers", EIGHT)
    assert len(standin.pids()) == 9
    told = Told()
    standin.server().stop(told)
    assert standin.pids() == []
    assert any(note.startswith("SIGKILL to pid") for note in told.notes)


def test_stop_finds_what_a_killed_leader_left(standin: Standin) -> None:
    begun = ready(standin, "--workers", EIGHT)
    end(standin, begun.process.pid)
    with pytest.raises(Refused, match="parts of the last server still run"):
        standin.server().start(standin.launch())
    standin.server().stop(Told())
    assert standin.pids() == []


def test_stop_before_ready_finds_daemons_by_their_mark(standin: Standin) -> None:
    server = standin.server()
    begun = server.start(standin.launch("--workers", "daemon", "--slow-start", "60"))
    until(lambda: "50% Completed" in standin.log.read_text())
    end(standin, begun.pid)
    until(lambda: len(standin.pids()) == 1)
    server.stop(Told())
    assert standin.pids() == []


def test_a_leader_that_ignores_term_is_killed_after_its_time(standin: Standin) -> None:
    ready(standin, "--stubborn", "--workers", "plain")
    begun = time.monotonic()
    standin.server(stop_timeout_s=1.0).stop(Told())
    assert standin.pids() == []
    assert time.monotonic() - begun < 50


def test_stop_of_a_foreign_server_names_it_and_needs_a_yes(standin: Standin) -> None:
    with stranger(standin, "--workers", "plain") as pid:
        with pytest.raises(Refused, match=f"not started by oeactl: pid {pid}"):
            standin.server().stop(Told())
        assert standin.server().state().foreign
        standin.server().stop(Told(), foreign=True)
        assert not listening(standin)


def test_a_reused_pid_is_never_hit(standin: Standin) -> None:
    begun = ready(standin)
    record = standin.state_dir / "server.json"
    end(standin, begun.process.pid)
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        kept = json.loads(record.read_text())
        record.write_text(
            json.dumps({**kept, "pid": bystander.pid, "family": [[bystander.pid, kept["ticks"]]]})
        )
        told = Told()
        standin.server().stop(told)
        assert told.notes == ["no server was running"]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_stopping_nothing_is_fine_and_says_so(standin: Standin) -> None:
    told = Told()
    standin.server().stop(told)
    assert told.notes == ["no server was running"]


def test_proofs_are_those_of_this_start(standin: Standin) -> None:
    folder = standin.state_dir / "proof"
    folder.mkdir(parents=True)
    folder.joinpath("eager-1.json").write_text("{}")
    ready(standin, "--workers", "plain,plain")
    folder.joinpath("torn.json").write_text('{"kind": "eag')
    state, proofs = standin.server().state(health=False), standin.server().proofs()
    assert {(one.pid, one.start_ticks) for one in proofs} == {(w.pid, w.start_ticks) for w in state.workers}
    assert {one.digest for one in proofs} == {"d1"}


def test_the_log_is_followed_through_truncation(standin: Standin) -> None:
    standin.log.parent.mkdir()
    standin.log.write_text("one\ntwo\nthree\n")
    assert standin.server().log_lines(2) == ("two", "three")
    with standin.server().follow_log(1) as lines:
        assert next(lines) == "three"
        standin.log.write_text("four\n")
        assert next(lines) == "four"
        standin.log.unlink()
        standin.log.write_text("five\nsix\n")
        assert [next(lines), next(lines)] == ["five", "six"]


def test_a_log_that_is_not_there_has_no_lines(standin: Standin) -> None:
    assert standin.server().log_lines(5) == ()


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, *pids: int) -> None:
    """A stand-in that lists those of ``pids`` that live, as the driver does."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir()
    pid_list = " ".join(map(str, pids))
    lines = f'for pid in {pid_list}; do [ -d /proc/$pid ] && echo "GPU-1, $pid, 1024, python"; done; true'
    wanted = "--query-compute-apps=gpu_uuid,pid,used_memory,process_name"
    program.write_text(f'#!/bin/sh\n[ "$1" = {wanted} ] || exit 9\n{lines}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_foreign_gpu_processes_are_named_and_left_alone(
    standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = ready(standin)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        nvidia_smi(standin.folder, monkeypatch, begun.process.pid, bystander.pid)
        told = Told()
        standin.server().stop(told)
        assert len(told.warnings) == 1
        assert f"another process holds GPU memory: pid {bystander.pid} (sleep 60)" in told.warnings[0]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_an_agent_killed_while_it_starts_a_server_leaves_none_unfound(standin: Standin) -> None:
    ready(standin)
    record = standin.state_dir / "server.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "pid": 0, "family": []}))
    state = standin.server().state(health=False)
    assert not state.foreign and state.listener is not None
    standin.server().stop(Told())
    assert standin.pids() == []
