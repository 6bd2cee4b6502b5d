"""What a machine and its cards do while a load runs: one sample a second, until the client goes.

Owns: nvidia-smi's two streams (cards, and who holds their memory), the CPU's load, of the engine's /metrics
the names that were asked for. What is not there is left out, and why is said. Refuses: to judge, and to take
more than a fiftieth of the server's time with /metrics.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import http, process
from .job import MARK
from .wire import operation

if TYPE_CHECKING:
    from .wire import Client, Request

LOOP_S = 1
#: Each under the names that nvidia-smi has had for it; one that this driver does not know is left out.
FIELDS = (
    ("index",),
    ("uuid",),
    ("clocks.sm",),
    ("clocks.mem",),
    ("power.draw",),
    ("enforced.power.limit", "power.limit"),
    ("temperature.gpu",),
    ("temperature.memory",),
    ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    ("utilization.gpu",),
    ("memory.used",),
    ("memory.total",),
)
HOLDERS = "gpu_uuid,pid,used_memory,process_name"
PROGRAM_S = 60.0  # without persistence mode the driver may take its time
METRICS_S = 5.0
METRICS_SHARE = 50
LINES = 4096
PR_SET_PDEATHSIG = 1

_UNKNOWN = re.compile(r'Field "([^"]+)" is not a valid field to query')
_METRIC = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@operation("telemetry")
def telemetry(request: Request, client: Client) -> None:
    """Emit ``sample`` every ``every_s``. machine: also look at it and its cards; own: pids of the server.

    metrics: which names of /metrics; none: it is not asked.
    """
    watch = _Machine(request["own"]) if request["machine"] else None
    metrics = _Metrics(request) if request["metrics"] else None
    due = time.monotonic()
    try:
        while True:
            due = max(due + request["every_s"], time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            sample: dict[str, Any] = {"at": time.time(), "why": {}}
            for part in (watch, metrics):
                if part is not None:
                    part.add(sample)
            client.emit("sample", **sample)
    finally:
        if watch is not None:
            watch.end()


class _Machine:
    """CPU and cards."""

    def __init__(self, own: list[int]) -> None:
        self._own = set(own)
        self._cpu = _cpu()
        self._cards = self._holders = None
        self._fields, self._why = _fields()
        self._known: dict[tuple[int, int], tuple[bool, bool]] = {}
        if self._fields:
            names = ",".join(self._fields)
            self._cards = _Lines("--query-gpu=" + names, f"--loop={LOOP_S}")
            self._holders = _Lines("--query-compute-apps=" + HOLDERS, f"--loop={LOOP_S}")

    def add(self, sample: dict[str, Any]) -> None:
        before, self._cpu = self._cpu, _cpu()
        if before and self._cpu and self._cpu[1] > before[1]:
            sample["cpu_busy"] = round(1 - (self._cpu[0] - before[0]) / (self._cpu[1] - before[1]), 4)
        if self._cards is None or self._holders is None:
            sample["why"]["cards"] = self._why
            return
        sample["fields"] = self._fields
        sample["cards"] = [row for row in map(_row, self._cards.take()) if len(row) == len(self._fields)]
        sample["holders"] = self._held(self._holders.take())
        ended = self._cards.ended()
        if ended:
            sample["why"]["cards"] = f"nvidia-smi ended: {ended}"

    def _held(self, lines: list[str]) -> list[list[Any]]:
        """[card's uuid, pid, MiB, name, of the server, of a job of ours], each holder once."""
        found: dict[tuple[str, int], list[Any]] = {}
        for line in lines:
            fields = [field.strip() for field in line.split(",", 3)]
            if len(fields) == 4 and fields[1].isdigit():
                pid, mib = int(fields[1]), int(fields[2]) if fields[2].isdigit() else None
                found[fields[0], pid] = [fields[0], pid, mib, fields[3][:200], *self._kin(pid)]
        return list(found.values())

    def _kin(self, pid: int) -> tuple[bool, bool]:
        one = process.stat(pid)
        if one is None:
            return False, False
        if one.key not in self._known:
            job = any(
                word.startswith(f"{MARK}=".encode()) for word in process.environment_of(pid).split(b"\0")
            )
            self._known[one.key] = (self._of_server(one), job)
        return self._known[one.key]

    def _of_server(self, one: process.Stat) -> bool:
        """Whether it descends from the server, or is in the session of one of its processes."""
        if one.sid in {own.sid for own in map(process.stat, self._own) if own is not None}:
            return True
        above: process.Stat | None = one
        while above is not None and above.pid > 1:
            if above.pid in self._own:
                return True
            above = process.stat(above.ppid)
        return False

    def end(self) -> None:
        for lines in (self._cards, self._holders):
            if lines is not None:
                lines.end()


def _fields() -> tuple[list[str], str]:
    """The fields this driver knows; why there are none."""
    wanted = [list(names) for names in FIELDS]
    while wanted:
        names = [alternatives[0] for alternatives in wanted]
        argv = ["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PROGRAM_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            there = isinstance(error, subprocess.TimeoutExpired)
            return [], "nvidia-smi does not answer" if there else "no nvidia-smi here"
        text = done.stdout.decode("utf-8", "replace").strip()
        unknown = _UNKNOWN.search(text)
        if unknown is None or unknown[1] not in names:
            said = text.splitlines()[0][:200] if text else f"it ended with {done.returncode}"
            rows = done.returncode == 0 and any(line[:1].isdigit() for line in text.splitlines())
            return (names, "") if rows else ([], f"nvidia-smi: {said}")
        alternatives = wanted[names.index(unknown[1])]
        del alternatives[0]
        wanted = [one for one in wanted if one]
    return [], "nvidia-smi knows none of the fields"


def _row(line: str) -> list[str]:
    return [field.strip() for field in line.split(",")]


class _Lines:
    """nvidia-smi in a loop, and the lines that it has said since they were last taken."""

    def __init__(self, *words: str) -> None:
        self._new: deque[str] = deque(maxlen=LINES)
        self._last = ""
        self._process = subprocess.Popen(
            ["nvidia-smi", *words, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._last = line[:400].decode("utf-8", "replace").strip()
                self._new.append(self._last)

    def take(self) -> list[str]:
        lines = []
        with suppress(IndexError):
            while True:
                lines.append(self._new.popleft())
        return lines

    def ended(self) -> str:
        """What it said last, once it is over; else nothing."""
        if self._process.poll() is None:
            return ""
        self._reader.join(1.0)
        return self._last or f"rc {self._process.returncode}"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(1.0)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _cpu() -> tuple[float, float] | None:
    """(idle, all) seconds of all CPUs since boot."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    second = os.sysconf("SC_CLK_TCK")
    return (ticks[3] + ticks[4]) / second, sum(ticks) / second


class _Metrics:
    """The engine's /metrics, asked by a thread of its own."""

    def __init__(self, request: Request) -> None:
        self._url, self._key = request["url"], request.get("api_key")
        self._names = frozenset(request["metrics"])
        self._every_s = request["every_s"]
        self._new: list[Any] | None = None
        self._why = ""
        threading.Thread(target=self._ask, daemon=True).start()

    def add(self, sample: dict[str, Any]) -> None:
        new, self._new = self._new, None
        if new is not None:
            sample["metrics"] = new
        if self._why:
            sample["why"]["metrics"] = self._why

    def _ask(self) -> None:
        while True:
            answer = http.fetch(self._url, "/metrics", api_key=self._key, timeout_s=METRICS_S)
            if answer.status == 200:
                self._why, self._new = "", parse(answer.body.decode("utf-8", "replace"), self._names)
            else:
                self._why = answer.error or f"/metrics was answered {answer.status}"
            if answer.status in (404, 405):
                return
            time.sleep(max(self._every_s, METRICS_SHARE * answer.seconds))


def parse(text: str, names: frozenset[str]) -> list[Any]:
    """[name, labels, value] of each sample of Prometheus' text form that has one of ``names``; no NaN."""
    found: list[Any] = []
    for line in text.splitlines():
        cut = _METRIC.match(line)
        if cut is None or cut[1] not in names:
            continue
        with suppress(ValueError):
            value = float(cut[3])
            if math.isfinite(value):
                found.append([cut[1], dict(_LABEL.findall(cut[2] or "")), value])
    return found
