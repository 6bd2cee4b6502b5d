"""A precondition that is not met is a row with its remedy, and the exit code of a command that needs it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.cli.app import main
from tests.support import sshd
from tests.support.engine_tree import HOLDER, ROUTER
from tests.support.patience import until
from tests.support.served import Served, served

WANTED = [
    "reachable",
    "interpreter",
    "engine",
    "files",
    "record",
    "server",
    "manager",
    "launch",
    "GPUs",
    "disk",
    "lock",
    "clock",
]


@pytest.fixture
def place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    one = served(tmp_path, capsys)
    yield one
    one.standin.clear()


def rows(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [check for check in document["checks"] if check["name"] == name]


def bad(document: dict[str, Any]) -> list[str]:
    return [check["name"] for check in document["checks"] if check["state"] == "bad"]


def test_a_host_on_which_all_is_well_has_every_row_and_exits_0(place: Served) -> None:
    place.oeactl("start")
    found = place.oeactl("doctor")
    assert list(dict.fromkeys(check["name"] for check in found["checks"])) == WANTED
    assert bad(found) == [] and found["exit_code"] == 0
    (server,) = rows(found, "server")
    assert server["state"] == "ok" and "started by oeactl, /health 200" in server["what"]
    assert "sglang 0.0.1 in " in rows(found, "engine")[0]["what"]
    assert [row["what"].rpartition(":")[0] for row in rows(found, "disk")] == [
        str(place.standin.state_dir),
        place.tree.root,
        str(place.standin.log.parent),
    ]


def test_it_changes_nothing(place: Served) -> None:
    before = sorted(place.folder.rglob("*"))
    place.oeactl("doctor")
    assert sorted(place.folder.rglob("*")) == before


def test_a_closed_port_ends_what_rests_on_it_and_nothing_is_said_of_the_rest(place: Served) -> None:
    place.write(far={"address": "127.0.0.1", "port": place.standin.port})
    found = place.oeactl("doctor", "--host", "far", code=4)
    assert bad(found) == ["reachable"]
    assert "nothing listens" in rows(found, "reachable")[0]["what"]
    assert {check["state"] for check in found["checks"][1:]} == {"unknown"}


def test_a_missing_interpreter_and_a_missing_engine_are_told_apart(place: Served) -> None:
    place.write({**place.entry(), "engine": {"python": "/no/such/python"}})
    found = place.oeactl("doctor", code=2)
    assert bad(found) == ["interpreter"]
    assert "engine.python" in rows(found, "interpreter")[0]["fix"]
    place.write(place.entry(env={}))
    found = place.oeactl("doctor", code=2)
    assert bad(found) == ["engine"]
    assert "engine.root" in rows(found, "engine")[0]["fix"]
    assert rows(found, "clock")[0]["state"] == "ok"


def test_a_patched_file_edited_by_hand_is_a_foreign_edit(place: Served) -> None:
    tree = place.tree
    tree.files.write(tree.transaction(state_dir=str(place.standin.state_dir)))
    assert bad(place.oeactl("doctor")) == []
    tree.path(ROUTER).write_text("mine\n")
    found = place.oeactl("doctor", code=3)
    assert bad(found) == ["files"]
    assert "a foreign edit" in next(row["what"] for row in rows(found, "files") if row["state"] == "bad")


def test_somebody_at_work_is_exit_5_and_is_named(place: Served) -> None:
    place.tree.files.lease(
        root=place.tree.root,
        state_dir=str(place.standin.state_dir),
        operation="op-1",
        what="bench",
        holder=HOLDER,
        lease_s=600.0,
    )
    found = place.oeactl("doctor", code=5)
    assert bad(found) == ["lock"]
    assert "bench by ann@laptop since" in rows(found, "lock")[0]["what"]


def test_a_server_that_is_not_well_is_exit_4_and_one_that_is_down_is_a_note(place: Served) -> None:
    assert rows(place.oeactl("doctor"), "server")[0]["fix"] == "oeactl start"
    place.write(place.entry("--loading", "60", ready_timeout="2s"))
    place.oeactl("start", code=4)
    until(place.standin.answers)
    found = place.oeactl("doctor", code=4)
    assert bad(found) == ["server"]
    assert "/health 503" in rows(found, "server")[0]["what"]


def test_a_start_command_that_is_not_there_is_the_managers_row(place: Served) -> None:
    place.write(place.entry(manager="commands", argv=None, start=["/no/such", "up"], stop=["true"]))
    found = place.oeactl("doctor", code=2)
    assert bad(found) == ["manager", "launch"]
    assert "/no/such is not on the host" in rows(found, "manager")[0]["what"]


NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) echo "0, NVIDIA X, GPU-1, 1.0, 100 MiB, 100 W, Enabled";;
  --query-compute-apps=*) echo "GPU-1, {pid}, 1024, python";;
  *) exit 9;;
esac
"""


def test_missing_gpus_and_gpu_memory_of_others_are_named(
    place: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI.format(pid=os.getpid()))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    place.write(place.entry(gpus=2))
    found = place.oeactl("doctor", code=3)
    assert bad(found) == ["GPUs", "GPUs"]
    few, held = rows(found, "GPUs")
    assert few["what"] == "1 of 2 are seen" and few["code"] == 2
    assert f"pid {os.getpid()}" in held["what"] and "1024 MiB" in held["what"]


def test_a_key_that_is_not_set_is_a_row_too(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    place.write(place.entry(api_key_env="NO_KEY"))
    found = place.oeactl("doctor", code=2)
    assert bad(found) == ["configuration"]
    assert rows(found, "configuration")[0]["fix"].startswith("export NO_KEY=")


def test_a_clock_that_is_off_is_a_note(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr("oeactl.edges.clock.time.time", lambda: now() + 100)
    found = place.oeactl("doctor")
    seconds, _, behind = rows(found, "clock")[0]["what"].partition(" ")
    assert behind == "s behind this machine's"
    assert float(seconds) == pytest.approx(100, abs=30)  # the host may be slow to say its own


def test_a_person_reads_the_remedy_below_its_row(place: Served) -> None:
    place.write({**place.entry(), "engine": {"python": "/no/such/python"}})
    assert main(["doctor", "--project", str(place.folder)]) == 2
    out, _ = place.capsys.readouterr()
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("interpreter  BAD"))
    assert lines[at + 1].strip().startswith("→ ")
    assert lines[-1] == "@local: 1 bad"


@pytest.mark.sshd
def test_a_host_key_that_is_not_known_is_its_own_row(place: Served, tmp_path: Path) -> None:
    with sshd.running(tmp_path / "ssh") as server:
        reach = {"address": "127.0.0.1", "port": server.port, "ssh_config": server.ssh_config}
        place.write(lab={**place.entry(), **reach})
        assert bad(place.oeactl("doctor", "--host", "lab")) == []
        server.known_hosts.write_text("")
        found = place.oeactl("doctor", "--host", "lab", code=4)
        assert bad(found) == ["host key"]
        (row,) = rows(found, "host key")
        assert "SHA256:" in row["what"] and "ssh-keyscan" in row["fix"]
        assert rows(found, "interpreter")[0]["state"] == "unknown"
