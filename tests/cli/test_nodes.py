"""One server on two nodes, each behind an sshd of its own: all or none, up and down together, all proven."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import sshd
from tests.support.nodes import Nodes, make_nodes
from tests.support.patience import until
from tests.support.site_world import OTHER

pytestmark = pytest.mark.sshd

LONG = pytest.mark.e2e  # tests/flows/test_nodes.py has the same in no time, without the ways between
PATCH = ("patch", "--recipe", "shown", "--yes")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sshd.Sshd, ...]]:
    with (
        sshd.running(tmp_path_factory.mktemp("n1")) as one,
        sshd.running(tmp_path_factory.mktemp("n2")) as two,
    ):
        yield one, two


@pytest.fixture
def nodes(
    servers: tuple[sshd.Sshd, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Nodes]:
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "record"))
    made = make_nodes(tmp_path, servers, capsys)
    yield made
    made.clear()


def test_up_patched_proven_by_every_rank_reverted_and_down_together(nodes: Nodes) -> None:
    assert nodes.oeactl("start")["status"] == "started"
    assert nodes.up() == [3, 3]
    patched = nodes.oeactl(*PATCH)
    assert nodes.patched() == [True, True]
    (verdict,) = patched["proof"]
    assert verdict["overall"] == "taken"
    ranks = [(one["worker"]["node"], one["worker"]["role"], one["seen"]) for one in verdict["workers"]]
    assert ranks == [
        ("n1", "tp0", "eager"),
        ("n1", "tp1", "eager"),
        ("n2", "tp2", "eager"),
        ("n2", "tp3", "eager"),
    ]
    assert nodes.oeactl(*PATCH)["status"] == "already applied"

    found = nodes.oeactl("status")
    assert found["agrees"] and [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    assert [file["path"].partition(":")[0] for file in found["files"] if file["state"] == "patched"] == [
        "n1",
        "n2",
    ]

    assert nodes.oeactl("revert", "--yes")["status"] == "reverted"
    assert nodes.patched() == [False, False] and nodes.up() == [3, 3]
    assert nodes.oeactl("stop", "--yes")["status"] == "stopped"
    assert nodes.up() == [0, 0]
    assert nodes.oeactl("status")["agrees"]
    assert not any(nodes.state(name).exists() for name in nodes.names)


def test_a_node_whose_engine_is_another_keeps_all_nodes_as_they_are(nodes: Nodes) -> None:
    nodes.topk("n2").write_bytes(b"def route():\n    return 'other'\n")
    before = nodes.topk("n2").read_bytes()
    refused = nodes.oeactl(*PATCH, "--no-restart", code=3)["error"]
    assert "different originals" in str(refused) and "n2:" in str(refused)
    assert nodes.patched() == [False, True] and nodes.topk("n2").read_bytes() == before


@LONG
def test_a_node_that_refuses_the_write_has_all_others_take_it_back(nodes: Nodes) -> None:
    nodes.oeactl("start")
    running = nodes.pids("n1")
    nodes.write(n2={"env": {"NODE_BREAKS": "1"}})  # there the import probe fails
    refused = nodes.oeactl(*PATCH, code=3)["error"]
    assert refused["where"].startswith("whole/n2") and "patched badly" in str(refused)
    assert nodes.patched() == [False, False]
    assert nodes.pids("n1") == running
    assert nodes.oeactl("status")["agrees"]


@LONG
def test_a_part_that_dies_of_the_change_has_all_nodes_put_back_and_answering(nodes: Nodes) -> None:
    nodes.oeactl("start")
    module = nodes.engine("n2") / "sglang/__init__.py"
    module.write_text("import os\nif os.environ.get('OEACTL_PROOF_DIR'): os.environ['NODE_BREAKS'] = '1'\n")
    failed = nodes.oeactl(*PATCH, code=6)["error"]
    assert "n2: the server's process ended" in failed["what"]
    assert any("RuntimeError: patched badly" in line for line in failed["details"])
    assert nodes.patched() == [False, False] and nodes.up() == [3, 3]
    found = nodes.oeactl("status")
    assert found["agrees"] and found["server"]["healthy"] is True and found["lease"] is None


@LONG
def test_a_part_that_cannot_begin_has_the_others_ended(nodes: Nodes) -> None:
    nodes.write(n2={"words": ["--die", "oom"]})
    failed = nodes.oeactl("start", code=4)["error"]
    assert "n2: the server's process ended" in failed["what"]
    assert any("CUDA out of memory" in line for line in failed["details"])
    assert nodes.up() == [0, 0] or nodes.pids("n1") == []
    nodes.oeactl("stop", "--yes")
    assert nodes.up() == [0, 0]


@LONG
def test_a_part_that_is_lost_is_named_and_the_change_no_longer_counts_as_proven(nodes: Nodes) -> None:
    nodes.oeactl(*PATCH)
    worker = next(one for one in nodes.oeactl("status")["server"]["workers"] if one["node"] == "n2")
    os.kill(worker["pid"], signal.SIGKILL)
    until(lambda: worker["pid"] not in nodes.pids("n2"))
    found = nodes.oeactl("status", code=7)
    assert any(f"pid {worker['pid']} on n2" in trouble["what"] for trouble in found["troubles"])
    for pid in nodes.pids("n2"):
        os.kill(pid, signal.SIGKILL)
    until(lambda: nodes.pids("n2") == [])
    found = nodes.oeactl("status", code=7)
    assert {one["node"] for one in found["server"]["lost"]} == {"n2"}
    assert nodes.oeactl("start")["notes"]
    nodes.oeactl("restart", "--yes")
    assert nodes.oeactl("status")["agrees"]


@LONG
def test_a_patch_that_is_interrupted_is_taken_back_on_all_nodes(nodes: Nodes) -> None:
    held = nodes.folder / "held"
    words = ("--held", str(held))
    nodes.write(n1={"words": words}, n2={"words": words})
    nodes.oeactl("start")
    held.touch()
    argv = [sys.executable, "-m", "oeactl", *PATCH, "--project", str(nodes.folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as command:
        assert command.stdout is not None
        for line in command.stdout:
            if "waiting until it answers" in line and nodes.patched() == [True, True]:
                command.send_signal(signal.SIGINT)
            elif "putting everything back" in line:
                held.unlink(missing_ok=True)
    assert command.returncode == 130
    assert nodes.patched() == [False, False] and nodes.up() == [3, 3]
    found = nodes.oeactl("status")
    assert found["agrees"] and found["lease"] is None


def test_somebody_at_work_on_one_node_locks_all(nodes: Nodes) -> None:
    nodes.lease("n2", OTHER)
    locked = nodes.oeactl("start", code=5)["error"]
    assert "bob@desk" in locked["what"]
    assert nodes.oeactl(*PATCH, "--no-restart", code=5)["error"]
    assert nodes.patched() == [False, False] and nodes.up() == [0, 0]


def test_nodes_that_a_crash_left_different_are_named_refused_and_brought_together(nodes: Nodes) -> None:
    nodes.oeactl(*PATCH, "--no-restart")
    whole = (nodes.folder / "hosts.yaml").read_text()
    alone = nodes.only("n2")
    assert nodes.oeactl("revert", "--no-restart", "--host", alone)["status"] == "reverted"
    (nodes.folder / "hosts.yaml").write_text(whole)
    assert nodes.patched() == [True, False]
    found = nodes.oeactl("status", code=7)
    assert "the nodes carry different recipes: n1: shown; n2: none" in found["troubles"][0]["what"]
    assert "different recipes" in nodes.oeactl("start", code=3)["error"]["what"]
    assert nodes.oeactl(*PATCH, "--no-restart")["status"] == "patched"
    assert nodes.patched() == [True, True]
    nodes.only("n1")
    nodes.oeactl("revert", "--no-restart", "--host", "n1")
    (nodes.folder / "hosts.yaml").write_text(whole)
    assert nodes.patched() == [False, True]
    assert nodes.oeactl("revert", "--no-restart")["status"] == "reverted"
    assert nodes.patched() == [False, False]
    assert not any(nodes.state(name).exists() for name in nodes.names)


def test_every_node_has_its_rows_in_a_diagnosis_and_its_place_in_a_listing(nodes: Nodes) -> None:
    names = [check["name"] for check in nodes.oeactl("doctor")["checks"]]
    assert {"n1: reachable", "n2: reachable", "n1: disk", "n2: lock"} <= set(names)
    shown = nodes.oeactl("hosts", "whole")
    assert [one["name"] for one in shown["members"]] == ["whole/n1", "whole/n2"]
