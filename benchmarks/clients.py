"""Load clients side by side: CPU a token, tokens a second, and how wrong their gaps between tokens are.

    python benchmarks/clients.py [--streams 64,256,512,1024] [--clients light,sglang] [--itl-ms 20]

One scripted server streams every answer at a fixed pace, so the ideal is known: streams / gap. It answers
``/generate`` as SGLang does (text that grows, counts in every event), does next to nothing a token, and notes
when it sent each one: an error is the difference between a gap as the client reports it and as it was. Server
and client have a core each where there are two; with ``--first`` (root) nobody else gets one meanwhile. CPU
is that of the client's processes between its first request and its last token, as the server saw them:
neither imports nor reports count.

Owns: the server, the runs, the table. Bars: the least CPU a token and the smallest error of the Python
clients at every number of streams; at 512 at least 0.97 of the ideal.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

OUTPUT_LEN = 128
INPUT_LEN = 8
WAVES = 3
TTFT_S = 0.05
BAR_IDEAL = 0.97
TAG = b"REQUEST_"
FIRST = "OEACTL_BENCHMARK_FIRST"
TICKS = os.sysconf("SC_CLK_TCK")


# -- the server: one process, one loop, what it writes made beforehand ------------------------------


def events(tokens: int) -> list[bytes]:
    """The chunk of each token, as SGLang writes it; the last one with TAG in its text, and the body's end."""
    made, text = [], ""
    for count in range(1, tokens + 1):
        text += f"word{count} " if count < tokens else TAG.decode()
        meta = {
            "id": "0" * 32,
            "finish_reason": {"type": "length", "length": tokens} if count == tokens else None,
            "prompt_tokens": INPUT_LEN,
            "completion_tokens": count,
            "cached_tokens": 0,
            "e2e_latency": 0.1,
        }
        body = b"data: " + json.dumps({"text": text, "meta_info": meta}).encode() + b"\n\n"
        made.append(b"%x\r\n%s\r\n" % (len(body), body))
    end = b"data: [DONE]\n\n"
    made[-1] += b"%x\r\n%s\r\n0\r\n\r\n" % (len(end), end)
    return made


HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)


@dataclass(eq=False)
class Peer:
    """One connection."""

    socket: socket.socket
    held: bytes = b""
    token: int = 0
    request: int = 0


class Pace:
    """All streams have one gap, so those that are due stand in one queue, in order."""

    def __init__(self, listener: socket.socket, itl_s: float) -> None:
        self._listener = listener
        self._itl_s = itl_s
        self._events = events(OUTPUT_LEN)
        self._first: deque[tuple[float, Peer]] = deque()
        self._next: deque[tuple[float, Peer]] = deque()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._reset()

    def _reset(self) -> None:
        self.stats: dict[str, Any] = {"begun": 0.0, "ended": 0.0, "late_s": 0.0, "prompts": [], "sent": []}

    def run(self) -> None:
        while True:
            now = time.perf_counter()
            due = min((queue[0][0] for queue in (self._first, self._next) if queue), default=now + 1.0)
            for key, _ in self._selector.select(max(0.0, due - now)):
                if key.data is None:
                    self._accept()
                else:
                    self._read(key.data)
            self._speak()

    def _accept(self) -> None:
        one, _ = self._listener.accept()
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(one, selectors.EVENT_READ, Peer(one))

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        peer.held += data
        head, found, body = peer.held.partition(b"\r\n\r\n")
        if not found:
            return
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        if len(body) < length:
            return
        peer.held = body[length:]
        self._answer(peer, head.split(b" ", 2)[1], body[:length])

    def _answer(self, peer: Peer, path: bytes, body: bytes) -> None:
        if path != b"/generate":
            told = self.stats if path == b"/stats" else {"data": [], "internal_states": [{}]}
            if path == b"/reset":
                self._reset()
            data = json.dumps(told).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            peer.socket.sendall(head % len(data) + data)
            return
        now = time.perf_counter()
        self.stats["begun"] = self.stats["begun"] or now
        peer.token, peer.request = 0, len(self.stats["sent"])
        self.stats["prompts"].append(json.loads(body)["input_ids"])
        self.stats["sent"].append([])
        peer.socket.sendall(HEAD)
        self._first.append((now + TTFT_S, peer))

    def _speak(self) -> None:
        """Write what is due."""
        for queue in (self._first, self._next):
            while queue and queue[0][0] <= time.perf_counter():
                due, peer = queue.popleft()
                data = self._events[peer.token]
                if peer.token == OUTPUT_LEN - 1:
                    data = data.replace(TAG, b"%08d" % peer.request)
                now = time.perf_counter()
                try:
                    peer.socket.send(data)
                except OSError:
                    self._drop(peer)
                    continue
                self.stats["sent"][peer.request].append(now)
                self.stats["late_s"] = max(self.stats["late_s"], now - due)
                peer.token += 1
                if peer.token < OUTPUT_LEN:
                    self._next.append((due + self._itl_s, peer))
                else:
                    self.stats["ended"] = now

    def _drop(self, peer: Peer) -> None:
        try:
            self._selector.unregister(peer.socket)
        except (KeyError, ValueError):
            return
        peer.socket.close()


