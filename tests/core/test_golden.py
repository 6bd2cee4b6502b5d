"""Results of every schema version: written as the golden files say, read back, lifted without loss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oeactl.core.results import LIFTS, dump, parse
from oeactl.core.run import SCHEMA_VERSION
from tests.support.golden import FILES, GOLDEN, KINDS, golden, golden_values


@pytest.mark.parametrize("name", list(KINDS))
def test_this_version_is_written_as_its_golden_file_says_and_read_back(name: str) -> None:
    """A difference here is a new schema version once this one was released, or a mistake."""
    data = golden(SCHEMA_VERSION, name)
    assert dump(golden_values()[name]) == data, "run: python -m tests.support.golden"
    assert parse(data, KINDS[name]) == golden_values()[name]


def test_there_is_a_golden_file_and_a_lift_for_every_version() -> None:
    there = {(path.parent.name, path.stem) for path in GOLDEN.glob("*/*")}
    assert there == {(f"v{version}", name) for version, name in FILES}
    assert sorted(LIFTS) == list(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize(("version", "name"), FILES)
def test_an_older_record_is_lifted_and_loses_nothing(version: int, name: str) -> None:
    old = json.loads(golden(version, name))
    assert old["schema_version"] == version
    new = json.loads(dump(parse(golden(version, name), KINDS[name])))
    assert new["schema_version"] == SCHEMA_VERSION
    assert lost({**old, "schema_version": SCHEMA_VERSION}, new) == []


def lost(old: Any, new: Any, at: str = "") -> list[str]:
    """Where ``new`` does not hold what ``old`` did."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [where for key in old for where in lost(old[key], new.get(key), f"{at}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [where for index, (a, b) in pairs for where in lost(a, b, f"{at}[{index}]")]
    return [] if old == new else [at]
