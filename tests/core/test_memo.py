"""What is worked out once is not worked out again, also where threads ask together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from oeactl.core.changes import Changed, changes
from oeactl.core.memo import Memo
from tests.support.recipes import bound_of


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


def test_a_module_is_worked_out_once_however_many_hosts_hold_it() -> None:
    bound = bound_of("- {id: once, op: append, code: made = OEACTL.size}\n")
    (file,) = bound.recipe.files

    def made(where: str, data: bytes = b"x = 'once'\n") -> Changed:
        return changes(bound, file, data, where=where, version="1", python="3.11")

    assert made("/srv/one/a.py") is made("/opt/two/a.py")
    assert made("/srv/one/a.py") is not made("/srv/one/a.py", b"x = 'other'\n")
