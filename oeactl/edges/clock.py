"""This machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """The port Clock, for real."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
