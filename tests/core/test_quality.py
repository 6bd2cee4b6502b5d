"""A build that varies is never said to change answers; one that answers otherwise always is."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.quality import (
    CONDITIONS,
    Answer,
    Pass,
    compare,
    decode,
    divergence,
    encode,
    floor,
    least_changed,
    order_of,
    pair,
)

LENGTH = 16


def answer(*tokens: int, odds: float = 0.6) -> Answer:
    """Tokens with the same top two everywhere; odds: of the token that was taken."""
    return Answer(
        tokens=tuple(str(token) for token in tokens),
        top=tuple({str(t): log(odds), str(t + 1000): log(0.95 - odds)} for t in tokens),
    )


def text(prompt: int, *, fork: int | None = None, odds: float = 0.6, salt: int = 0) -> Answer:
    """The true answer to a prompt; from position ``fork`` on it goes another way."""
    own = [(prompt * 37 + at * 11) % 400 for at in range(LENGTH)]
    if fork is not None:
        own[fork:] = [400 + (token + 7 * salt) % 300 for token in own[fork:]]
    return answer(*own, odds=odds)


def passes(of: Callable[[int, int, str], Answer], *, prompts: int = 16, count: int = 3) -> list[Pass]:
    return [
        Pass(
            condition=condition,
            order=tuple(range(prompts)),
            answers=tuple(of(prompt, number, condition) for prompt in range(prompts)),
        )
        for number in range(count)
        for condition in CONDITIONS
    ]


def exact(prompt: int, number: int, condition: str) -> Answer:
    return text(prompt)


def varying(seed: int, chance: float) -> Callable[[int, int, str], Answer]:
    """Planted nondeterminism: with this chance an answer forks somewhere, each time otherwise."""
    source = random.Random(seed)

    def of(prompt: int, number: int, condition: str) -> Answer:
        if condition == "under_load" and source.random() < chance:
            return text(prompt, fork=source.randrange(LENGTH), salt=source.randrange(40))
        return text(prompt, odds=0.6 + source.uniform(-0.02, 0.02))

    return of


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.5, 0.95])
def test_planted_nondeterminism_never_reads_as_changed_answers(chance: float) -> None:
    for seed in range(5):
        verdict, _ = compare([passes(varying(seed, chance))], passes(varying(1000 + seed, chance)))
        assert verdict == "within the floor", (chance, seed)


def a_start(seed: int, chance: float = 0.5) -> list[Pass]:
    """One start of a server that answers exactly alike until it is started again."""
    source = random.Random(seed)
    forks = [source.randrange(LENGTH) if source.random() < chance else None for _ in range(16)]
    salt = source.randrange(10**6)
    return passes(lambda prompt, number, condition: text(prompt, fork=forks[prompt], salt=salt))


def test_what_a_restart_changes_is_never_laid_on_the_build() -> None:
    for seed in range(4):
        one, two, three = (a_start(10 * seed + at) for at in range(3))
        assert compare([one], two, restarted=True)[0] == "differs, or a restart does"
        assert compare([one, two], three, restarted=True)[0] == "within the floor"
        assert compare([one], one, restarted=True)[0] == "within the floor"


def test_wrong_answers_are_told_from_what_a_restart_changes() -> None:
    wrong = passes(lambda prompt, number, condition: text(prompt, fork=0, salt=9))
    for seed in range(4):
        one, two = (a_start(10 * seed + at, chance=0.2) for at in range(2))
        assert compare([one, two], wrong, restarted=True)[0] == "changes answers"


def test_a_pass_that_goes_astray_as_a_whole_is_not_taken_for_the_build() -> None:
    """Something that moves all prompts of one pass together, on either side, is the floor too."""
    for astray in range(3):

        def moved(prompt: int, number: int, condition: str, astray: int = astray) -> Answer:
            return text(prompt, fork=3, salt=5) if number == astray else text(prompt)

        assert compare([passes(moved)], passes(exact))[0] == "within the floor"


@pytest.mark.parametrize("chance", [0.0, 0.3])
@pytest.mark.parametrize("where", ["alone", "under_load"])
def test_planted_wrong_answers_always_read_as_changed_answers(chance: float, where: str) -> None:
    for seed in range(2):
        noise = varying(seed, chance)

        def wrong(prompt: int, number: int, condition: str) -> Answer:
            honest = noise(prompt, number, condition)  # noqa: B023 - called within this turn
            return text(prompt, fork=2, salt=9) if condition == where else honest

        verdict, made = compare([passes(varying(50 + seed, chance))], passes(wrong))
        assert verdict == "changes answers"
        assert [one.condition for one in made if one.tokens.apart] == [where]


def test_a_few_answers_that_changed_for_good_are_told_from_the_least_number_on() -> None:
    least = least_changed(3, 3)

    def changed(count: int) -> Callable[[int, int, str], Answer]:
        return lambda prompt, number, condition: text(prompt, fork=1 if prompt < count else None)

    assert (least, least_changed(2, 1)) == (4, 8)
    assert compare([passes(exact)], passes(changed(least)))[0] == "changes answers"
    assert compare([passes(exact)], passes(changed(1)))[0] == "within the floor"


def test_a_build_that_varies_more_is_a_change_too() -> None:
    assert compare([passes(exact)], passes(varying(3, 0.9)))[0] == "changes answers"


def test_probabilities_that_moved_under_the_same_tokens_are_said_so() -> None:
    moved = passes(lambda prompt, number, condition: text(prompt, odds=0.8))
    verdict, made = compare([passes(exact)], moved)
    assert verdict == "shifts probabilities"
    assert made[0].against.equal_answers == 1.0 and made[0].against.kl > 0.01


def test_two_answers_side_by_side() -> None:
    one, other = answer(1, 2, 3, 4), answer(1, 2, 9, 4)
    found = pair(one, other)
    assert (found.first_divergence, found.equal_tokens) == (2, 0.75)
    same = pair(one, one)
    assert (same.first_divergence, same.equal_tokens, same.kl) == (None, 1.0, 0.0)
    shorter = pair(one, answer(1, 2))
    assert (shorter.first_divergence, shorter.equal_tokens) == (2, 0.5)
    assert pair(answer(), answer()).equal_tokens == 1.0


def test_probabilities_are_compared_only_where_the_context_is_the_same() -> None:
    """Behind the first token that differs another text is continued."""
    late = Answer(tokens=("1", "8", "3"), top=({"1": -0.1}, {"8": -0.1}, {"3": -9.0}))
    other = Answer(tokens=("1", "2", "3"), top=({"1": -0.1}, {"8": -0.1}, {"3": -0.1}))
    assert pair(late, other).kl == pytest.approx(0.0, abs=1e-9)


def test_divergence_is_that_of_the_returned_probabilities_and_the_rest() -> None:
    p, q = {"a": log(0.5), "b": log(0.25)}, {"a": log(0.25), "b": log(0.25)}
    expected = 0.5 * log(2) + 0.25 * log(0.25 / 0.5)
    assert divergence(p, q) == pytest.approx(expected)
    assert divergence(p, p) == 0.0
    assert divergence({"a": log(0.6), "b": log(0.3)}, {"a": log(0.6), "c": log(0.3)}) > 0.1
    least = 0.9 * log(0.9 / 0.1) + 0.1 * log(0.1 / 0.9)
    assert divergence({"a": log(0.9)}, {"b": log(0.9)}) == pytest.approx(least), "a has at most 0.1 there"


@given(
    st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
    st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
    st.integers(1, 5),
)
def test_what_was_returned_never_shows_more_than_the_whole(
    one: list[float], other: list[float], top: int
) -> None:
    """The likeliest few of two distributions over six tokens, against the true KL."""
    p, q = [x / sum(one) for x in one], [x / sum(other) for x in other]
    whole = sum(a * log(a / b) for a, b in zip(p, q, strict=True))

    def likeliest(odds: list[float]) -> dict[str, float]:
        best = sorted(range(6), key=lambda at: -odds[at])[:top]
        return {str(at): log(odds[at]) for at in best}

    assert divergence(likeliest(p), likeliest(q)) <= whole + 1e-9


def test_a_single_pass_has_no_floor() -> None:
    with pytest.raises(ValueError, match="fewer than two"):
        compare([passes(exact, count=1)], passes(exact))
    with pytest.raises(ValueError, match="fewer than two"):
        floor(passes(exact, count=1), "alone")
    assert floor(passes(exact), "alone").equal_answers == 1.0


def test_more_passes_of_the_first_build_may_be_given() -> None:
    """Recorded after another restart, say: then the floor is that of restarts."""
    assert compare([passes(exact)] * 2, passes(exact))[0] == "within the floor"


def test_every_pass_under_load_has_an_order_of_its_own() -> None:
    orders = {order_of(24, number) for number in range(4)}
    assert len(orders) == 4 and all(sorted(order) == list(range(24)) for order in orders)
    assert order_of(24, 0) == order_of(24, 0)


def test_passes_are_read_back_as_they_were_written() -> None:
    made = tuple(passes(exact, prompts=2, count=2))
    assert decode(encode(made)) == made
