"""Patience with a loaded machine: what must come is waited for, figures of time are taken again.

Owns: both. Refuses: to repeat anything but a failed assertion, and to repeat it for ever.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")
LIMIT_S = 60.0
TRIES = 6


def until(met: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait for it. Raises AssertionError when it does not come."""
    limit = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < limit, f"not within {limit_s:g} s"
        time.sleep(0.02)


def in_quiet(timed: Callable[P, None]) -> Callable[P, None]:
    """A test of how long things take: others' work spoils one try, a fault of ours spoils every one."""

    @functools.wraps(timed)
    def tried(*args: P.args, **kwargs: P.kwargs) -> None:
        for pause_s in range(1, TRIES):
            try:
                return timed(*args, **kwargs)
            except AssertionError:
                time.sleep(pause_s)
        return timed(*args, **kwargs)

    return tried
