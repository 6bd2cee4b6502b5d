"""Who holds a TCP port here: /proc/net/tcp and tcp6 name the socket, /proc/<pid>/fd its owner.

Owns: listeners and whether a port can be taken. Refuses: to connect to anything.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from . import process

LISTEN = "0A"
TIME_WAIT_S = 65.0  # the kernel keeps a closed connection for 60


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def inodes(port: int) -> set[str]:
    """The listening sockets on this port, on any address of this network namespace.

    The kernel writes these tables while they change, and a line may be left out: "none" is looked at twice.
    """
    return _inodes(port) or _inodes(port)


def _inodes(port: int) -> set[str]:
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue  # no IPv6 here
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                found.add(fields[9])
    return found


def holders(wanted: set[str], among: Iterable[int]) -> list[int]:
    """Which of these processes has one of these sockets open."""
    targets = {f"socket:[{inode}]" for inode in wanted}
    found = []
    for pid in among:
        folder = f"/proc/{pid}/fd"
        try:
            if any(_link(f"{folder}/{name}") in targets for name in os.listdir(folder)):
                found.append(pid)
        except OSError:
            continue  # gone, or another user's
    return found


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def listeners(port: int, likely: Iterable[int] = ()) -> tuple[int, ...] | None:
    """The pids that hold ``port``, the oldest first. None: nobody listens. (): somebody we may not look into.

    ``likely`` pids are asked first: reading the descriptors of a whole host takes long.
    """
    wanted = inodes(port)
    if not wanted:
        return None
    pids = holders(wanted, likely)
    if not pids:
        processes = process.table()
        pids = holders(wanted, sorted(processes, key=lambda pid: processes[pid].ticks))
    return tuple(pids)


def wait_free(port: int, seconds: float = TIME_WAIT_S) -> bool:
    """True once a server could bind ``port`` (with SO_REUSEADDR, as they do); waits out old connections."""
    limit = time.monotonic() + seconds
    while not _can_bind(port):
        if time.monotonic() >= limit or inodes(port):
            return False
        time.sleep(0.5)
    return True


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
