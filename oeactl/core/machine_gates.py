"""The gates that judge the machine and the client that sent the load, not the load itself.

Owns: their thresholds. Refuses: what gates.py judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from oeactl.core.evidence import Evidence, Gate, failed, not_seen, passed
from oeactl.core.metrics import Spread
from oeactl.core.telemetry import POWER_CAP, CardLoad, Foreign, Watched

#: A client that takes a core, or sees tokens late by a tenth of the time between them, measures itself.
_CLIENT_CORE = 0.9
_CLIENT_LAG = 0.1
#: A prefill meets the power cap for a moment; a level that runs at it runs at another speed each time.
_CAPPED = 0.05
_NOT_ONCE = 1.5
#: The band of a run, around the median of the trials before: of the mean clock, temperature and power.
_CLOCK_BAND = 0.03
_DEGREES = 10.0
_POWER_BAND = 0.15
_LEAST_SAMPLES = 5


_Of = Callable[[CardLoad], Spread | None]


def client_gate(evidence: Evidence) -> Gate:
    name, client, measured = "client", evidence.client, evidence.measurement
    if client is None:
        return not_seen(name, "this client does not report whether it kept up")
    busiest = f" in the busiest of {client.processes} processes" if client.processes > 1 else ""
    cpu = f"{client.busiest_core:.0%} of a core{busiest}"
    if client.lag_mean_ms is None or client.lag_p99_ms is None:
        if client.busiest_core >= _CLIENT_CORE:
            return failed(name, f"it was the bottleneck: {cpu}; --driver light takes several processes")
        return passed(name, f"{cpu}; how late it saw tokens, this client does not tell")
    if client.busiest_core >= _CLIENT_CORE:
        return failed(name, f"it was the bottleneck: {cpu}; more processes: --client-processes")
    gap_ms = measured.itl_ms.median if measured and measured.itl_ms else None
    if gap_ms is None:
        return passed(name, cpu)
    late = f"it saw tokens {client.lag_mean_ms:.2f} ms late on average, {client.lag_p99_ms:.2f} ms p99, "
    late += f"and they are {gap_ms:.2f} ms apart"
    if client.lag_mean_ms > _CLIENT_LAG * gap_ms:
        return failed(name, f"{late}: a busy machine, or too few --client-processes")
    return passed(name, f"{late}; {cpu}", warning=client.lag_p99_ms > gap_ms)


def throttling_gate(evidence: Evidence) -> Gate:
    """Clocks held down by heat or a brake at any time, or by the power cap for long."""
    name, watched = "gpu_throttling", evidence.watched
    if watched is None or not watched.cards:
        return not_seen(name, _blind(evidence, watched))
    telling = [card for card in watched.loaded if card.throttled is not None]
    if not telling:
        return not_seen(name, "these cards do not say why their clocks are held down")
    held = [
        (card.index, reason, share)
        for card in telling
        for reason, share in (card.throttled or {}).items()
        if reason != POWER_CAP or (share > _CAPPED and share * card.samples >= _NOT_ONCE)
    ]
    if held:
        index, reason, share = max(held, key=lambda one: one[2])
        more = f", and {len(held) - 1} more" if len(held) > 1 else ""
        way_out = "; a lower clock that holds: nvidia-smi -lgc" if reason == POWER_CAP else ""
        return failed(name, f"{reason} on GPU {index} in {share:.0%} of the samples{more}{way_out}")
    capped = max((card.throttled or {}).get(POWER_CAP, 0.0) for card in telling)
    seen = f"{min(card.samples for card in telling)} samples of {_count(len(telling), 'card')}"
    if capped:
        return passed(name, f"power cap in {capped:.0%} of the {seen}", warning=True)
    return passed(name, seen)


def foreign_gate(evidence: Evidence) -> Gate:
    """Somebody else's process on a card of the server's."""
    name, watched = "gpu_foreign", evidence.watched
    if watched is None or not watched.cards:
        return not_seen(name, _blind(evidence, watched))
    if watched.foreign is None:
        return not_seen(
            name, "nvidia-smi shows no process of this server here, so no other would be told from it"
        )
    beside = [one for one in watched.foreign if one.used]
    if beside:
        more = f", and {len(beside) - 1} more" if len(beside) > 1 else ""
        return failed(name, f"{_named(beside[0])}{more}")
    if watched.foreign:
        return passed(
            name, f"on cards that the server does not use: {_named(watched.foreign[0])}", warning=True
        )
    return passed(name, f"none on {_count(len(watched.loaded), 'card')} of the server's")


def band_gate(evidence: Evidence) -> Gate:
    """Clocks, temperature and power as in the trials of this run before it, card by card."""
    name, watched = "gpu_band", evidence.watched
    if watched is None or not watched.cards:
        return not_seen(name, _blind(evidence, watched))
    before = [
        (one.same_arm, card)
        for one in evidence.earlier or ()
        if one.watched
        for card in one.watched.loaded
        if card.samples >= _LEAST_SAMPLES
    ]
    compared = 0
    off: list[str] = []
    for card in watched.loaded:
        if card.samples < _LEAST_SAMPLES:
            return not_seen(name, f"{card.samples} samples are too few to tell a card's mean")
        same = [(mine, other) for mine, other in before if other.uuid == card.uuid]
        compared += bool(same)
        off += _out_of_band(card, same)
    if not compared:
        return not_seen(name, "no earlier trial of this load to compare with")
    if off:
        more = f", and {len(off) - 1} more" if len(off) > 1 else ""
        return failed(name, f"{off[0]}{more}")
    return passed(name, f"{_count(compared, 'card')} as in the trials before")


def _out_of_band(card: CardLoad, before: list[tuple[bool, CardLoad]]) -> Iterator[str]:
    """Power is compared within an arm alone: a build may well draw less."""
    any_arm, same_arm = [one for _, one in before], [one for mine, one in before if mine]
    figures: tuple[tuple[str, str, list[CardLoad], _Of, Callable[[float], float]], ...] = (
        ("SM clock", "MHz", any_arm, lambda one: one.sm_mhz, lambda mean: _CLOCK_BAND * mean),
        ("memory clock", "MHz", any_arm, lambda one: one.memory_mhz, lambda mean: _CLOCK_BAND * mean),
        ("temperature", "C", any_arm, lambda one: one.temperature_c, lambda mean: _DEGREES),
        ("power", "W", same_arm, lambda one: one.power_w, lambda mean: _POWER_BAND * mean),
    )
    for what, unit, others, of, width in figures:
        means = [spread.mean for one in others if (spread := of(one)) is not None]
        now = of(card)
        if now is None or not means:
            continue
        usual = median(means)
        if abs(now.mean - usual) > width(usual):
            seen = f"{what} of GPU {card.index} was {now.mean:,.0f} {unit}"
            yield f"{seen}, and {usual:,.0f} in the trials before"


def _named(one: Foreign) -> str:
    mib = "" if one.mib is None else f", {one.mib:,} MiB"
    return f"pid {one.pid} ({one.name}) is on GPU {one.card}{mib}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _blind(evidence: Evidence, watched: Watched | None) -> str:
    """Why no card was seen."""
    if watched is None:
        return "the cards were not watched" if evidence.gpus else "no GPU on this host"
    told = watched.unseen.get("cards") or watched.unseen.get("host")
    return told or ("the cards were not seen" if evidence.gpus else "no GPU on this host")
