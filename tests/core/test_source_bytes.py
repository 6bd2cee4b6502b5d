"""Whatever bytes a file holds: changed within the plan, or a clear refusal; never a crash."""

from __future__ import annotations

import sys

import pytest

from oeactl.core.changes import changes, filled
from oeactl.core.edits import apply
from oeactl.core.reasons import CannotPlace
from oeactl.core.source import Source
from tests.support.recipes import bound_of

EDIT = """\
- {id: note, op: insert_after, at: {statement: x = 1}, code: "if OEACTL.size:\\n    y = 2"}
"""


def patched(before: bytes, edits: str = EDIT, python: str | None = None) -> bytes:
    bound = bound_of(edits)
    made = changes(bound, bound.recipe.files[0], before, where="a.py", version=None, python=python)
    return apply(before, filled(made.edits, "d" * 64))


def refusal(before: bytes, edits: str = EDIT, python: str | None = None) -> str:
    with pytest.raises(CannotPlace) as stopped:
        patched(before, edits, python)
    (reason,) = stopped.value.reasons
    return " ".join([*reason.lines(), reason.hint or ""])


def test_a_byte_order_mark_stays() -> None:
    after = patched(b"\xef\xbb\xbfx = 1\nz = 3\n")
    assert after.startswith(b"\xef\xbb\xbfx = 1\n# >>> ")
    assert after.endswith(b"# <<< oeactl trial note\nz = 3\n")


def test_crlf_is_written_where_crlf_stands() -> None:
    after = patched(b"a = 0\r\nx = 1\r\nz = 3\r\n")
    assert after.count(b"\n") == after.count(b"\r\n") == 7


def test_mixed_newlines_follow_the_line_of_the_place() -> None:
    after = patched(b"a = 0\nx = 1\r\nz = 3\n")
    assert b"y = 2\r\n" in after
    assert after.startswith(b"a = 0\nx = 1\r\n") and after.endswith(b"\r\nz = 3\n")


def test_tabs_indent_what_is_put_among_tabs() -> None:
    after = patched(b"def f():\n\tx = 1\n\treturn x\n")
    assert b"\n\tif 4:\n\t\ty = 2\n\t# <<<" in after


def test_a_missing_last_newline_stays_missing() -> None:
    assert patched(b"x = 1").endswith(b"# <<< oeactl trial note")


def test_a_coding_line_is_honoured() -> None:
    before = "# -*- coding: latin-1 -*-\ns = 'é'; t = 1\nx = 1  # ü\nz = 'ß'\n".encode("latin-1")
    after = patched(before)
    assert after.decode("latin-1").splitlines()[:3] == before.decode("latin-1").splitlines()[:3]
    assert after.endswith("\nz = 'ß'\n".encode("latin-1"))


def test_what_the_coding_cannot_say_is_refused() -> None:
    edits = "- {id: a, op: insert_after, at: {statement: x = 1}, code: \"y = '→'\"}\n"
    assert "cannot be written in iso-8859-1" in refusal(b"# coding: latin-1\nx = 1\n", edits)


def test_an_edit_behind_wide_characters_lands_on_its_bytes() -> None:
    edits = "- {id: a, op: add_argument, at: {expression: f(...)}, code: k=1}\n"
    assert patched("s = 'äöü→𝄞'; f('é')\n".encode(), edits) == "s = 'äöü→𝄞'; f('é', k=1)\n".encode()


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (b"a = 1\nx = '\xff'\n", "a.py:2: byte 0xff is not utf-8"),
        (b"# coding: klingon\nx = 1\n", "encoding cannot be told"),
        (b"x = 1\ndef f(:\n", "a.py:2: not Python that"),
        (b"x = 1\x00\n", "not Python that"),
        (b"", "matches 0 places"),
        (b"\xef\xbb\xbf# coding: latin-1\nx = 1\n", "encoding cannot be told"),
        (b"x = " + b"(" * 3000 + b"1" + b")" * 3000, "not Python that"),
        (b"x = 1\ny = " + b"-" * 100_000 + b"1\n", "not Python that"),
        (b"x = 1\ny = a" + b".b" * 3000 + b"\n", "not Python that"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(before: bytes, said: str) -> None:
    assert said in refusal(before)


def test_deep_nesting_elsewhere_is_not_in_the_way_and_around_the_place_is_refused() -> None:
    deep = b"y = " + b" + ".join([b"1"] * 900) + b"\n"
    assert b"# >>> oeactl trial r1 note" in patched(b"x = 1\n\n" + deep)
    inside = b"def f():\n    x = 1\n    " + deep
    assert "nests 9" in refusal(inside)


def test_newer_syntax_than_ours_names_the_python_to_use() -> None:
    newer = f"3.{sys.version_info[1] + 1}"
    assert "run oeactl with that version or newer" in refusal(b"x = 1\nlazy imp\n", python=f"{newer}.0")


def test_a_megabyte_is_planned() -> None:
    line = b"def f%d(a, b):\n    return a + b\n\n\n"
    before = b"x = 1\n" + b"".join(line % number for number in range(28_000))
    assert len(before) > 1_000_000
    assert len(patched(before)) > len(before)


def test_lone_carriage_returns_count_as_lines_as_python_counts_them() -> None:
    source = Source(b"a = 1\rx = 1\ry = 2\r", "a.py")
    assert [source.line_text(number) for number in (1, 2, 3)] == ["a = 1", "x = 1", "y = 2"]
    assert patched(b"a = 1\rx = 1\ry = 2\r").endswith(b"# <<< oeactl trial note\ry = 2\r")
