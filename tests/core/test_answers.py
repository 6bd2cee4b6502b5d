"""Answers that are none are told from text, code, lists, and a model that repeats itself past its end."""

from __future__ import annotations

from random import Random

import pytest

from oeactl.core.answers import Looked, compressed, look, shift
from oeactl.core.notes import NOTES
from tests.support.answers import prose

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


def soup(letters: str) -> tuple[str, ...]:
    rng = Random(5)
    return tuple("".join(rng.choices(letters, k=400)) for _ in range(32))


OTHER = {
    "words in any order": prose(32, seed=3, mixed=True),
    "random letters": soup("etaoinshrdlu  "),
    "letters of another script": soup("".join(chr(0x4E00 + n) for n in range(2000))),
    "one block": tuple(block(n) for n in range(32)),
}


@pytest.mark.parametrize("kind", OTHER)
def test_answers_of_another_kind_than_the_first_arm_s_are_a_shift(kind: str) -> None:
    assert shift(prose(32, seed=1), OTHER[kind]).outcome == "fail"


@pytest.mark.parametrize("seed", range(2, 8))
def test_other_answers_of_the_same_kind_are_none(seed: int) -> None:
    looked = shift(prose(32, seed=1), prose(32, seed=seed))
    assert (looked.outcome, looked.warning) == ("pass", False), looked.reason


def test_the_very_same_answers_are_none() -> None:
    assert shift(prose(20, seed=1), prose(20, seed=1)) == Looked(
        outcome="pass",
        reason="50% of the pairs have the answer of this arm less new than one of the first arm",
    )


def test_a_few_bad_answers_among_many_are_no_shift_and_half_of_them_warn() -> None:
    good, bad = prose(32, seed=2), OTHER["random letters"]
    assert shift(prose(32, seed=1), (*good[4:], *bad[:4])).outcome == "pass"
    half = shift(prose(32, seed=1), (*good[16:], *bad[:16]))
    assert (half.outcome, half.warning) == ("pass", True)


def test_few_or_short_answers_are_not_compared() -> None:
    assert shift(prose(15, seed=1), prose(32, seed=2)).outcome == "not_measured"
    assert shift(prose(32, seed=1), ("brief",) * 32).outcome == "not_measured"
