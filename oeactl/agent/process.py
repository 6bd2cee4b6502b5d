"""Processes as /proc tells them: who they are, what they begot, and signals that hit no stranger.

Owns: identity (pid, start time in ticks, boot id), the family of a leader, titles and roles. Refuses: to
find anything by the pattern of a name, and to signal a pid whose start time is not the one recorded.
"""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    Key = tuple[int, int]  # pid, start ticks: unique within one boot


SECRET_WORDS = frozenset(
    ("key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials")
)

_SCHEDULER = re.compile(r"^(?:\w+::)?scheduler(?P<ranks>\S*)")
_RANK = re.compile(r"([A-Z]{2})(\d+)")


class Stat(NamedTuple):
    """One line of /proc/<pid>/stat, as far as it matters here."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    state: str
    ticks: int

    @property
    def key(self) -> Key:
        return (self.pid, self.ticks)

    @property
    def ended(self) -> bool:
        """A zombie is over: its init may never reap it, as in many containers."""
        return self.state in "ZXx"


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def now_ticks() -> int:
    """The host's clock in the unit of start times."""
    with open("/proc/uptime") as file:
        return int(float(file.read().split()[0]) * os.sysconf("SC_CLK_TCK"))


def age_s(ticks: int) -> float:
    """Seconds since a process that has this start time began."""
    return max(0.0, (now_ticks() - ticks) / os.sysconf("SC_CLK_TCK"))


def _fields(pid: int) -> list[bytes] | None:
    """What the kernel tells of it, from the state on; None once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, parentheses and spaces included.
    return text[text.rindex(b")") + 2 :].split()


def stat(pid: int) -> Stat | None:
    fields = _fields(pid)
    if fields is None:
        return None
    return Stat(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), int(fields[19]))


def cpu_s(pid: int) -> float | None:
    """Seconds of CPU that this process (all its threads, no child) has had so far; None once it is gone."""
    fields = _fields(pid)
    if fields is None:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def alive(key: Key) -> bool:
    found = stat(key[0])
    return found is not None and found.ticks == key[1] and not found.ended


def table() -> dict[int, Stat]:
    """Every process there is now."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            one = stat(int(name))
            if one is not None:
                found[one.pid] = one
    return found


def title(pid: int) -> str:
    """The command line as ps would show it, secrets blanked; the name in brackets where there is none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().rstrip(b"\0 ").decode("utf-8", "replace").split("\0")
        if words != [""]:
            return " ".join(without_secrets(words))
        with open(f"/proc/{pid}/comm") as file:
            return f"[{file.read().strip()}]"
    except OSError:
        return ""


def without_secrets(words: list[str]) -> list[str]:
    """argv with the value after (or within) ``--api-key`` and its like replaced."""
    kept: list[str] = []
    hide = False
    for word in words:
        name, equals, _ = word.partition("=")
        secret = bool(SECRET_WORDS.intersection(re.split(r"[-_]+", name.lower())))
        flag = word.startswith("-")
        if hide and not flag:
            kept.append("[redacted]")
        elif secret and equals:
            kept.append(f"{name}=[redacted]")
        else:
            kept.append(word)
        hide = flag and secret and not equals
    return kept


def role(name: str) -> str:
    """'dp0 tp1' of ``sglang::scheduler_DP0_TP1``, 'scheduler' where no rank is named, '' for other titles."""
    found = _SCHEDULER.match(name)
    if not found:
        return ""
    ranks = [kind.lower() + number for kind, number in _RANK.findall(found.group("ranks"))]
    return " ".join(ranks) or "scheduler"


def describe(one: Stat) -> dict[str, object]:
    """The wire's Process."""
    name = title(one.pid)
    return {
        "pid": one.pid,
        "start_ticks": one.ticks,
        "boot_id": boot_id(),
        "title": name[:400],
        "role": role(name),
    }


def named(pid: int) -> str:
    """'pid 4711 (python -m sglang…), for 3 h': for messages about a process that is in the way."""
    one = stat(pid)
    if one is None:
        return f"pid {pid}"
    name = title(pid)
    return (
        f"pid {pid} ({name[:120]}{'…' if len(name) > 120 else ''}), running for {duration(age_s(one.ticks))}"
    )


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"


def keeper(pid: int) -> str:
    """The systemd unit or container that this process lives in ("" for neither): it may start it again."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            return keeper_of(file.read())
    except OSError:
        return ""


def keeper_of(cgroup: str) -> str:
    """``keeper`` from the text of /proc/<pid>/cgroup."""
    if "/kubepods" in cgroup:
        return "a Kubernetes pod"
    container = re.search(r"(?:docker|libpod|cri-containerd)[-/]([0-9a-f]{12})", cgroup)
    if container:
        return f"the container {container[1]}"
    unit = re.search(r"/system\.slice/(?!sshd?\.)([\w@.\\-]+\.service)", cgroup)
    return f"the systemd unit {unit[1]}" if unit else ""


def environment_of(pid: int) -> bytes:
    """What the process was started with, b"" where we may not look or a new title has overwritten it."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def children(processes: dict[int, Stat]) -> dict[int, list[Stat]]:
    found: dict[int, list[Stat]] = {}
    for one in processes.values():
        found.setdefault(one.ppid, []).append(one)
    return found


class Family:
    """Everything that came from one leader. It grows at every look and never shrinks.

    A member is a descendant of a member, or is in the leader's session while that session is provably the
    leader's (the leader or another member of it lives: until then its number cannot be given anew), or was
    begun with ``mark`` (a random ``NAME=value``) in its environment, wherever it went since.
    """

    def __init__(self, leader: Key | None, known: Iterable[Key] = (), mark: str | None = None) -> None:
        self.leader = leader
        self.known: set[Key] = set(known)
        self._mark = mark.encode() if mark else None
        if leader:
            self.known.add(leader)

    def look(self, marks: bool = False) -> list[Stat]:
        """The members alive now, the new ones included. ``marks`` also reads every environment (slower)."""
        processes = table()
        begot = children(processes)
        if marks and self._mark:
            for one in processes.values():
                if self._mark in environment_of(one.pid).split(b"\0"):
                    self.known.add(one.key)
        queue = [one for one in processes.values() if one.key in self.known]
        if self.leader and any(one.sid == self.leader[0] for one in queue):
            queue += [one for one in processes.values() if one.sid == self.leader[0]]
        seen: set[Key] = set()
        while queue:
            one = queue.pop()
            if one.key not in seen and one.pid != os.getpid():
                seen.add(one.key)
                queue += begot.get(one.pid, [])
        self.known |= seen
        return [processes[pid] for pid, _ in sorted(seen) if not processes[pid].ended]


def send(key: Key, number: int) -> bool:
    """Signal exactly this process; False when it is gone, whoever has its pid now. Raises PermissionError."""
    try:
        handle = _handle(key[0])
        try:
            if not alive(key):
                return False
            if handle is None:
                os.kill(key[0], number)
            else:
                signal.pidfd_send_signal(handle, number)
            return True
        finally:
            if handle is not None:
                os.close(handle)
    except ProcessLookupError:
        return False


def _handle(pid: int) -> int | None:
    """A descriptor that stays with this very process; None on a kernel or in a sandbox without pidfd."""
    if not (hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def wait_ended(key: Key, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while alive(key):
        if time.monotonic() >= limit:
            return False
        time.sleep(0.05)
    return True
