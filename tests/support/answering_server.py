"""A scripted server with OpenAI's API and log-probabilities, in a thread: its answers are as told.

manner: exact; noisy (an answer forks somewhere, each time otherwise: planted nondeterminism); wrong (other
answers, always the same). form: completions, chat (no other endpoint), silent (no log-probabilities).
"""

from __future__ import annotations

import json
import random
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import log
from typing import Any


class Script:
    """How the server answers now; a test changes it at will. strict: unknown fields are answered 422.

    takes_s: of each answer.
    """

    def __init__(self) -> None:
        self.manner = "exact"
        self.form = "completions"
        self.strict = False
        self.fails = False
        self.takes_s = 0.0
        self.key: str | None = None
        self.chance = random.Random(11)
        self.lock = threading.Lock()
        self.asked: list[str] = []
        self.flying = 0
        self.most_at_once = 0
        self.url = ""

    def tokens(self, prompt: str, length: int) -> list[int]:
        seed = zlib.crc32(prompt.encode())
        tokens = [(seed + 31 * at) % 900 for at in range(length)]
        if self.manner == "wrong":
            return [*tokens[:2], *(token + 1000 for token in tokens[2:])]
        if self.manner == "noisy":
            with self.lock:
                fork, salt = self.chance.randrange(2 * length), self.chance.randrange(1, 50)
            return [*tokens[:fork], *(token + 1000 * salt for token in tokens[fork:])]
        return tokens


class _Handler(BaseHTTPRequestHandler):
    script: Script

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self.send(200 if self.path == "/v1/models" else 404, {"data": [{"id": "scripted"}]})

    def do_POST(self) -> None:
        script = self.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with script.lock:
            script.asked.append(self.path)
            script.flying += 1
            script.most_at_once = max(script.most_at_once, script.flying)
        time.sleep(script.takes_s)
        status, value = self.answer(body)
        with script.lock:
            script.flying -= 1  # before it is sent: who has it may ask again at once
        self.send(status, value)

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        script = self.script
        if script.key and self.headers.get("Authorization") != f"Bearer {script.key}":
            return 401, {"error": "Unauthorized"}
        if script.fails:
            return 500, {"error": "CUDA error"}
        if script.strict and "ignore_eos" in body:
            return 422, {"detail": "extra fields"}
        if self.path == "/v1/completions" and script.form != "chat":
            return 200, {"choices": [self.completion(body)]}
        if self.path == "/v1/chat/completions" and script.form == "chat":
            return 200, {"choices": [self.chat(body)]}
        return 404, {"detail": "Not Found"}

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = [str(token) for token in self.script.tokens(body["prompt"], body["max_tokens"])]
        if self.script.form == "silent":
            return {"text": "".join(tokens), "logprobs": None}
        tops = [{token: log(0.7), "other": log(0.2)} for token in tokens]
        return {"text": "", "logprobs": {"tokens": tokens, "token_logprobs": [], "top_logprobs": tops}}

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = self.script.tokens(body["messages"][0]["content"], body["max_tokens"])
        content = [
            {"token": str(t), "top_logprobs": [{"token": str(t), "logprob": log(0.7)}]} for t in tokens
        ]
        return {"message": {"content": ""}, "logprobs": {"content": content}}

    def send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def answering() -> Iterator[Script]:
    """A server on a free port of loopback, for the length of the block."""
    script = Script()
    handler = type("Handler", (_Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