def serve(itl_s: float, told: Any, core: int | None) -> None:
    pin(core)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    told.send(listener.getsockname()[1])
    Pace(listener, itl_s).run()


# -- what is measured -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of one client at one number of streams. errors: |gap - what it was| in milliseconds, sorted."""

    client: str
    streams: int
    tokens: int
    tokens_per_s: float
    errors: list[float] = field(repr=False)
    cpu_s: float = 0.0
    server_late_ms: float = 0.0

    def error(self, share: float) -> float:
        return self.errors[min(len(self.errors) - 1, int(share * len(self.errors)))]


def pin(core: int | None) -> None:
    """Keep to one core; before all others on this machine where ``--first`` says so."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    if FIRST in os.environ:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class Watched(threading.Thread):
    """CPU seconds of a process and all it began, sampled with the time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._seen: dict[int, float] = {}
        self.samples: list[tuple[float, float]] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            for pid in family(self._pid):
                spent = cpu(pid)
                if spent is not None:
                    self._seen[pid] = spent
            self.samples.append((time.perf_counter(), sum(self._seen.values())))

    def between(self, begun: float, ended: float) -> float:
        before = [spent for at, spent in self.samples if at <= begun]
        upto = [spent for at, spent in self.samples if at <= ended + 0.06]
        return (upto[-1] if upto else 0.0) - (before[-1] if before else 0.0)


def family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            children = []
        found += [int(child) for child in children]
    return found


def cpu(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS


def measured(
    name: str, argv: list[str], env: dict[str, str], url: str, core: int | None
) -> tuple[float, dict[str, Any]]:
    """CPU seconds between the first request and the last token, and what the server saw."""
    get(f"{url}/reset")
    process = subprocess.Popen(
        argv,
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: pin(core),
    )
    watched = Watched(process.pid)
    watched.start()
    _, stderr = process.communicate(timeout=600)
    watched.over.set()
    watched.join()
    if process.returncode != 0:
        raise SystemExit(f"{name} ended with {process.returncode}: {stderr.decode()[-400:]}")
    stats = get(f"{url}/stats")
    return watched.between(stats["begun"], stats["ended"]), stats


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def light(url: str, streams: int, core: int | None) -> Figures:
    from oeactl.edges import load_program
    from oeactl.loadgen.prompts import Prompts

    order = {
        "url": url,
        "api": "generate",
        "model": "m",
        "concurrency": streams,
        "requests": WAVES * streams,
        "output_len": OUTPUT_LEN,
        "seed": 1,
        "deadline_s": 300.0,
        "texts": 0,
        "prompts": {"kind": "ids", "length": INPUT_LEN, "low": 10, "high": 400},
    }
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "in"), Path(folder, "out")
        given.write_bytes(load_program.begin(order))
        words = {"{in}": str(given), "{out}": str(out)}
        argv = [words.get(word, word) for word in load_program.argv(sys.executable)]
        spent, stats = measured("light", argv, {}, url, core)
        rows = load_program.result(out.read_bytes())["rows"]
    failed = [row["error"] for row in rows if row["error"]]
    if failed:
        raise SystemExit(f"light: {len(failed)} requests failed: {failed[0]}")
    tokens = sum(row["tokens"] for row in rows)
    duration = max(row["sent_s"] + row["e2e_s"] for row in rows) - min(row["sent_s"] for row in rows)
    sent = {tuple(prompt): times for prompt, times in zip(stats["prompts"], stats["sent"], strict=True)}
    prompts = Prompts(order["prompts"], seed=1, output_len=OUTPUT_LEN)
    pairs = [(row["itls_s"], sent[tuple(prompts[row["number"]][0])]) for row in rows]
    return figures("light", streams, tokens, duration, pairs, spent, stats)


