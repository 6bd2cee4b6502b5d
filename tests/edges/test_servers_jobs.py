"""A command on the host: its lines as they come, what it wrote, and nothing of it left afterwards."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from oeactl.edges.jobs import JobResult, run_job
from oeactl.errors import UsageError
from tests.support.patience import in_quiet, until
from tests.support.serving import agent


def job(*argv: str, lines: list[str] | None = None, **changes: object) -> JobResult:
    fields: dict[str, object] = {"env": {}, "deadline_s": 30.0, **changes}
    told = [] if lines is None else lines
    return run_job(agent(), argv=argv, on_line=told.append, **fields)  # type: ignore[arg-type]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_tells_lines_the_end_and_what_it_wrote(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "echo one; echo two >&2; printf 'a\\nb' > {out}; echo $GREETING; pwd; exit 3"
    done = job("sh", "-c", code, lines=lines, env={"GREETING": "hello"}, cwd=str(tmp_path))
    assert lines == ["one", "two", "hello", str(tmp_path)]
    assert done.tail == tuple(lines)
    assert (done.returncode, done.timed_out, done.out) == (3, False, b"a\nb")


def test_without_a_file_there_is_no_content() -> None:
    assert job("true").out is None


@in_quiet
def test_of_a_progress_bar_the_states_are_told_and_the_last_is_kept() -> None:
    code = (
        "import sys,time\n"
        "for n in range(200): sys.stderr.write(f'\\r{n}/200'); sys.stderr.flush(); time.sleep(0.005)\n"
        "sys.stderr.write('\\r200/200\\ndone\\n')"
    )
    lines: list[str] = []
    done = job(sys.executable, "-c", code, lines=lines)
    assert done.tail == ("200/200", "done")
    assert lines[-2:] == ["200/200", "done"]
    assert 3 <= len(lines) <= 60


def test_a_flood_is_cut_and_its_end_is_kept() -> None:
    lines: list[str] = []
    done = job(sys.executable, "-c", "for n in range(100000): print(n)", lines=lines)
    assert done.tail[-1] == "99999" and lines[-1] == "99999"
    assert len(lines) < 20000


def test_at_its_deadline_the_whole_group_ends(tmp_path: Path) -> None:
    code = f"setsid sleep 60 & echo $! > {tmp_path}/pid; trap '' TERM; while :; do sleep 1; done"
    begun = time.monotonic()
    done = job("sh", "-c", code, deadline_s=3.0)
    assert done.timed_out
    assert time.monotonic() - begun < 50
    assert not lives(int((tmp_path / "pid").read_text()))


def test_a_child_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    done = job("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; echo done")
    assert done.returncode == 0 and done.tail == ("done",) and done.seconds < 50
    assert not lives(int((tmp_path / "pid").read_text()))


def test_when_the_client_goes_everything_ends_and_the_folder_is_removed(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(line: str) -> None:
        raise Enough

    code = f"echo $$ > {tmp_path}/pid; echo {{out}} > {tmp_path}/out; echo begun; sleep 60"
    with pytest.raises(Enough):
        run_job(agent(), argv=("sh", "-c", code), env={}, deadline_s=60.0, on_line=stop)
    pid, folder = int((tmp_path / "pid").read_text()), Path((tmp_path / "out").read_text().strip()).parent
    until(lambda: not lives(pid) and not folder.exists(), 50.0)


def test_even_a_killed_agent_leaves_no_command(tmp_path: Path) -> None:
    code = f"echo $PPID > {tmp_path}/agent; echo $$ > {tmp_path}/pid; exec sleep 60"
    with agent().watch("job", argv=["sh", "-c", code], env={}, deadline_s=60.0) as _:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        os.kill(int((tmp_path / "agent").read_text()), 9)
        pid = int((tmp_path / "pid").read_text())
        until(lambda: not lives(pid), 50.0)


def test_what_cannot_be_run_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot run it"):
        job("/no/such/program")


@in_quiet
def test_the_cpu_of_a_command_is_told_as_it_goes() -> None:
    code = (
        "import time\n"
        "for n in range(4):\n"
        "    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end: pass\n"
        "    print(n, flush=True)"
    )
    done = job(sys.executable, "-IS", "-c", code)
    first, last = done.spent[0], done.spent[-1]
    assert (first.lines, last.lines >= 2) == (0, True)
    assert last.cpu_s > first.cpu_s
    assert all(one.cpu_s >= 0.3 * one.lines - 0.05 for one in done.spent)
    assert last.at_s - first.at_s >= last.cpu_s - first.cpu_s - 0.05
