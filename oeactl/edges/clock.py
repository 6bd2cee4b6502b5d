"""This machine's clock, and the names that are made of its time and of chance."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

from oeactl.ports import Clock


class SystemClock:
    """The port Clock, for real."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def moment(unix_s: float) -> str:
    """An aware UTC time as text, to the second."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")


def new_operation(clock: Clock) -> tuple[str, str]:
    """A name that no other operation has, and the moment it begins (aware UTC, ISO 8601)."""
    now = clock.now()
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{secrets.token_hex(4)}", moment(now)
