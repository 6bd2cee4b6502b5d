"""JSON by the interpreter's own parts is the JSON of the json module, with them and without."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oeactl.agent import jsontext

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@pytest.fixture(params=["its own parts", "the json module"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "the json module":
        monkeypatch.setattr(jsontext, "_scan", None)
    else:
        assert jsontext._scan is not None, "CPython has them"
    return str(request.param)


@settings(max_examples=40)
@given(VALUES)
def test_what_is_written_reads_back_here_and_elsewhere(value: Any) -> None:
    text = jsontext.dumps(value)
    assert jsontext.loads(text) == json.loads(text) == value
    assert jsontext.loads(json.dumps(value, indent=1, ensure_ascii=False).encode()) == value


@settings(max_examples=20)
@given(st.dictionaries(st.text(), VALUES))
def test_lines_for_people_are_the_same_object(value: dict[str, Any]) -> None:
    assert json.loads(jsontext.dumps_lines(value)) == value


@pytest.mark.parametrize(
    "value", [{}, {"a": [1, 2.5, None, True, "é\n\x00"], "b": {"c": []}}, "x", 1, [], None]
)
def test_either_way_gives_the_same(way: str, value: Any) -> None:
    assert json.loads(jsontext.dumps(value)) == value
    assert jsontext.loads(b" " + json.dumps(value).encode() + b"\n") == value


@pytest.mark.parametrize("text", [b"", b"  ", b"{", b'{"a": }', b"{} {}", b"[1,]", b"nul", b"\xff"])
def test_what_is_no_json_is_a_value_error(way: str, text: bytes) -> None:
    with pytest.raises(ValueError):
        jsontext.loads(text)


def test_what_json_has_no_form_for_is_a_type_error(way: str) -> None:
    with pytest.raises(TypeError):
        jsontext.dumps({"a": object()})
