"""Named points of a transaction, where a test may stop the world.

Owns: ``reach``, one ``is None`` check when nobody watches. Refuses: anything that a request without a
``fault`` field could feel.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .wire import Client

PAUSE_LIMIT_S = 120.0

_plan: Plan | None = None


class Plan:
    """A request's ``fault``: ``{"at": n, "do": ...}`` with steps counted from 0, or ``{"trace": true}``.

    do: "kill" (SIGKILL ourselves), "freeze" (SIGSTOP), "term", an errno's name ("ENOSPC": raised there), or
    "pause": create the file ``gate`` and go on when it is removed.
    """

    def __init__(self, fault: dict[str, Any], client: Client) -> None:
        self._fault = fault
        self._client = client
        self._count = 0

    def reached(self, name: str, path: str) -> None:
        number, self._count = self._count, self._count + 1
        if self._fault.get("trace"):
            self._client.emit("step", number=number, name=name, path=path)
        if number == self._fault.get("at"):
            self._act(self._fault["do"], path)

    def _act(self, what: str, path: str) -> None:
        import errno
        import signal
        import time

        signals = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP, "term": signal.SIGTERM}
        if what in signals:
            os.kill(os.getpid(), signals[what])
        elif what == "pause":
            gate = self._fault["gate"]
            with open(gate, "w"):
                pass
            limit = time.monotonic() + PAUSE_LIMIT_S
            while os.path.exists(gate) and time.monotonic() < limit:
                time.sleep(0.01)
        else:
            number = getattr(errno, what)
            raise OSError(number, os.strerror(number), path or None)


def arm(fault: dict[str, Any] | None, client: Client) -> None:
    global _plan
    _plan = Plan(fault, client) if fault else None


def reach(name: str, path: str = "") -> None:
    """Say that the next thing done is ``name`` (to ``path``)."""
    if _plan is not None:
        _plan.reached(name, path)
