"""A host's telemetry, heard by a thread while the main one has its work watched.

Owns: ports.Telemetry over an agent. Refuses: to fail what it watches; a connection that breaks is a reason
why nothing was seen.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from oeactl.core.metrics import NAMES, Metric
from oeactl.core.telemetry import Holder, Sample
from oeactl.errors import OeactlError
from oeactl.ports import Agent

#: Seconds: of a burst's hour, and some; of a host with eight cards that is 50 MB at most.
_KEPT = 4000
_ROWS = {
    key: tuple(field.name for field in msgspec.structs.fields(kind))
    for key, kind in (("holders", Holder), ("metrics", Metric))
}


class AgentTelemetry:
    """ports.Telemetry. url, api_key: the server's, as seen where the agent runs; its /metrics are asked.

    machine: also see the machine that the agent is on; it is the server's then.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        url: str,
        api_key: str | None = None,
        machine: bool = True,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._agent = agent
        self._fields = {
            "url": url,
            "api_key": api_key,
            "machine": machine,
            "metrics": list(NAMES),
            "every_s": every_s,
        }
        self._clock = clock

    @contextmanager
    def watching(self, own: Sequence[int]) -> Iterator[_Heard]:
        """Listen in a thread of its own. It, and the program on the host, end by the next sample that comes
        after the block; nobody waits for that, and a client that is gone by then ends the program too.
        """
        heard = _Heard(machine=bool(self._fields["machine"]))
        thread = threading.Thread(target=self._listen, args=(heard, list(own)), daemon=True)
        thread.start()
        try:
            yield heard
        finally:
            heard.over.set()

    def _listen(self, heard: _Heard, own: list[int]) -> None:
        try:
            with self._agent.watch("telemetry", own=own, **self._fields) as events:
                for event in events:
                    if heard.over.is_set():
                        return
                    if event["event"] == "sample":
                        heard.take(event, self._clock())
            heard.problem = "the program that samples ended"
        except OeactlError as problem:
            heard.problem = problem.what


class _Heard:
    """ports.Samples, filled by the thread."""

    def __init__(self, *, machine: bool) -> None:
        self.over = threading.Event()
        self.problem = ""
        self._machine = machine
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    def take(self, event: Mapping[str, Any], heard_at: float) -> None:
        fields = {key: value for key, value in event.items() if key != "event"}
        for key, names in _ROWS.items():
            if key in fields:
                fields[key] = [dict(zip(names, row, strict=True)) for row in fields[key]]
        with suppress(msgspec.ValidationError, ValueError):
            self._samples.append(msgspec.convert({**fields, "heard_at": heard_at}, Sample))

    def between(self, begin: float, end: float) -> tuple[Sample, ...]:
        return tuple(sample for sample in tuple(self._samples) if begin <= sample.heard_at <= end)

    def why(self) -> dict[str, str]:
        found = (
            {}
            if self._machine
            else dict.fromkeys(("host", "cards"), "the server's machine is not seen from here")
        )
        return {**found, **({"host": self.problem} if self.problem else {})}
