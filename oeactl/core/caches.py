"""Compilation caches: what was in them before and after a trial, and whether two trials were equally warm.

Owns: the record, and when a start counts as cold: it wrote more than a tenth of what one of them holds then.
Refuses: to compare a start that compiled its kernels with one that found them.
"""

from __future__ import annotations

from typing import Literal

from oeactl.core.host import Value

Policy = Literal["keep", "wipe"]

_SHARE = 0.1
_FEW = 3  # files: a lock, a note of a tuner


class CacheState(Value, frozen=True, kw_only=True):
    """One cache folder. newest_at: unix seconds by the host's clock, None when it is empty."""

    name: str
    path: str
    files: int
    bytes: int
    newest_at: float | None = None


class CachesSeen(Value, frozen=True, kw_only=True):
    """Before the start, after its last level. after: None where it was not seen."""

    before: tuple[CacheState, ...]
    after: tuple[CacheState, ...] | None = None

    @property
    def held(self) -> int:
        """Files before the start."""
        return sum(cache.files for cache in self.before)

    @property
    def written(self) -> int | None:
        """Files that came meanwhile; None where that was not seen."""
        if self.after is None:
            return None
        held = {cache.path: cache.files for cache in self.before}
        return sum(max(0, cache.files - held.get(cache.path, 0)) for cache in self.after)

    @property
    def cold(self) -> bool | None:
        """Whether much had to be compiled; None where that was not seen."""
        if self.after is None:
            return None
        held = {cache.path: cache.files for cache in self.before}
        came = [(cache.files - held.get(cache.path, 0), cache.files) for cache in self.after]
        return any(written >= _FEW and written > _SHARE * files for written, files in came)


def unequal(
    one: CachesSeen | None, other: CachesSeen | None, names: tuple[str, str], policy: Policy
) -> str | None:
    """Why two trials of a pair were not equally warm; None where they were, or where that was not seen."""
    cold = [name for name, seen in zip(names, (one, other), strict=True) if seen is not None and seen.cold]
    if policy == "wipe":
        emptied = [seen for seen in (one, other) if seen is not None and seen.held]
        if emptied:
            return "the caches were not empty before it"
        return f"{cold[0]} had to compile its kernels, the other had not" if len(cold) == 1 else None
    if not cold:
        return None
    told = [
        f"{name} ({seen.written} files)"
        for name, seen in zip(names, (one, other), strict=True)
        if seen and name in cold
    ]
    return f"cold compilation caches: {' and '.join(told)} had to compile, so a first run would count"


def caches_line(caches: tuple[CacheState, ...]) -> str:
    """'triton 1,204 files, 3.2 GB (/root/.triton/cache); inductor …'."""
    return "; ".join(
        f"{one.name} {one.files:,} files, {_size(one.bytes)} ({one.path})" for one in caches if one.files
    )


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
