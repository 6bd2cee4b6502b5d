"""The program: an order in, rows out. ``main([in, out])`` runs one burst and returns an exit code.

Owns: the processes, their common beginning, the line that says how far they are, the file of results. The
order and the result are JSON, the result compressed (zlib). Refuses: to report to anybody but its two files
and stdout; whoever ends this process ends the others too.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import multiprocessing
import os
import selectors
import signal
import struct
import sys
import time
import traceback
import zlib
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .burst import Burst, Requests, Told
from .prompts import Prompts

if TYPE_CHECKING:  # CPython 3.8 cannot subscript these at run time
    from collections.abc import Callable

TELL_EVERY_S = 0.5
HEAD_START_S = 0.05
FIRST = 64  # prompts that are hashed where their number is open
SPARE_FILES = 64
PR_SET_PDEATHSIG = 1
COUNTS = struct.Struct("qqq")
BEGIN = struct.Struct("d")
#: Bounds and habits that an order may leave out.
DEFAULTS = {
    "processes": 1,
    "rate": None,
    "duration_s": None,
    "ignore_eos": True,
    "stall_s": 120.0,
    "first_s": 900.0,
    "texts": 32,
    "text_chars": 4000,
    "prepare_bytes": 256 << 20,
}


def main(words: list[str]) -> int:
    """Run the order in the file words[0], behind this program itself; write the result to words[1]."""
    with open(words[0], "rb") as file:
        file.read(int(file.readline().split()[0]))
        order = {**DEFAULTS, **json.loads(zlib.decompress(file.read()))}
    problem = allow_files(order["concurrency"] + SPARE_FILES)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    result = run(order, tell)
    data = zlib.compress(json.dumps(result, allow_nan=False).encode(), 6)
    with open(words[1], "wb") as file:
        file.write(data)
    return 0


def tell(over: int, failed: int, tokens: int, seconds: float) -> None:
    print(json.dumps({"over": over, "failed": failed, "tokens": tokens, "seconds": seconds}), flush=True)


def allow_files(wanted: int) -> str:
    """Raise this process's limit of open files to ``wanted``; why that cannot be, or nothing."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted or soft == resource.RLIM_INFINITY:
        return ""
    target = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        if target >= wanted:
            return ""
    return f"only {hard} files may be open here, and these streams need {wanted}: ulimit -n"


def run(order: dict[str, Any], tell: Callable[[int, int, int, float], None]) -> dict[str, Any]:
    """Fork the processes, wait for them all, put their rows together."""
    processes = max(1, min(order["processes"], order["concurrency"]))
    prompts = Prompts(order["prompts"], seed=order["seed"], output_len=order["output_len"])
    bounded = order["duration_s"] is None
    # Made before the load begins: what is drawn or hashed later would cost it time.
    digest = prompts.sha256(order["requests"] if bounded else FIRST)
    requests = Requests(order, prompts)
    requests.prepare(order["requests"] if bounded else 0, order["prepare_bytes"])
    board = Board(processes)
    take = _tickets(order["requests"] if bounded else 1 << 40)
    pipes = [_fork(partial(_share, order, requests, index, take, board)) for index in range(processes)]
    board.start()
    parts = _gather(pipes, lambda: tell(*board.sums(), round(board.elapsed(), 1)))
    rows = sorted((row for part in parts for row in part["rows"]), key=lambda row: row["number"])
    return {
        "began_at": time.time() - board.elapsed(),
        "workload_sha256": digest,
        "rows": rows,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "clients": [part["client"] for part in parts],
    }


class Board:
    """Memory that parent and children share: when all begin, and how far each is."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self._memory = mmap.mmap(-1, COUNTS.size * (processes + 1))

    def start(self) -> None:
        """Have all begin in a moment."""
        BEGIN.pack_into(self._memory, 0, perf_counter() + HEAD_START_S)

    def begin(self) -> float:
        """When all begin, once the parent has said so."""
        while True:
            at: float = BEGIN.unpack_from(self._memory, 0)[0]
            if at:
                return at
            time.sleep(0.001)

    def elapsed(self) -> float:
        return max(0.0, perf_counter() - float(BEGIN.unpack_from(self._memory, 0)[0]))

    def tell(self, index: int, over: int, failed: int, tokens: int) -> None:
        COUNTS.pack_into(self._memory, COUNTS.size * (index + 1), over, failed, tokens)

    def sums(self) -> tuple[int, int, int]:
        counts = [
            COUNTS.unpack_from(self._memory, COUNTS.size * (index + 1)) for index in range(self.processes)
        ]
        over, failed, tokens = (sum(column) for column in zip(*counts))  # noqa: B905  # strict= is 3.10
        return over, failed, tokens


def _tickets(count: int) -> Callable[[], int | None]:
    """The next request's number, over all processes."""
    value = multiprocessing.get_context("fork").Value("q", 0)

    def take() -> int | None:
        with value.get_lock():
            number = value.value
            value.value = number + 1
        return number if number < count else None

    return take


def _share(
    order: dict[str, Any], requests: Requests, index: int, take: Callable[[], int | None], board: Board
) -> dict[str, Any]:
    """What one process does."""
    share = (index, board.processes)
    burst = Burst(order, requests, share=share, take=take, told=Told(partial(board.tell, index)))
    return burst.run(board.begin())


def _fork(work: Callable[[], dict[str, Any]]) -> tuple[int, int]:
    """(process id, a pipe that brings what ``work`` returned there)."""
    sys.stdout.flush()
    reader, writer = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 1
    try:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
            code = 0
    except BaseException:  # noqa: BLE001  # a forked child must never return into its parent's code
        traceback.print_exc()
    finally:
        os._exit(code)


def _gather(pipes: list[tuple[int, int]], tell: Callable[[], None]) -> list[dict[str, Any]]:
    """What each process sent, telling meanwhile. Raises RuntimeError where one died."""
    held: dict[int, list[bytes]] = {reader: [] for _, reader in pipes}
    with selectors.DefaultSelector() as selector:
        for reader in held:
            selector.register(reader, selectors.EVENT_READ)
        told_at = perf_counter()
        while selector.get_map():
            for key, _ in selector.select(TELL_EVERY_S):
                data = os.read(key.fd, 1 << 20)
                held[key.fd].append(data)
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
            if perf_counter() - told_at >= TELL_EVERY_S:
                told_at = perf_counter()
                tell()
    tell()
    codes = [os.waitpid(pid, 0)[1] for pid, _ in pipes]
    if any(codes):
        raise RuntimeError(f"a process of the load client died: wait status {codes}")
    return [json.loads(b"".join(parts)) for parts in held.values()]
