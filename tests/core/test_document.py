"""Every complaint about a document names its line, the key, and what was probably meant."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest

from oeactl.core.document import Seconds, build, merged, nearest, parse, to_plain
from oeactl.core.host import Value
from oeactl.errors import UsageError


class Inner(Value, frozen=True, kw_only=True):
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    env: dict[str, str] = msgspec.field(default_factory=dict)
    wait_s: Seconds = msgspec.field(default=60.0, name="wait")


class Outer(Value, frozen=True, kw_only=True):
    name: str
    kind: Literal["a", "b"] = "a"
    inner: Inner = Inner()
    items: tuple[int, ...] = ()


def read(text: str) -> Outer:
    return build(parse(text, "f.yaml"), Outer)


def test_a_whole_document_becomes_values() -> None:
    assert read("name: x\nkind: b\ninner: {port: 22, wait: 30m, env: {A: b}}\nitems: [1, 2]\n") == Outer(
        name="x", kind="b", inner=Inner(port=22, wait_s=1800.0, env={"A": "b"}), items=(1, 2)
    )


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        ("name: x\nname: y\n", "f.yaml:2", "key 'name' is given twice, first on line 1", None),
        ("nmae: x\n", "f.yaml:1", "unknown key 'nmae' in the document", "did you mean 'name'?"),
        ("name: x\ninner:\n  wiat: 3\n", "f.yaml:3", "unknown key 'wiat' in inner", "did you mean 'wait'?"),
        ("name: x\nzzz: 1\n", "f.yaml:2", "unknown key 'zzz' in", "known keys: inner, items, kind, name"),
        ("kind: a\n", "f.yaml:1", "the document lacks 'name'", None),
        ("name: 8\n", "f.yaml:1", "'name' must be a string, not 8", "put it in quotes"),
        ("name: x\nkind: c\n", "f.yaml:2", "'kind' must be 'a' or 'b', not 'c'", None),
        ("name: x\ninner: 3\n", "f.yaml:2", "'inner' must be a mapping, not 3", None),
        ("name: x\ninner:\n  port: 0\n", "f.yaml:3", "must be an integer from 1 to 65535, not 0", None),
        ("name: x\ninner:\n  env:\n    A: 1\n", "f.yaml:4", "'inner.env.A' must be a string", "quotes"),
        ("name: x\ninner: {wait: soon}\n", "f.yaml:2", "a duration such as 90s, 30m or 2h", None),
        ("name: x\nitems: [1, b]\n", "f.yaml:2", "'items[1]' must be an integer, not 'b'", None),
        ("name: x\nitems: 4\n", "f.yaml:2", "'items' must be a list, not 4", None),
        ("name: [\n", "f.yaml:2", "not valid YAML", None),
        ("name: !!python/object:os.system x\n", "f.yaml:1", "YAML tag", None),
        ("a: &a\n  b: *a\n", "f.yaml:2", "an alias contains itself", None),
        ("name: x\ninner:\n  <<: {port: 3}\n", "f.yaml:3", "merge keys", "defaults"),
        ("? [a]\n: 1\n", "f.yaml:1", "a key must be a plain word", None),
        ("name: \x07\n", "f.yaml", "not valid YAML", None),
    ],
)
def test_a_wrong_document_is_named_with_its_line(text: str, where: str, what: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert caught.value.where == where
    assert what in caught.value.what
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30m", 1800), ("2m", 120), ("90s", 90), ("1.5h", 5400), ("45", 45), ("500ms", 0.5), ('"7 s"', 7)],
)
def test_durations_are_seconds(written: str, seconds: float) -> None:
    assert read(f"name: x\ninner: {{wait: {written}}}\n").inner.wait_s == seconds


@pytest.mark.parametrize("written", ["0", "-3", "true", "3 weeks", "''", "null"])
def test_a_duration_is_positive_and_has_a_known_unit(written: str) -> None:
    with pytest.raises(UsageError, match="duration"):
        read(f"name: x\ninner: {{wait: {written}}}\n")


def test_keys_are_words_as_written_and_dates_stay_text() -> None:
    plain = to_plain(parse("10.1: a\n22: b\nno: c\nd: 2020-01-01\n", "f"))
    assert plain == {"10.1": "a", "22": "b", "no": "c", "d": "2020-01-01"}


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert to_plain(parse("", "f")) == {} == to_plain(parse("# only a comment\n", "f"))


def test_laying_one_mapping_over_another_keeps_lines() -> None:
    base, over = parse("a: {x: 1, y: 2}\nb: 3\n", "base"), parse("\n\na: {y: 5, z: null}\n", "over")
    both = merged(base, over)
    assert to_plain(both) == {"a": {"x": 1, "y": 5, "z": None}, "b": 3}
    assert both.value["a"].value["x"].where == "base:1"
    assert both.value["a"].value["y"].where == "over:3"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("stat", "status"), ("sta", "start"), ("stop", "stop"), ("Un_lock", "unlock"), ("xyz", None)],
)
def test_what_begins_so_is_meant_before_what_looks_so(word: str, meant: str | None) -> None:
    assert nearest(word, ("start", "status", "stop", "unlock")) == meant
