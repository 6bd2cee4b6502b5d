"""The record names what was patched from here; it is never believed too much and never fails a command."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from oeactl.core.outcomes import OnRecord
from oeactl.edges.local_record import LocalRecord, local_record


def patch(host: str = "a", recipe: str = "oea", digest: str = "d", project: str = "/p") -> OnRecord:
    return OnRecord(
        host=host,
        address="10.0.0.1",
        project=project,
        recipe=recipe,
        digest=digest,
        at="2026-01-02T03:04:05Z",
    )


@pytest.fixture
def record(tmp_path: Path) -> LocalRecord:
    return LocalRecord(tmp_path / "state" / "oeactl" / "patched.json")


def test_a_patch_is_on_record_until_it_is_reverted(record: LocalRecord) -> None:
    assert record.patched() == ()
    record.add(patch("a"))
    record.add(patch("b"))
    assert record.patched() == (patch("a"), patch("b"))
    assert record.others(host="a", project="/p") == (patch("b"),)
    record.remove(host="a", project="/p")
    assert record.patched() == (patch("b"),)


def test_the_same_recipe_again_takes_the_place_of_the_first(record: LocalRecord) -> None:
    record.add(patch(digest="one"))
    record.add(patch(digest="two"))
    record.add(patch(recipe="other"))
    assert record.patched() == (patch(digest="two"), patch(recipe="other"))
    record.remove(host="a", project="/p", recipe="oea")
    assert record.patched() == (patch(recipe="other"),)


def test_hosts_of_two_projects_may_share_a_name(record: LocalRecord) -> None:
    record.add(patch(project="/p"))
    record.add(patch(project="/q"))
    assert record.others(host="a", project="/p") == (patch(project="/q"),)
    record.remove(host="a", project="/p")
    assert record.patched() == (patch(project="/q"),)


@pytest.mark.parametrize("damage", [b"", b"[", b"{}", b'[{"host": 3}]', b"\xff"])
def test_a_damaged_record_is_as_good_as_none(record: LocalRecord, tmp_path: Path, damage: bytes) -> None:
    record.add(patch("a"))
    (tmp_path / "state" / "oeactl" / "patched.json").write_bytes(damage)
    assert record.patched() == ()
    record.add(patch("b"))
    assert record.patched() == (patch("b"),)


def test_a_place_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record = LocalRecord(tmp_path / "file" / "patched.json")
    record.add(patch())
    record.remove(host="a", project="/p")
    assert record.patched() == ()


def test_commands_side_by_side_lose_nothing(record: LocalRecord) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: record.add(patch(f"h{number}")), range(24)))
    assert {entry.host for entry in record.patched()} == {f"h{number}" for number in range(24)}


def test_nothing_but_the_record_and_its_lock_stays(record: LocalRecord, tmp_path: Path) -> None:
    record.add(patch())
    folder = tmp_path / "state" / "oeactl"
    assert sorted(path.name for path in folder.iterdir()) == ["patched.json", "patched.lock"]
    assert json.loads((folder / "patched.json").read_text()) == [msgspec.to_builtins(patch())]


def test_the_place_is_the_state_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for environ, folder in (
        ({"XDG_STATE_HOME": str(tmp_path / "x")}, tmp_path / "x"),
        ({"XDG_STATE_HOME": "relative"}, tmp_path / ".local" / "state"),
        ({}, tmp_path / ".local" / "state"),
    ):
        local_record(environ).add(patch())
        assert (folder / "oeactl" / "patched.json").is_file()
