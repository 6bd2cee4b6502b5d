"""Answers that are none are told from text, code, lists, and a model that repeats itself past its end."""

from __future__ import annotations

from random import Random

import pytest

from oeactl.core.answers import compressed, look
from oeactl.core.notes import NOTES

CODE = "\n".join(
    f"def step_{n}(value: int) -> int:\n    return value * {n * 7919 % 97} + {n * 104729 % 89}"
    for n in range(14)
)
LIST = "\n".join(
    f"{n}. item {chr(97 + n)}: {n * 7919 % 1000} kg, checked by {NOTES[n][:11]}" for n in range(20)
)


def block(number: int) -> str:
    return f"({number}) the the of and to in is that it was for " * 30


@pytest.mark.parametrize("text", [*NOTES, CODE, LIST])
def test_prose_code_and_lists_are_far_from_the_mark(text: str) -> None:
    assert compressed(text[:800]) > 0.2


def test_notes_pass() -> None:
    assert look(NOTES).outcome == "pass"


def test_one_block_over_and_over_fails() -> None:
    looked = look([block(n) for n in range(16)])
    assert looked.outcome == "fail"
    assert "16 of 16 sampled answers repeat one block" in looked.reason


def test_a_model_that_loops_past_its_natural_end_passes() -> None:
    """Made to go on, it does; the first 800 characters are its answer."""
    texts = ["\n".join(Random(n).sample(NOTES, 4)) + "\nThe end." * 400 for n in range(16)]
    assert look(texts).outcome == "pass"


def test_some_that_repeat_warn() -> None:
    looked = look([*NOTES[:12], *(block(n) for n in range(4))])
    assert (looked.outcome, looked.warning) == ("pass", True)


def test_one_answer_to_all_prompts_fails() -> None:
    looked = look([NOTES[0]] * 9 + [NOTES[1]])
    assert looked.outcome == "fail"
    assert "9 of 10 sampled answers are one and the same" in looked.reason


@pytest.mark.parametrize("letter", ["�", "\x00", "\ue000"])
def test_text_that_is_none_fails(letter: str) -> None:
    rng = Random(1)
    texts = ["".join(rng.choice(f"abcdefghij klm{letter}") for _ in range(300)) for _ in range(8)]
    assert "not valid text" in look(texts).reason
    assert look(texts).outcome == "fail"


def test_no_text_at_all_fails_and_short_text_is_not_judged() -> None:
    assert look([""] * 8).outcome == "fail"
    assert look(["a a a a"] * 8).outcome == "not_measured"
    assert look([]).outcome == "not_measured"
