"""Compilation caches around a trial: what is there before the start (emptied if planned), and after."""

from __future__ import annotations

import msgspec

from oeactl.core.caches import CachesSeen, CacheState
from oeactl.core.run import Trial
from oeactl.errors import OeactlError
from oeactl.flows.site import Site


def caches_of(site: Site, *, wipe: bool = False) -> tuple[CacheState, ...] | None:
    """The caches that the site's server uses, emptied first where that is wanted; None: not seen here."""
    if site.caches is None or site.host.server is None:
        return None
    if wipe:
        site.progress.step("emptying the compilation caches")
        return site.caches.wipe(site.host.server.env)
    return site.caches.look(site.host.server.env)


def seen_after(site: Site, trial: Trial) -> CachesSeen | None:
    """The trial's record with what is there now. A host that is gone costs the look, not the trial."""
    if trial.caches is None:
        return None
    try:
        return msgspec.structs.replace(trial.caches, after=caches_of(site))
    except OeactlError:
        return trial.caches
