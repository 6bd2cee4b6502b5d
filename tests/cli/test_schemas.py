"""docs/schemas say what the program reads: no more, no less, as far as a schema can."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from oeactl.core.results import dump
from oeactl.core.run import SCHEMA_VERSION
from tests.support.golden import KINDS, golden
from tests.support.json_schema import faults
from tests.support.runs import SWEEP, a_record

REPO = Path(__file__).parents[2]
SCHEMAS = REPO / "docs" / "schemas"


def wrong(text: str, name: str) -> list[str]:
    schema: dict[str, Any] = json.loads((SCHEMAS / name).read_text())
    return list(faults(yaml.safe_load(text), schema, schema))


def test_the_schemas_are_made_from_the_types() -> None:
    made = runpy.run_path(str(REPO / "docs" / "make_schemas.py"))["schemas"]()
    there = {path.name: path.read_text() for path in SCHEMAS.iterdir()}
    assert there == made, "run: make docs"


def test_what_is_in_this_repository_fits_them() -> None:
    assert wrong((REPO / "hosts.yaml").read_text(), "hosts.json") == []
    for path in (REPO / "recipes").glob("*/recipe.yaml"):
        assert wrong(path.read_text(), "recipe.json") == [], path
    for path in (REPO / "recipes").glob("*/cases/*/case.yaml"):
        assert wrong(path.read_text(), "case.json") == [], path


RECIPE = (REPO / "recipes" / "oea" / "recipe.yaml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title:", "titel:", "unknown key titel"),
        ("op: body_start", "op: body_begin", "fits none of"),
        ("revision: 1", "revision: one", "'one' is not integer"),
        ("revision: 1", "revision: 0", "against minimum 1"),
        ("type: int", "type: integer", "none of"),
        ("snippet: snippets/attention_note.py", "snipet: x", "fits none of"),
        ("engine: {package: sglang", "engine: {name: sglang", "lacks package"),
    ],
)
def test_a_wrong_recipe_is_marked(old: str, new: str, said: str) -> None:
    assert old in RECIPE
    assert any(said in fault for fault in wrong(RECIPE.replace(old, new, 1), "recipe.json"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: {a: {port: 99999}}", "against maximum 65535"),
        ("hosts: {a: {server: {ready_timeout: soon}}}", "'soon' is not ^"),
        ("hosts: {a: {server: {ready_timeout: [1]}}}", "not number or string"),
        ("host: {}", "unknown key host"),
        ("hosts: {a: {become: su}}", "fits none of"),
    ],
)
def test_a_wrong_hosts_file_is_marked(text: str, said: str) -> None:
    assert any(said in fault for fault in wrong(text, "hosts.json")), wrong(text, "hosts.json")
    assert wrong("hosts: {a: {server: {ready_timeout: 30m, stop_timeout: 5}}}", "hosts.json") == []


@pytest.mark.parametrize("name", list(KINDS))
def test_every_kind_of_result_fits_its_schema_and_a_spoilt_one_does_not(name: str) -> None:
    whole = golden(SCHEMA_VERSION, name).decode()
    assert wrong(whole, "results.json") == []
    body = json.loads(whole)
    for spoilt, said in (
        ({**body, "surprise": 1}, "unknown key surprise"),
        ({**body, "schema_version": SCHEMA_VERSION + 1}, "is none of"),
        ({"kind": name, "schema_version": SCHEMA_VERSION}, "lacks"),
        ({**body, "kind": "guess"}, "'guess' is none of"),
    ):
        assert any(said in fault for fault in wrong(json.dumps(spoilt), "results.json")), said


def test_a_time_without_an_offset_is_marked() -> None:
    body = json.loads(golden(SCHEMA_VERSION, "plan"))
    naive = json.dumps({**body, "created_at": "2026-11-30T02:15:00"})
    assert any("no aware date-time" in fault for fault in wrong(naive, "results.json"))


def test_a_level_by_itself_fits_too() -> None:
    assert wrong(dump(a_record(1, SWEEP.points[0])).decode(), "results.json") == []
