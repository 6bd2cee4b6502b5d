"""Ending a server with everything it begot, and knowing that it is gone.

Owns: ``server.stop``. Order: TERM to the leader alone (TERM to the group makes it take its workers for
crashed), its deadline, TERM to all that is left, KILL. Refuses: a server that we did not start, unless told
to; and any process it cannot tell apart by its start time.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from . import commands, gpus, port, process, record
from .server import root_of
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .process import Family, Key, Stat
    from .wire import Client, Request

POLL_S = 0.1
TOLD_EVERY_S = 1.0
KILL_S = 60.0  # a process in the driver ends late
PORT_S = 10.0
GPU_S = 30.0


class Shutdown:
    """One server's end, step by step; every step tells what it waits for."""

    def __init__(self, family: Family, leader: Key | None, grace_s: float, client: Client) -> None:
        self.family = family
        self.grace_s = grace_s
        self.leader = leader
        self.client = client
        self.begun = time.monotonic()
        self.seen: set[Key] = set()
        self._told_at = 0.0

    def wait(
        self, seconds: float, text: str, *, leader_only: bool = False, send: int | None = None
    ) -> list[Stat]:
        """Whoever is left when all (or the leader) have ended, or after ``seconds``.

        send: the signal that each gets once, those included that are only found meanwhile.
        """
        limit = time.monotonic() + seconds
        sent: set[Key] = set()
        while True:
            # One that slips away while we look has another parent and session: its mark still tells.
            left = self.family.look() or self.family.look(marks=True)
            self.seen.update(one.key for one in left)
            waited = [one for one in left if one.key == self.leader] if leader_only else left
            if not waited or time.monotonic() >= limit:
                return left
            if send is not None:
                fresh = [one for one in left if one.key not in sent]
                if fresh:
                    self.client.emit("note", text=f"{signal.Signals(send).name} to {_listed(fresh)}")
                self._send(send, fresh)
                sent.update(one.key for one in fresh)
            self._tell(f"{text} ({len(left)} process{'es' if len(left) != 1 else ''} left)")
            time.sleep(POLL_S)

    def _send(self, number: int, members: list[Stat]) -> None:
        for one in members:
            try:
                process.send(one.key, number)
            except PermissionError:
                who = process.named(one.pid)
                hint = "connect as the user that runs it, or set become: sudo in hosts.yaml"
                raise AgentError("refused", f"this user may not end {who}", f"pid {one.pid}", hint) from None

    def _tell(self, text: str) -> None:
        elapsed = time.monotonic() - self.begun
        if elapsed - self._told_at >= TOLD_EVERY_S or not self._told_at:
            self._told_at = elapsed
            self.client.emit("waiting", text=text, elapsed_s=elapsed)

    def run(self, timeout_s: float) -> None:
        """TERM to the leader, then to all, then KILL. Raises AgentError when something will not end."""
        leader = process.stat(self.leader[0]) if self.leader and process.alive(self.leader) else None
        if leader:
            self._send(signal.SIGTERM, [leader])
            self.wait(timeout_s, f"waiting for pid {leader.pid} to end", leader_only=True)
        self.finish(0.0 if leader and process.alive(leader.key) else self.grace_s)

    def finish(self, grace_s: float) -> None:
        """The rest, once the leader had its time."""
        left = self.wait(grace_s, "waiting for its children")
        for number, seconds in ((signal.SIGTERM, self.grace_s), (signal.SIGKILL, KILL_S)):
            if left:
                left = self.wait(seconds, f"waiting after {signal.Signals(number).name}", send=number)
        if left:
            raise AgentError(
                "degraded",
                "these processes do not end, not even by SIGKILL",
                None,
                "they hang in the kernel (state D): look at dmesg; a reboot ends them",
                [f"{process.named(one.pid)}, state {one.state}" for one in left],
            )


def _listed(members: list[Stat]) -> str:
    pids = " ".join(str(one.pid) for one in members[:12])
    return f"pid {pids}" + (" …" if len(members) > 12 else "")


