"""Hold the host's lease through a long flow that changes nothing: nobody patches or restarts underneath.

The lease is short and renewed whenever something moves, so that a client which was killed blocks the host for
minutes, not hours. Losing it (somebody else took it after it ran out) ends the flow with Locked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oeactl.errors import OeactlError
from oeactl.flows.site import Site
from oeactl.ports import Progress

LEASE_S = 900.0
_RENEW_AFTER_S = 60.0


class Lease:
    """A lease that is held. root: of the engine on the host; operation: what nobody else calls theirs.

    taken_at: when it was taken already, by a write under the same operation.
    """

    def __init__(self, site: Site, *, root: str, operation: str, what: str, taken_at: float = 0.0) -> None:
        self._site = site
        self._root = root
        self._operation = operation
        self._what = what
        self._taken_at = taken_at

    def take(self) -> None:
        """Take it, or make it last from now on. Raises Locked when somebody else has it."""
        self._site.files.lease(
            root=self._root,
            state_dir=self._site.host.state_dir,
            operation=self._operation,
            what=self._what,
            holder=self._site.holder,
            lease_s=LEASE_S,
        )
        self._taken_at = self._site.clock.now()

    def keep(self) -> None:
        """Renew it if that was a while ago."""
        if self._site.clock.now() - self._taken_at >= _RENEW_AFTER_S:
            self.take()

    def end(self) -> None:
        """Give it back; where that fails it ends by itself, and nothing else is spoilt."""
        try:
            self._site.files.settle(
                root=self._root, state_dir=self._site.host.state_dir, operation=self._operation
            )
        except OeactlError as problem:
            where, minutes = self._site.host.name, f"{LEASE_S / 60:.0f} minutes"
            self._site.progress.warn(f"the lease on {where} ends by itself, in {minutes}: {problem.what}")


@contextmanager
def holding(site: Site, *, root: str, operation: str, what: str) -> Iterator[Lease]:
    """Hold the lease for the length of the block. Raises Locked."""
    lease = Lease(site, root=root, operation=operation, what=what)
    lease.take()
    try:
        yield lease
    finally:
        lease.end()


class KeepingProgress:
    """Progress that keeps a lease alive while there is some to show."""

    def __init__(self, progress: Progress, lease: Lease) -> None:
        self._progress = progress
        self._lease = lease

    def step(self, text: str) -> None:
        self._lease.keep()
        self._progress.step(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        self._lease.keep()
        self._progress.update(text, done=done, total=total)

    def note(self, text: str) -> None:
        self._progress.note(text)

    def warn(self, text: str) -> None:
        self._progress.warn(text)
