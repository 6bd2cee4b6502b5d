"""The scripted server of ``clients.py``: every answer is streamed at one fixed pace, so the ideal is known.

It answers ``/generate`` as SGLang does (text that grows, counts in every event) and ``/v1/completions`` as
OpenAI does (pieces, the count at the end), does next to nothing a token, and notes when it sent each one. The
last token's text names the request; so does a header ``x-request-id``, where the client sends one.

Owns: one process, one loop, what it writes made beforehand. Refuses: anything else of HTTP.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

OUTPUT_LEN = 128
INPUT_LEN = 8
TTFT_S = 0.05
TAG = b"REQUEST_"
FIRST = "OEACTL_BENCHMARK_FIRST"
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
PATHS = {b"/generate": "generate", b"/v1/completions": "completions"}


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


def event(body: Any) -> bytes:
    return chunk(b"data: " + json.dumps(body).encode() + b"\n\n")


def generated(tokens: int) -> list[bytes]:
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
        made.append(event({"text": text, "meta_info": meta}))
    made[-1] += chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return made


def completed(tokens: int) -> list[bytes]:
    """The same, as OpenAI's completions: the last one brings the usage, ``[DONE]`` and the body's end too."""
    head = {"id": "cmpl-" + "0" * 24, "object": "text_completion", "created": 0, "model": "m"}
    made = []
    for count in range(1, tokens + 1):
        choice = {
            "index": 0,
            "text": f"word{count} " if count < tokens else TAG.decode(),
            "logprobs": None,
            "finish_reason": "length" if count == tokens else None,
        }
        made.append(event({**head, "choices": [choice], "usage": None}))
    usage = {"prompt_tokens": INPUT_LEN, "completion_tokens": tokens, "total_tokens": INPUT_LEN + tokens}
    made[-1] += event({**head, "choices": [], "usage": usage}) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return made


@dataclass(eq=False)
class Peer:
    """One connection."""

    socket: socket.socket
    held: bytes = b""
    token: int = 0
    request: int = 0
    api: str = "generate"


class Pace:
    """All streams have one gap, so those that are due stand in one queue, in order."""

    def __init__(self, listener: socket.socket, itl_s: float) -> None:
        self._listener = listener
        self._itl_s = itl_s
        self._events = {"generate": generated(OUTPUT_LEN), "completions": completed(OUTPUT_LEN)}
        self._first: deque[tuple[float, Peer]] = deque()
        self._next: deque[tuple[float, Peer]] = deque()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._reset()

    def _reset(self) -> None:
        self.stats: dict[str, Any] = {
            "begun": 0.0,
            "ended": 0.0,
            "late_s": 0.0,
            "prompts": [],
            "sent": [],
            "ids": [],
        }

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
        length, name = 0, ""
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
            elif line.lower().startswith(b"x-request-id:"):
                name = line[13:].decode().strip()
        if len(body) < length:
            return
        peer.held = body[length:]
        self._answer(peer, head.split(b" ", 2)[1], body[:length], name)

    def _answer(self, peer: Peer, path: bytes, body: bytes, name: str) -> None:
        api = PATHS.get(path)
        if api is None:
            told = self.stats if path == b"/stats" else {"data": [], "internal_states": [{}]}
            if path == b"/reset":
                self._reset()
            data = json.dumps(told).encode()
            peer.socket.sendall(ANSWER % len(data) + data)
            return
        now = time.perf_counter()
        self.stats["begun"] = self.stats["begun"] or now
        asked = json.loads(body)
        peer.token, peer.request, peer.api = 0, len(self.stats["sent"]), api
        self.stats["prompts"].append(asked.get("input_ids", asked.get("prompt")))
        self.stats["ids"].append(name)
        self.stats["sent"].append([])
        peer.socket.sendall(HEAD)
        self._first.append((now + TTFT_S, peer))

    def _speak(self) -> None:
        """Write what is due."""
        for queue in (self._first, self._next):
            while queue and queue[0][0] <= time.perf_counter():
                due, peer = queue.popleft()
                data = self._events[peer.api][peer.token]
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


def pin(core: int | None) -> None:
    """Keep to one core; before all others on this machine where ``clients.py --first`` says so."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    if FIRST in os.environ:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