@operation("server.stop")
def stop(request: Request, client: Client) -> dict[str, Any]:
    """End the recorded server, or whoever listens (``foreign``), or let ``command`` do it.

    grace_s: what children get once the leader is gone, and everyone after TERM. Answers how many processes
    ended; 0 when nothing ran.
    """
    folder, number = record.state_dir(request), port.port_of(request["url"])
    last = record.read(folder)
    family = last.members() if last else process.Family(None)
    members = family.look(marks=True)
    leader = last.key if last and any(one.key == last.key for one in members) else None
    stranger = _stranger(number, members)
    if stranger:
        if not (request.get("foreign") or request.get("command")):
            raise _not_ours(number, stranger)
        if not members:
            leader, family = stranger.key, process.Family(stranger.key)
            members = family.look()
    if not members and not (request.get("command") and _may_run(request, stranger)):
        record.forget(folder)
        return {"ended": 0, "notes": []}
    ending = Shutdown(family, leader, request["grace_s"], client)
    ending.seen.update(one.key for one in members)
    if last and leader == last.key:
        record.remember(folder, last, family)
    if request.get("command"):
        _command(request, ending)
    else:
        ending.run(request["deadline_s"])
    _port_free(number, client)
    notes = _gpus_free(family, client)
    record.forget(folder)
    return {"ended": len(ending.seen), "notes": notes}


def _may_run(request: Request, listener: Stat | None) -> bool:
    """Whether a server that only its own commands know could be there: it may load and not listen yet."""
    return bool(listener) or commands.is_running(request) is not False


def _stranger(number: int, members: list[Stat]) -> Stat | None:
    """The main process of a listener that is none of ours."""
    ours = {one.pid for one in members}
    holders = port.listeners(number, ours)
    if holders is None or ours.intersection(holders):
        return None
    found = process.stat(holders[0]) if holders else None
    if found is None:
        raise AgentError(
            "refused",
            f"port {number} is held by a process that this user may not look into",
            None,
            "connect as the user that runs it, or set become: sudo in hosts.yaml",
        )
    return root_of(found)


def _not_ours(number: int, one: Stat) -> AgentError:
    keeper = process.keeper(one.pid)
    return AgentError(
        "refused",
        f"the server on port {number} was not started by oeactl: {process.named(one.pid)}",
        f"pid {one.pid}",
        f"it runs in {keeper}: end it there"
        if keeper
        else "end it the way it was started, or confirm its end",
    )


def _command(request: Request, ending: Shutdown) -> None:
    """The owner's own stop command; whatever of the server is left after its time is ended as ever."""
    command = request["command"]
    ending.client.emit("waiting", text=f"running {command[0]}", elapsed_s=0.0)
    done = commands.run(command, request.get("env") or {}, request.get("cwd"), request["deadline_s"])
    if done.returncode is None:
        ending.client.emit("note", text=f"{command[0]} did not return within {request['deadline_s']:g} s")
    elif done.returncode and (ending.family.look() or port.inodes(port.port_of(request["url"]))):
        how = f"the stop command ended with {done.returncode}"
        raise AgentError("refused", how, command[0], "see server.stop in hosts.yaml", done.tail)
    ending.wait(request["deadline_s"], "waiting for the server to end")
    ending.finish(0.0)


def _port_free(number: int, client: Client) -> None:
    limit = time.monotonic() + PORT_S
    while port.inodes(number):
        if time.monotonic() >= limit:
            holders = port.listeners(number)
            who = process.named(holders[0]) if holders else "an unknown process"
            raise AgentError(
                "degraded",
                f"the server ended, but port {number} is taken again by {who}",
                None,
                "something restarts it (systemd, docker, a loop in a script): stop that",
            )
        time.sleep(POLL_S)


def _gpus_free(family: Family, client: Client) -> list[str]:
    """Wait until none of ours holds GPU memory; name the others. Raises AgentError when ours stays."""
    ours = {pid for pid, _ in family.known}
    limit = time.monotonic() + GPU_S
    while True:
        holdings = gpus.holdings()
        held = [one for one in holdings if one.pid in ours]
        if not held:
            break
        if time.monotonic() >= limit:
            raise AgentError(
                "degraded",
                "the processes are gone, but the driver still counts their GPU memory",
                None,
                "nvidia-smi; wait a minute, then oeactl start",
                [f"pid {one.pid}: {one.mib} MiB" for one in held],
            )
        client.emit("waiting", text="waiting for the GPUs to be free", elapsed_s=0.0)
        time.sleep(1.0)
    return [f"another process holds GPU memory: {process.named(one.pid)}, {one.mib} MiB" for one in holdings]
