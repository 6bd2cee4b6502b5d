"""What is worked out once is not worked out again, also where threads ask together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from oeactl.core.memo import Memo


def test_of_many_threads_one_makes_it_and_the_others_get_the_same() -> None:
    memo: Memo[object] = Memo(4)
    made: list[object] = []
    gate = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask(_: int) -> object:
        gate.wait(10)
        return memo.get("key", make)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(made) == 1
    assert set(map(id, found)) == {id(made[0])}


def test_two_keys_are_made_side_by_side() -> None:
    memo: Memo[int] = Memo(4)
    both = threading.Barrier(2)

    def ask(key: int) -> int:
        return memo.get(key, lambda: both.wait(10) * 0 + key)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, (1, 2))) == [1, 2]


def test_a_failure_is_raised_and_not_remembered() -> None:
    memo: Memo[int] = Memo(4)

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError):
        memo.get("key", fail)
    assert memo.get("key", lambda: 7) == 7


def test_it_keeps_the_last_ones_only() -> None:
    memo: Memo[int] = Memo(2)
    for key in (1, 2, 3):
        memo.get(key, lambda key=key: key)  # type: ignore[misc]
    assert memo.get(3, lambda: -1) == 3
    assert memo.get(1, lambda: -1) == -1, "it was the oldest"
