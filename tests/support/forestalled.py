"""A Ctrl-C that meets side-by-side works before their threads have begun.

Owns: threading.Thread for as long as it is set. Refuses: everything else of a Ctrl-C.
"""

from __future__ import annotations

import threading

import pytest


class Forestalled:
    """first: the number of the thread, from 1 on, whose start it meets; and of how many more in a row."""

    def __init__(self, first: int = 1, more: int = 10**6) -> None:
        self.begun = 0
        self._met = range(first, first + more + 1)

    def set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        press = self

        class Thread(threading.Thread):
            def start(self) -> None:
                press.begun += 1
                if press.begun in press._met:
                    raise KeyboardInterrupt
                super().start()

        monkeypatch.setattr("oeactl.flows.side_by_side.threading.Thread", Thread)
