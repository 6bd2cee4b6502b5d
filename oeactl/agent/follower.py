"""A node that answers no requests: its part of a server over several, watched while the first one loads.

Owns: ``server.watch`` and ``server.joined``. Refuses: to ask it anything (what listens there, if it does,
says only that it lives), and to end it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from . import process, record
from .ready import POLL_S, TOLD_EVERY_S, Watch, ready
from .wire import operation

if TYPE_CHECKING:
    from .wire import Client, Request


@operation("server.watch")
def watch(request: Request, client: Client) -> dict[str, Any]:
    """Emit ``waiting`` until ``process`` ends or ``deadline_s`` is over: ``{"failed": ...}``.

    That the whole is ready is for the first node to tell: then whoever asked goes away.
    """
    watched = Watch(request, record.read(record.state_dir(request)))
    begun = time.monotonic()
    told_at = -TOLD_EVERY_S
    while True:
        watched.read_log()
        elapsed = time.monotonic() - begun
        why = watched.death()
        if why:
            return watched.failed(f"{why} after {process.duration(elapsed)}")
        if elapsed > request["deadline_s"]:
            limit = process.duration(request["deadline_s"])
            return watched.failed(f"not ready within {limit}; last: {watched.text}")
        if elapsed - told_at >= TOLD_EVERY_S / 4:
            client.emit("waiting", text=watched.text, elapsed_s=elapsed)
            told_at = elapsed
        time.sleep(POLL_S)


@operation("server.joined")
def joined(request: Request, client: Client) -> dict[str, Any]:
    """The first node answers: ``{"ready": ...}`` where this one lives, its workers remembered."""
    folder = record.state_dir(request)
    last = record.read(folder)
    watched = Watch(request, last)
    found = process.stat(watched.leader[0]) if watched.leader and process.alive(watched.leader) else None
    if found is None:
        watched.read_log()
        return watched.failed("the server's process ended")
    return {"ready": ready(folder, last, watched, found)}
