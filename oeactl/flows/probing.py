"""What is imported on the host before a change counts as made."""

from __future__ import annotations

from oeactl.core.host import Probe
from oeactl.core.inventory import Host
from oeactl.core.plan import Planned

_GATHERERS = {"sglang": ("sglang.srt.models.registry",)}
"""Modules of an engine that import many others and go on without those that fail."""


def probe_of(host: Host, plan: Planned) -> Probe:
    """The probe of a planned change, as the server's interpreter and environment import it."""
    server = host.server
    return Probe(
        modules=plan.imports,
        gatherers=_GATHERERS.get(host.engine.kind, ()),
        cwd=server.cwd if server else None,
        env=dict(server.env) if server else {},
    )
