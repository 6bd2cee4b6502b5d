"""How a burst is going, in one line: elapsed, tokens a second now, failures, what is left.

Owns: the line, and what *now* is: the last seconds, not the whole. Refuses: to measure; what is shown
meanwhile is in no result.
"""

from __future__ import annotations

from collections import deque

#: *Now* is that long, and no rate is told of less than a second.
_NOW_S = 5.0
_LEAST_S = 1.0


class Pace:
    """Told now and then how far a burst is. planned: requests; duration_s: where that ends it instead.

    streams: at once; before so many are over nothing tells how long the others take.
    """

    def __init__(self, planned: int, *, streams: int = 1, duration_s: float | None = None) -> None:
        self._planned = planned
        self._streams = streams
        self._duration_s = duration_s
        self._told: deque[tuple[float, int]] = deque()

    def line(self, elapsed_s: float, *, over: int, failed: int, tokens: int) -> str:
        """elapsed_s: since the burst began; over: requests that ended, the failed ones included."""
        told = self._told
        told.append((elapsed_s, tokens))
        while len(told) > 2 and elapsed_s - told[1][0] >= _NOW_S:
            told.popleft()
        seconds = elapsed_s - told[0][0]
        facts = [clock(elapsed_s)]
        if seconds >= _LEAST_S:
            facts.append(f"{(tokens - told[0][1]) / seconds:,.0f} tok/s now")
        if failed:
            facts.append(f"{failed} failed")
        left = self._left(elapsed_s, over)
        if left is not None:
            facts.append(f"about {clock(left)} left")
        return ", ".join(facts)

    def _left(self, elapsed_s: float, over: int) -> float | None:
        if self._duration_s is not None:
            return max(0.0, self._duration_s - elapsed_s)
        return (self._planned - over) * elapsed_s / over if self._streams <= over < self._planned else None


def clock(seconds: float) -> str:
    """``42 s``, ``3:07``, ``1:02:03``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, hours = whole // 60 % 60, whole // 3600
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
