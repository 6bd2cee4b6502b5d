"""Watch the host while a level is measured: from the first request that ended to the last.

Owns: which seconds belong to a level. Refuses: to cost a level anything; what was not seen is a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from oeactl.core.evidence import leader
from oeactl.core.host import ServerState
from oeactl.core.metrics import engine_load
from oeactl.core.telemetry import Watched, thinned, watched
from oeactl.errors import OeactlError
from oeactl.flows.site import Site
from oeactl.ports import Clock, Engine, Progress, Samples

_FEW = 2


@contextmanager
def watching(site: Site, state: ServerState) -> Iterator[Samples | None]:
    """Sample the host for the length of the block. state: of the server, by which its cards are known."""
    if site.telemetry is None:
        yield None
        return
    own = {one.pid for one in (leader(state), state.listener) if one is not None}
    with site.telemetry.watching(sorted(own)) as samples:
        yield samples


class Window:
    """A Progress that notes when the load was on: from the first request over to the last."""

    def __init__(self, progress: Progress, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._done = 0.0
        self.opened = clock.now()
        self.began: float | None = None
        self.ended: float | None = None

    def step(self, text: str) -> None:
        self._progress.step(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        if done and done > self._done:
            self._done, self.ended = done, self._clock.now()
            self.began = self.began or self.ended
        self._progress.update(text, done=done, total=total)

    def note(self, text: str) -> None:
        self._progress.note(text)

    def warn(self, text: str) -> None:
        self._progress.warn(text)


def seen(
    samples: Samples | None, window: Window, clock: Clock, engine: Engine
) -> tuple[Watched | None, bytes | None]:
    """What was seen of one level, and its samples as JSON."""
    if samples is None:
        return None, None
    taken = samples.between(window.began or 0.0, window.ended or 0.0)
    if len(taken) < _FEW:  # a short level: the whole of it, client's start included
        taken = samples.between(window.opened, clock.now())
    told = engine_load([one.metrics for one in taken if one.metrics is not None], _info(engine))
    data = json.dumps(msgspec.to_builtins(thinned(taken)), sort_keys=True, separators=(",", ":"))
    return watched(taken, told, samples.why()), data.encode() if taken else None


def clock_offset_s(levels: Sequence[Watched | None], guess: float) -> float:
    """The host's clock minus ours, by the quickest sample; else ``guess``, of a look that took time."""
    told = [one.clock_offset_s for one in levels if one is not None and one.clock_offset_s is not None]
    return round(max(told), 3) if told else guess


def _info(engine: Engine) -> dict[str, object]:
    try:
        return engine.info()
    except OeactlError:
        return {}
