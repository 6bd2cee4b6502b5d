"""unlock: end the lease that a command holds on a host, for the day that nobody is at work there any more.

It ends by itself after a while without news. Ending it sooner stops nobody who holds it: it lets others in.
"""

from __future__ import annotations

from oeactl.core.outcomes import Unlocked
from oeactl.flows.lifecycle import ask
from oeactl.flows.site import Site, locked, look, times


def unlock(site: Site, *, force: bool) -> Unlocked:
    """End the lease, after a yes.

    Raises Locked, saying whose it is, unless ``force``; Interrupted on a no; UsageError where nobody can say.
    """
    site.progress.step(f"looking at {site.host.name}")
    journal = look(site, (), data=False).journal
    lease = journal.lease
    if lease is None:
        return Unlocked(status="was not locked")
    if not force:
        raise locked(site, lease)
    who = f"{lease.holder.user}@{lease.holder.host} (pid {lease.holder.pid} there)"
    ask(
        site,
        f"{lease.what} by {who}, {times(lease)}.\nIf they are still at work, two of you will be. "
        f"End their lease on {site.host.name}?",
    )
    site.files.settle(root=journal.root, state_dir=site.host.state_dir, operation=lease.operation)
    return Unlocked(status="unlocked", lease=lease)
