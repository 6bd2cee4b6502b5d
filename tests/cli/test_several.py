"""Commands on several hosts over a real sshd: one document or table, the worst exit code, none in the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import sshd
from tests.support.fleet import Fleet, make_fleet

pytestmark = pytest.mark.sshd

PATCH = ("patch", "--recipe", "note", "--no-restart")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def fleet(server: sshd.Sshd, tmp_path: Path) -> Fleet:
    return make_fleet(tmp_path, [server], 4, groups={"lab": ["h1", "h2"], "all": ["h1", "h2", "h3", "h4"]})


def change(fleet: Fleet, host: str, **keys: object) -> None:
    """Give one host other keys."""
    path = fleet.folder / "hosts.yaml"
    document = yaml.safe_load(path.read_text())
    document["hosts"][host] |= keys
    path.write_text(yaml.safe_dump(document))


def test_a_group_is_patched_looked_at_and_reverted_in_one_document_each(fleet: Fleet) -> None:
    patched = fleet.json(*PATCH, "--host", "lab,h3")
    assert [(one["host"], one["status"], one["exit_code"]) for one in patched["hosts"]] == [
        ("h1", "patched", 0),
        ("h2", "patched", 0),
        ("h3", "patched", 0),
    ]
    assert len({one["digest"] for one in patched["hosts"]}) == 1
    assert len({one["operation"] for one in patched["hosts"]}) == 1
    assert [fleet.is_patched(host) for host in fleet.hosts] == [True, True, True, False]
    found = fleet.json("status", "--host", "all")
    assert [len(one["layers"]) for one in found["hosts"]] == [1, 1, 1, 0]
    reverted = fleet.json("revert", "--no-restart", "--host", "all")
    assert [one["status"] for one in reverted["hosts"]] == ["reverted"] * 3 + ["nothing to revert"]
    assert not any(fleet.is_patched(host) for host in fleet.hosts)
    assert not any(fleet.state(host).exists() for host in fleet.hosts)


def test_hosts_that_fail_do_not_stop_the_others_and_the_worst_code_is_the_commands(fleet: Fleet) -> None:
    change(fleet, "h2", port=1)
    (fleet.engine("h3") / "sglang/srt/layers/moe/topk.py").write_text("nothing = 'known'\n")
    document = fleet.json(*PATCH, "--host", "all", code=4)
    assert document["exit_code"] == 4
    assert [one["exit_code"] for one in document["hosts"]] == [0, 4, 3, 0]
    assert "nothing listens" in document["hosts"][1]["error"]["what"]
    assert fleet.is_patched("h1")
    assert fleet.is_patched("h4")
    shown = fleet.run("status", "--host", "h1,h2")
    assert shown.returncode == 4
    assert "h2: error: nothing listens on" in shown.stderr
    rows = [line.split()[:2] for line in shown.stdout.splitlines()]
    assert ["h1", "agrees"] in rows
    assert ["h2", "failed"] in rows


def test_fail_fast_touches_no_host_when_one_cannot_be_looked_at(fleet: Fleet) -> None:
    change(fleet, "h2", port=1)
    document = fleet.json(*PATCH, "--host", "all", "--fail-fast", code=4)
    assert [one.get("status", one["exit_code"]) for one in document["hosts"]] == [
        "left alone",
        4,
        "left alone",
        "left alone",
    ]
    assert not any(fleet.is_patched(host) for host in fleet.hosts)


def test_a_dry_run_shows_what_is_alike_once_and_writes_nothing(fleet: Fleet) -> None:
    shown = fleet.run(*PATCH, "--host", "lab", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("+    note_0 = chosen[0 % len(chosen)]") == 1
    assert shown.stdout.startswith("on h1, h2:\n")
    assert not any(fleet.is_patched(host) for host in fleet.hosts)


def test_two_names_of_one_engine_are_refused(fleet: Fleet) -> None:
    change(fleet, "h2", engine={"python": yaml_of(fleet, "h2"), "root": str(fleet.engine("h1"))})
    change(fleet, "h2", state_dir=str(fleet.state("h1")))
    assert "same engine" in fleet.json(*PATCH, "--host", "lab", code=2)["error"]["what"]
    assert not fleet.is_patched("h1")


def yaml_of(fleet: Fleet, host: str) -> str:
    document = yaml.safe_load((fleet.folder / "hosts.yaml").read_text())
    return str(document["hosts"][host]["engine"]["python"])


def test_one_host_is_shown_as_ever(fleet: Fleet) -> None:
    one = fleet.json(*PATCH, "--host", "h1")
    assert "hosts" not in one
    assert one["status"] == "patched"
    assert fleet.run(*PATCH, "--host", "h1").stdout.startswith("already applied on h1: note r1")
