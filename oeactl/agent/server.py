"""What runs now, whoever started it, and its log.

Owns: ``server.state``, ``server.log``, ``server.follow``. Refuses: to change anything.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from . import http, log, port, process, record
from .wire import operation

if TYPE_CHECKING:
    from .process import Stat
    from .wire import Client, Request

HEALTH_TIMEOUT_S = 30.0  # the engine itself gives up after 20
FOLLOW_S = 0.25


@operation("server.state")
def state(request: Request, client: Client) -> dict[str, Any]:
    """What runs now, whoever started it; with ``health`` also one /health (it generates a token)."""
    last = record.read(record.state_dir(request))
    family = last.members() if last else process.Family(None)
    members = family.look(marks=bool(last and not last.pid))
    leader = next((one for one in members if last and one.key == last.key), None)
    holders = port.listeners(port.port_of(request["url"]), [one.pid for one in members])
    listener = process.stat(holders[0]) if holders else None
    if not members and listener:
        members = process.Family(root_of(listener).key).look()
    workers = [process.describe(one) for one in members]
    eldest = leader or listener
    answer: dict[str, Any] = {
        "recorded": process.describe(leader) if leader else None,
        "listener": process.describe(listener) if listener else None,
        "workers": [one for one in workers if one["role"]],
        "started_at": time.time() - process.age_s(eldest.ticks) if eldest else None,
        "foreign": bool(listener and listener.key not in family.known),
        "log_end": log.end_of(request["log"]) if request.get("log") else 0,
        "lost": record.lost(last),
    }
    if last and answer["lost"] and leader is None:
        answer["last_error"] = log.first_error(last.log, last.log_begin)
    if request.get("health"):
        answer["healthy"], answer["health"] = health(request, holders is not None)
    return answer


def health(request: Request, listening: bool) -> tuple[bool | None, str]:
    """(well?, in words) of one /health; None where there is no such endpoint."""
    if not listening:
        return False, "nobody listens"
    answer = http.fetch(request["url"], "/health", api_key=request.get("api_key"), timeout_s=HEALTH_TIMEOUT_S)
    if answer.status == 404:
        return None, "no /health here"
    if answer.status == 0:
        return False, answer.error
    return answer.status == 200, f"/health {answer.status}"


def root_of(one: Stat) -> Stat:
    """The server's main process from one that listens: up its own group, while it is the same program."""
    while True:
        parent = process.stat(one.ppid)
        if parent is None or parent.pgid != one.pgid or _program(parent.pid) != _program(one.pid):
            return one
        one = parent


def _program(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


@operation("server.log")
def lines(request: Request, client: Client) -> list[str]:
    """The last ``count`` lines of ``log``."""
    return log.last_lines(request["log"], request["count"])


@operation("server.follow")
def follow(request: Request, client: Client) -> None:
    """Emit the last ``count`` lines and then every new one, until the client goes."""
    tail = log.Tail(request["log"], log.end_of(request["log"]))
    client.emit("lines", lines=log.last_lines(request["log"], request["count"]))
    while True:
        new = tail.read()
        if new:
            client.emit("lines", lines=new)
        time.sleep(FOLLOW_S)