def sglang(url: str, streams: int, core: int | None) -> Figures:
    """SGLang's Python client, out of the engine that serves on this CPU."""
    from demo import world

    engine = world.installed()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.jsonl")
        argv = [
            *(str(engine.python), "-m", "sglang.benchmark.serving", "--backend", "sglang"),
            *("--base-url", url, "--model", str(engine.model), "--tokenizer", str(engine.model)),
            *("--dataset-name", "random-ids", "--tokenize-prompt", "--random-range-ratio", "1.0"),
            *("--random-input-len", str(INPUT_LEN), "--random-output-len", str(OUTPUT_LEN)),
            *("--num-prompts", str(WAVES * streams), "--max-concurrency", str(streams), "--seed", "1"),
            *("--warmup-requests", "0", "--disable-tqdm", "--output-file", str(out), "--output-details"),
        ]
        env = {**world.server_env(engine.site), "OMP_NUM_THREADS": "1"}
        spent, stats = measured("sglang", argv, env, url, core)
        line = json.loads(out.read_text().splitlines()[-1])
    if line["completed"] != WAVES * streams:
        raise SystemExit(f"sglang: {line['completed']} of {WAVES * streams} completed")
    tokens = line["total_output_tokens"]
    numbers = [int(text[-8:]) for text in line["generated_texts"]]
    pairs = [(gaps, stats["sent"][number]) for gaps, number in zip(line["itls"], numbers, strict=True)]
    return figures("sglang", streams, tokens, line["duration"], pairs, spent, stats)


def figures(
    client: str,
    streams: int,
    tokens: int,
    duration_s: float,
    pairs: list[tuple[list[float], list[float]]],
    cpu_s: float,
    stats: dict[str, Any],
) -> Figures:
    """pairs: of each request, its gaps as reported and the times when its tokens were sent."""
    errors = [
        abs(gap - (after - before)) * 1e3
        for gaps, sent in pairs
        for gap, before, after in zip(reversed(gaps), sent[-2::-1], sent[:0:-1], strict=False)
    ]
    return Figures(
        client=client,
        streams=streams,
        tokens=tokens,
        tokens_per_s=tokens / duration_s,
        errors=sorted(errors),
        cpu_s=cpu_s,
        server_late_ms=stats["late_s"] * 1e3,
    )


CLIENTS: dict[str, Callable[[str, int, int | None], Figures]] = {"light": light, "sglang": sglang}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", default="64,256,512,1024")
    parser.add_argument("--clients", default="light,sglang")
    parser.add_argument("--itl-ms", type=float, default=20.0)
    parser.add_argument("--first", action="store_true", help="before all else on a busy machine; needs root")
    given = parser.parse_args()
    if given.first:
        os.environ[FIRST] = "1"
    cores = sorted(os.sched_getaffinity(0))
    server_core, client_core = (cores[0], cores[1]) if len(cores) > 1 else (None, None)
    itl_s = given.itl_ms / 1e3
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=serve, args=(itl_s, theirs, server_core), daemon=True
    )
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}"
    try:
        return table(
            [
                CLIENTS[client](url, int(streams), client_core)
                for streams in given.streams.split(",")
                for client in given.clients.split(",")
            ],
            itl_s,
        )
    finally:
        server.terminate()


def table(rows: list[Figures], itl_s: float) -> int:
    print(f"tokens {itl_s * 1e3:g} ms apart, {OUTPUT_LEN} a request, {WAVES} requests a stream")
    print("streams  client  CPU us/token   tok/s  of ideal  ITL error ms p50    p99  server late ms")
    good = True
    for row in rows:
        ideal = row.streams * OUTPUT_LEN / (TTFT_S + (OUTPUT_LEN - 1) * itl_s)
        share = row.tokens_per_s / ideal
        print(
            f"{row.streams:7} {row.client:>7} {row.cpu_s / row.tokens * 1e6:13.1f} {row.tokens_per_s:7.0f} "
            f"{share:9.3f} {row.error(0.5):17.3f} {row.error(0.99):6.2f} {row.server_late_ms:15.1f}"
        )
        if row.client == "light":
            good = good and all(least(row, other) for other in rows if other.streams == row.streams)
            good = good and (row.streams != 512 or share >= BAR_IDEAL)
    print(f"the bars hold: {'yes' if good else 'no'}")
    return 0 if good else 1


def least(ours: Figures, other: Figures) -> bool:
    """Whether no other client spends less a token or errs less."""
    return (
        ours.cpu_s / ours.tokens <= other.cpu_s / other.tokens
        and ours.error(0.5) <= other.error(0.5)
        and ours.error(0.99) <= other.error(0.99)
    )


if __name__ == "__main__":
    raise SystemExit(main())
