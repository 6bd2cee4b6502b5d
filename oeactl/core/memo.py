"""What was worked out once need not be worked out again, also where threads ask at the same time.

Owns: one table, bounded, one making at a time for each key. Refuses: to remember a failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """The last ``size`` values. Of threads that want the same one, one makes it and the others wait."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._made: dict[Hashable, T] = {}
        self._making: dict[Hashable, threading.Lock] = {}
        self._turn = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of ``key``; what ``make`` raises is raised, and the next one tries again."""
        with self._turn:
            if key in self._made:
                return self._made[key]
            alone = self._making.setdefault(key, threading.Lock())
        with alone:
            with self._turn:
                if key in self._made:
                    return self._made[key]
            try:
                value = make()
            except BaseException:
                with self._turn:
                    self._making.pop(key, None)
                raise
            with self._turn:
                while len(self._made) >= self._size:
                    del self._made[next(iter(self._made))]
                self._made[key] = value
                self._making.pop(key, None)
        return value

    def clear(self) -> None:
        with self._turn:
            self._made.clear()
