"""How late this client was itself: the clock of an event loop that knows when it looked.

Owns: the selector under the loop. Whatever is ready is seen when ``select`` returns, so that moment stamps
all that is read before the next one; how long the loop was away before it is how late a stamp can be.
Refuses: to judge.
"""

from __future__ import annotations

import math
import selectors
from array import array
from time import perf_counter
from typing import Any


class Watch(selectors.DefaultSelector):  # an alias of the platform's best
    """A selector that keeps ``seen``, the time it last returned, and how long each absence was."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = perf_counter()
        self._away = array("d")
        self._events = array("l")

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begun = perf_counter()
        away = begun - self.seen
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        self.seen = perf_counter()
        if ready:
            self._away.append(away)
            self._events.append(len(ready))
        elif timeout:  # a timer: what is over its time, in epoll's whole milliseconds, we were not woken
            over = self.seen - begun - math.ceil(timeout * 1e3) * 1e-3
            self._away.append(max(away, over, 0.0))
            self._events.append(1)
        return ready

    def forget(self) -> None:
        """Begin anew: what was before the load does not count."""
        del self._away[:]
        del self._events[:]
        self.seen = perf_counter()

    def figures(self) -> dict[str, float]:
        """Over events: how late a stamp can be, on average, 99th percentile and worst, in milliseconds."""
        pairs = sorted(zip(self._away, self._events))  # noqa: B905  # strict= is 3.10
        total = sum(self._events)
        mean = sum(away * events for away, events in pairs) / max(1, total)
        reached, p99 = 0, 0.0
        for away, events in pairs:
            reached += events
            p99 = away
            if reached >= 0.99 * total:
                break
        worst = pairs[-1][0] if pairs else 0.0
        return {"mean_ms": mean * 1e3, "p99_ms": p99 * 1e3, "max_ms": worst * 1e3, "events": total}


def spin(_: Any = None) -> None:
    """Nothing; a timer's target, so that the loop wakes up now and then and sees whether it is woken."""
