"""A server that runs already and that nobody recorded: all that /proc tells of how it was begun.

Owns: ``adopt`` (read only). Refuses: to run anything of it, to touch it, and to send the value of a variable
or flag whose name says that it is a secret.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING, Any

from . import gpus, port, process
from .environment import base_environment
from .server import root_of
from .wire import AgentError, operation

if TYPE_CHECKING:
    from .process import Stat
    from .wire import Client, Request

UUIDS = ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")
SECRET = "[redacted]"
LARGEST = 1 << 20


@operation("adopt")
def adopt(request: Request, client: Client) -> dict[str, Any]:
    """The wire's FoundServer of whoever listens on ``port``, or of ``pid`` and what it listens on."""
    main = _main(request)
    family = process.Family(main.key).look()
    environment = _environment(main.pid)
    words = _words(main.pid)
    address, number = _listens(request, [one.pid for one in family])
    return {
        "pid": main.pid,
        "argv": process.without_secrets(words),
        "secret_flags": secret_flags(words),
        "cwd": _link(f"/proc/{main.pid}/cwd"),
        "executable": _link(f"/proc/{main.pid}/exe"),
        "interpreter": _interpreter(words, environment, main.pid),
        "environment": {
            name: SECRET if is_secret(name) else value for name, value in sorted(environment.items())
        },
        "base_environment": base_environment(),
        "log": _log(main.pid),
        "address": address,
        "port": number,
        "keeper": process.keeper(main.pid),
        "parents": _parents(main),
        "gpus": _gpus({one.pid for one in family}),
        "age_s": process.age_s(main.ticks),
        "processes": len(family),
    }


def is_secret(name: str) -> bool:
    return bool(process.SECRET_WORDS.intersection(re.split(r"[-_]+", name.lower())))


def _main(request: Request) -> Stat:
    pid = request.get("pid")
    if pid:
        found = process.stat(pid)
        if found is None or found.ended:
            raise AgentError("usage", f"there is no process {pid} on this host")
        return root_of(found)
    holders = port.listeners(request["port"])
    if holders is None:
        raise AgentError(
            "usage", f"nobody listens on port {request['port']}", None, "name another: --port, or --pid"
        )
    found = process.stat(holders[0]) if holders else None
    if found is None:
        raise AgentError(
            "refused",
            f"port {request['port']} is held by a process that this user may not look into",
            None,
            "connect as the user that runs it, or set become: sudo in hosts.yaml",
        )
    return root_of(found)


def _words(pid: int) -> list[str]:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().rstrip(b"\0").decode("utf-8", "surrogateescape").split("\0")


def secret_flags(words: list[str]) -> list[str]:
    """Flags whose value was left out."""
    hidden = process.without_secrets(words)
    flags = []
    for number, (word, shown) in enumerate(zip(words, hidden)):  # noqa: B905  # no strict= in CPython 3.8
        if word != shown:
            flags.append(word.partition("=")[0] if "=" in word else words[number - 1])
    return flags


def _environment(pid: int) -> dict[str, str]:
    """Its variables as it was started with; {} where its title has overwritten them or we may not look."""
    found = {}
    for item in process.environment_of(pid).split(b"\0"):
        name, equals, value = item.decode("utf-8", "surrogateescape").partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found[name] = value
    return found


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _interpreter(words: list[str], environment: dict[str, str], pid: int) -> str | None:
    """The absolute path it was called by: a virtual environment is known by that, not by the real file."""
    called = words[0]
    cwd = _link(f"/proc/{pid}/cwd") or "/"
    real = _link(f"/proc/{pid}/exe")
    places = [called] if called.startswith("/") else []
    if "/" in called and not places:
        places = [os.path.normpath(os.path.join(cwd, called))]
    if not places:
        places = [shutil.which(called, path=environment.get("PATH")) or ""]
    if environment.get("VIRTUAL_ENV"):
        places.append(os.path.join(environment["VIRTUAL_ENV"], "bin", "python"))
    for place in places:
        if place and os.path.exists(place) and os.path.realpath(place) == real:
            return place
    return real


def _log(pid: int) -> str | None:
    """The file that its output goes to; None for a terminal, a pipe or nothing."""
    for number in (1, 2):
        target = _link(f"/proc/{pid}/fd/{number}")
        if target and target.startswith("/") and os.path.isfile(target):
            return target
    return None


def _listens(request: Request, pids: list[int]) -> tuple[str | None, int | None]:
    """(address, port) that the family listens on: the one asked for, else the lowest port."""
    found: list[tuple[int, str, str]] = []
    for name, family in (("/proc/net/tcp", socket.AF_INET), ("/proc/net/tcp6", socket.AF_INET6)):
        try:
            with open(name) as file:
                lines = file.read().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == port.LISTEN:
                local, _, hexadecimal = fields[1].rpartition(":")
                found.append((int(hexadecimal, 16), _address(local, family), fields[9]))
    for number, address, inode in sorted(found):
        wanted = request.get("port")
        if (wanted is None or wanted == number) and port.holders({inode}, pids):
            return address, number
    return None, None


def _address(text: str, family: int) -> str:
    """The kernel writes each 32-bit word in this machine's byte order."""
    data = b"".join(bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8))
    return socket.inet_ntop(family, data)


def _parents(one: Stat) -> list[str]:
    """Who began it, from its parent up: the script or the shell it was typed in."""
    found: list[str] = []
    while one.ppid > 1 and len(found) < 4:
        parent = process.stat(one.ppid)
        if parent is None:
            break
        found.append(process.title(parent.pid)[:120])
        one = parent
    return found


def _gpus(pids: set[int]) -> int | None:
    """How many GPUs its processes hold memory on; None where nvidia-smi does not tell."""
    if not {one.pid for one in gpus.holdings()} & pids:
        return None
    try:
        done = subprocess.run(
            UUIDS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=gpus.TIMEOUT_S,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    rows = [line.split(",") for line in done.stdout.splitlines()]
    return len({row[1].strip() for row in rows if len(row) == 2 and int(row[0]) in pids}) or None


@operation("read_text")
def read_text(request: Request, client: Client) -> str:
    """A script: read, and nothing else."""
    path = os.path.expanduser(request["path"])
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise AgentError("usage", f"cannot be read: {reason}", path) from None
    if len(text) > LARGEST:
        raise AgentError("usage", "it is larger than a megabyte", path)
    return text
