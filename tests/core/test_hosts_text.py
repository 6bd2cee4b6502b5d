"""An entry goes into the text of hosts.yaml, and no other line changes, however the file is written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from oeactl.core.hosts_text import with_entry
from oeactl.errors import Refused, UsageError

ENTRY: dict[str, Any] = {
    "engine": {"python": "/v/bin/python"},
    "server": {
        "url": "http://127.0.0.1:30000",
        "env": {"A": "yes", "B": "1", "C": "x: y # z", "D": "'\"", "E": "", "F": "${HF_TOKEN}"},
        "argv": ["-m", "x", "--port", "30000", "--json", '{"a": [1, 2]}', "-", "~", "é"],
        "log": "/l",
    },
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "hosts:\n",
        "hosts: {}   # none yet\n",
        "hosts: null\ndefaults: {user: root}\n",
        "defaults: {user: root}\nhosts:\n  a: {address: b}\n",
        "hosts:\n  a:\n    server:\n      argv:\n      - -m\n      - x   # last\n\n# end\n",
        "hosts:\n    a:\n        address: b\ngroups: {g: [a]}\n",
        "hosts:\n  a:\n    engine: {python: /x}\n",
        "hosts:\n  a:\n    state_dir: >-\n      /long\n      /path\n\n\ngroups: {}\n",
        "hosts:\n  a:",
        "hosts:\r\n  a: {address: b}\r\n",
    ],
)
def test_a_new_host_is_added_and_all_else_says_what_it_said(text: str) -> None:
    after = with_entry(text, "new", ENTRY)
    found = yaml.safe_load(after)
    assert found["hosts"].pop("new") == ENTRY
    before = yaml.safe_load(text) or {}
    assert found == {**before, "hosts": before.get("hosts") or {}}
    kept = [line for line in text.splitlines() if not line.startswith("hosts:")]
    remaining = iter(after.splitlines())
    assert all(line in remaining for line in kept), after  # in this order
    assert ("\r\n" in after) == ("\r\n" in text)


def test_keys_go_under_a_host_that_is_there() -> None:
    text = "hosts:\n  a:\n    address: b  # c\n\n  z: {}\n"
    after = with_entry(text, "a", ENTRY)
    assert yaml.safe_load(after)["hosts"] == {"a": {"address": "b", **ENTRY}, "z": {}}
    assert after.startswith("hosts:\n  a:\n    address: b  # c\n    engine:\n")


def test_a_host_without_keys_gets_them() -> None:
    after = with_entry("hosts:\n  a:   # soon\n  z: {}\n", "a", ENTRY)
    assert yaml.safe_load(after)["hosts"] == {"a": ENTRY, "z": {}}


def test_keys_that_say_the_same_stay_and_others_are_replaced_when_told() -> None:
    once = with_entry("hosts:\n  a:\n    address: b\n", "a", ENTRY)
    assert with_entry(once, "a", ENTRY) == once
    other = {**ENTRY, "engine": {"python": "/w/bin/python"}}
    with pytest.raises(Refused, match="another 'engine' already"):
        with_entry(once, "a", other)
    after = with_entry(once, "a", other, replace=True)
    assert yaml.safe_load(after)["hosts"]["a"] == {"address": "b", **other}


@pytest.mark.parametrize(
    "text",
    ["hosts: {a: {address: b}}\n", "hosts:\n  a: {address: b}\n", "hosts:\n  a: {}\n"],
)
def test_what_is_written_in_one_line_is_left_to_a_person_with_the_lines_to_put_there(text: str) -> None:
    with pytest.raises(Refused) as caught:
        with_entry(text, "a", ENTRY)
    assert any("python: /v/bin/python" in line for line in caught.value.details)


def test_a_value_with_a_line_break_is_not_written() -> None:
    with pytest.raises(UsageError):
        with_entry("", "a", {"server": {"env": {"A": "x\ny\n\nz: 'q'"}}})
