"""The algebra of byte edits: composed and taken back, and the stages of a draft said against the original."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.edits import Draft, Overlap, apply, compose, invert, merge, three_way, unified
from oeactl.core.host import Edit


@st.composite
def edited(draw: st.DrawFn, text: bytes | None = None) -> tuple[bytes, tuple[Edit, ...]]:
    """A text and edits of it that do not overlap."""
    data = draw(st.binary(max_size=40)) if text is None else text
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return data, tuple(Edit(start=a, end=b, text=draw(st.binary(max_size=5))) for a, b in pairs)


@given(edited())
def test_taking_edits_back_gives_the_input(case: tuple[bytes, tuple[Edit, ...]]) -> None:
    text, edits = case
    assert apply(apply(text, edits), invert(text, edits)) == text


@given(st.data())
def test_stages_say_the_same_against_the_original(data: st.DataObject) -> None:
    text = data.draw(st.binary(max_size=40))
    draft = Draft(text)
    for _ in range(data.draw(st.integers(0, 4))):
        before, edits = data.draw(edited(draft.current))
        draft.change(edits)
        assert draft.current == apply(before, edits)
    assert apply(text, draft.edits()) == draft.current
    starts = [edit.start for edit in draft.edits()]
    assert starts == sorted(starts)


def edit(start: int, end: int, text: bytes = b"") -> Edit:
    return Edit(start=start, end=end, text=text)


def test_insertions_at_one_point_stand_in_the_order_of_the_stack() -> None:
    assert compose(b"ab", [[edit(1, 1, b"1")], [edit(1, 1, b"2")]]) == b"a12b"
    assert compose(b"ab", [[edit(1, 1, b"2")], [edit(1, 1, b"1")]]) == b"a21b"


def test_an_insertion_at_either_end_of_a_replacement_is_no_overlap() -> None:
    assert compose(b"abcd", [[edit(1, 3, b"X")], [edit(1, 1, b"<"), edit(3, 3, b">")]]) == b"a<X>d"


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 3), (2, 4)), ((1, 3), (2, 2)), ((0, 4), (1, 2)), ((1, 3), (1, 3)), ((1, 4), (1, 2))],
)
def test_edits_of_the_same_bytes_overlap(first: tuple[int, int], second: tuple[int, int]) -> None:
    for layers in ([[edit(*first)], [edit(*second)]], [[edit(*second)], [edit(*first)]]):
        with pytest.raises(Overlap) as overlap:
            merge(layers)
        assert set(overlap.value.owners) == {0, 1}


def test_a_difference_tells_line_ends_and_a_missing_last_newline() -> None:
    told = unified(b"a\r\nb", b"a\r\nc\n", "old", "new")
    assert told == "--- old\n+++ new\n@@ -1,2 +1,2 @@\n a\r\n-b\n\\ No newline at end of file\n+c\n"


def test_a_three_way_difference_shows_our_change_and_then_the_foreign_one() -> None:
    told = three_way(b"a\n", b"a\nours\n", b"a\nours\ntheirs\n", "f.py")
    assert told.index("+ours") < told.index("f.py (as it is now)") < told.index("+theirs")
