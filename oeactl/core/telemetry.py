"""What a host, its cards and its engine did while a level ran: samples, and what they come to.

Owns: the reading of nvidia-smi's fields, the summary that a point keeps. What was not seen is None, never 0,
and ``unseen`` says why. Refuses: to judge (machine_gates.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from oeactl.core.host import Value
from oeactl.core.metrics import EngineLoad, Metric, Spread, spread

POWER_CAP = "power cap"
#: nvidia-smi's clocks_event_reasons, by nvml.h. Idle, clocks set on purpose and display are no throttling.
_REASONS = {
    0x04: POWER_CAP,
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
#: So many samples are kept of a level; of more, every second, third, ... one.
MOST_KEPT = 1800


class Holder(Value, frozen=True, kw_only=True):
    """A process with memory on a card. mib: None where the driver does not say.

    kin: it is the server's; job: a command of ours, such as a load client.
    """

    uuid: str
    pid: int
    mib: int | None
    name: str
    kin: bool
    job: bool


class Sample(Value, frozen=True, kw_only=True):
    """One second. at: unix seconds by the host's clock; heard_at: by ours.

    cards: rows of nvidia-smi, as they came, under ``fields``. metrics: None where none came in this second.
    why: what is not there, and why.
    """

    at: float
    heard_at: float = 0.0
    cpu_busy: float | None = None
    fields: tuple[str, ...] = ()
    cards: tuple[tuple[str, ...], ...] = ()
    holders: tuple[Holder, ...] = ()
    metrics: tuple[Metric, ...] | None = None
    why: dict[str, str] = msgspec.field(default_factory=dict)


class CardLoad(Value, frozen=True, kw_only=True):
    """One card. used: whether the server has memory on it; None where none of its processes was seen.

    throttled: reason -> share of the samples; None where the card does not say.
    """

    index: int
    uuid: str
    used: bool | None
    samples: int
    sm_mhz: Spread | None = None
    memory_mhz: Spread | None = None
    power_w: Spread | None = None
    power_limit_w: float | None = None
    temperature_c: Spread | None = None
    memory_temperature_c: Spread | None = None
    busy_percent: Spread | None = None
    memory_used_mib: Spread | None = None
    memory_total_mib: float | None = None
    throttled: dict[str, float] | None = None


class Foreign(Value, frozen=True, kw_only=True):
    """A process on a card that is neither the server's nor ours. used: the server uses that card too."""

    card: int
    used: bool
    pid: int
    mib: int | None
    name: str


class Watched(Value, frozen=True, kw_only=True):
    """A level's telemetry. seconds: from its first sample to its last. cpu_busy: share of all CPUs.

    clock_offset_s: the host's clock minus ours, less the quickest sample's way here. foreign: None where no
    process was seen on any card. unseen: what is not here -> why.
    """

    samples: int
    seconds: float
    cpu_busy: Spread | None = None
    clock_offset_s: float | None = None
    cards: tuple[CardLoad, ...] = ()
    foreign: tuple[Foreign, ...] | None = None
    engine: EngineLoad | None = None
    unseen: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def loaded(self) -> tuple[CardLoad, ...]:
        """The cards that the server uses; all, where that is not known."""
        return tuple(card for card in self.cards if card.used is not False)


def watched(samples: Sequence[Sample], engine: EngineLoad | None, why: Mapping[str, str]) -> Watched:
    """Sum up a level. why: what is known beforehand not to be there."""
    unseen = dict(why)
    for sample in samples:
        unseen.update(sample.why)
    if not samples:
        unseen.setdefault("host", "no sample came while the level ran")
    rows = _rows(samples)
    if rows:
        unseen.pop("cards", None)
    if engine is not None:
        unseen.pop("metrics", None)
    holders = {(one.uuid, one.pid): one for sample in samples for one in sample.holders}
    used = {one.uuid for one in holders.values() if one.kin}
    cards = tuple(_card(number, table, used) for number, table in sorted(rows.items()))
    return Watched(
        samples=len(samples),
        seconds=samples[-1].at - samples[0].at if samples else 0.0,
        cpu_busy=spread(sample.cpu_busy for sample in samples),
        clock_offset_s=max((sample.at - sample.heard_at for sample in samples), default=None),
        cards=cards,
        foreign=_foreign(holders.values(), cards) if used else None,
        engine=engine,
        unseen=unseen,
    )


def thinned(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """At most MOST_KEPT of them, evenly."""
    step = max(1, math.ceil(len(samples) / MOST_KEPT))
    return tuple(samples[::step])


Row = Mapping[str, str]


def _rows(samples: Sequence[Sample]) -> dict[int, list[Row]]:
    """Card's index -> its rows."""
    found: dict[int, list[Row]] = {}
    for sample in samples:
        for fields in sample.cards:
            row = dict(zip(sample.fields, fields, strict=False))
            if row.get("index", "").isdigit():
                found.setdefault(int(row["index"]), []).append(row)
    return found


def number(text: str) -> float | None:
    """A field of nvidia-smi; None for ``[N/A]``, ``[Unknown Error]`` and whatever else is no number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def bits(text: str) -> float | None:
    """A bit mask such as ``0x0000000000000004``."""
    try:
        return int(text, 16) if text.startswith("0x") else None
    except ValueError:
        return None


def _card(index: int, rows: Sequence[Row], used: set[str]) -> CardLoad:
    uuid = rows[-1].get("uuid", "")

    def of(*names: str, read: Callable[[str], float | None] = number) -> list[float | None]:
        return [next((read(row[name]) for name in names if name in row), None) for row in rows]

    limit, total = spread(of("enforced.power.limit", "power.limit")), spread(of("memory.total"))
    reasons = of("clocks_event_reasons.active", "clocks_throttle_reasons.active", read=bits)
    return CardLoad(
        index=index,
        uuid=uuid,
        used=uuid in used if used else None,
        samples=len(rows),
        sm_mhz=spread(of("clocks.sm")),
        memory_mhz=spread(of("clocks.mem")),
        power_w=spread(of("power.draw")),
        power_limit_w=limit.min if limit else None,
        temperature_c=spread(of("temperature.gpu")),
        memory_temperature_c=spread(of("temperature.memory")),
        busy_percent=spread(of("utilization.gpu")),
        memory_used_mib=spread(of("memory.used")),
        memory_total_mib=total.max if total else None,
        throttled=_throttled([int(one) for one in reasons if one is not None]),
    )


def _throttled(masks: Sequence[int]) -> dict[str, float] | None:
    if not masks:
        return None
    counts = {reason: sum(bool(mask & bit) for mask in masks) for bit, reason in _REASONS.items()}
    return {reason: count / len(masks) for reason, count in counts.items() if count}


def _foreign(holders: Iterable[Holder], cards: Sequence[CardLoad]) -> tuple[Foreign, ...]:
    by_uuid = {card.uuid: card for card in cards}
    return tuple(
        Foreign(
            card=by_uuid[one.uuid].index,
            used=by_uuid[one.uuid].used is True,
            pid=one.pid,
            mib=one.mib,
            name=one.name,
        )
        for one in holders
        if not one.kin and not one.job and one.uuid in by_uuid
    )
