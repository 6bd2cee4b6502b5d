"""Works done side by side by a bounded number of threads; one that fails does not stop the others.

Owns: the threads, and Ctrl-C, which reaches only the main thread: it is passed on to every work under way,
which then ends as it would alone. Refuses: to know what is worked on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

AT_ONCE = 32
_TICK_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Ended(Generic[T]):
    """How one work ended: with a value, or with what it raised."""

    value: T | None = None
    error: BaseException | None = None


class _Pool(Generic[T]):
    """Threads that take works in their order until none is left, or no further one is wanted."""

    def __init__(self, works: Sequence[Callable[[], T]], fail_fast: bool) -> None:
        self.ended: list[Ended[T] | None] = [None] * len(works)
        self._works = works
        self._fail_fast = fail_fast
        self._left: Iterator[int] = iter(range(len(works)))
        self._over = False
        self._turn = threading.Lock()
        self._busy: dict[int, int] = {}

    def work(self, gone: threading.Event) -> None:
        """What each thread does; gone: set at its end. A Ctrl-C passed on may arrive anywhere in here."""
        try:
            with suppress(KeyboardInterrupt):
                self._work(threading.get_ident())
        finally:
            gone.set()

    def _work(self, me: int) -> None:
        while True:
            with self._turn:
                number = None if self._over else next(self._left, None)
                if number is None:
                    return
                self._busy[me] = number
                self.ended[number] = Ended(error=KeyboardInterrupt())
            try:
                ended = Ended(value=self._works[number]())
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is this work's outcome
                ended = Ended(error=error)
            with self._turn:
                del self._busy[me]
                self.ended[number] = ended
                self._over |= self._fail_fast and ended.error is not None

    def interrupt(self) -> None:
        """Begin nothing more, and raise KeyboardInterrupt in whatever is under way."""
        with self._turn:
            self._over = True
            for thread in self._busy:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt)
                )


def side_by_side(
    works: Sequence[Callable[[], T]], *, at_once: int = AT_ONCE, fail_fast: bool = False
) -> tuple[Ended[T] | None, ...]:
    """Do the works, begun in their order, at most ``at_once`` at a time; how each ended, None if not begun.

    fail_fast: begin no further one once one has failed. Ctrl-C ends those under way; nothing is raised here.
    """
    pool = _Pool(works, fail_fast)
    gone = [threading.Event() for _ in range(min(at_once, len(works)))]
    for event in gone:
        thread = threading.Thread(target=pool.work, args=[event])
        try:
            thread.start()
        except KeyboardInterrupt:
            pool.interrupt()
            if thread.ident is None:  # it never began
                event.set()
    # Not Thread.join: where a Ctrl-C meets it, Python before 3.13 takes the thread for ended (gh-90882).
    for event in gone:
        while not event.is_set():
            try:
                event.wait(_TICK_S)
            except KeyboardInterrupt:
                pool.interrupt()
    return tuple(pool.ended)
