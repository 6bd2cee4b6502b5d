"""A stand-in for an engine's server: HTTP, a log like SGLang's, workers renamed as SGLang's are.

Run as a program. Its workers are as naughty as the options say; nothing here imports oeactl.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEATHS = {
    "oom": (
        "[2026-01-02 03:04:05 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "scheduler.py", line 1, in run\n    load()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB\n"
    ),
    "port": "OSError: [Errno 98] error while attempting to bind: address already in use\n",
    "module": (
        "Traceback (most recent call last):\n"
        '  File "<string>", line 1, in <module>\n'
        "ModuleNotFoundError: No module named 'sgl_kernel'\n"
    ),
    "argument": "usage: launch_server.py [-h]\nlaunch_server.py: error: unrecognized arguments: --bogus\n",
    "traceback": (
        "Traceback (most recent call last):\n"
        '  File "topk.py", line 9, in <module>\n    raise ValueError("patched badly")\n'
        "ValueError: patched badly\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "engine.py", line 3, in start\n    raise RuntimeError("init failed")\n'
        "RuntimeError: init failed\n"
    ),
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--workers", default="", help="comma-separated: plain, stubborn, setsid, orphan, daemon"
    )
    parser.add_argument("--slow-start", type=float, default=0.0, help="seconds before it listens")
    parser.add_argument("--held", metavar="FILE", help="it does not listen while this file is there")
    parser.add_argument("--loading", type=float, default=0.0, help="seconds of 503 after that")
    parser.add_argument("--die", choices=DEATHS, help="print this error and end instead of listening")
    parser.add_argument("--stubborn", action="store_true", help="the leader ignores SIGTERM")
    parser.add_argument("--leave-children", action="store_true", help="end without ending the workers")
    parser.add_argument("--no-completion", action="store_true", help="health is fine, completions fail")
    parser.add_argument("--fail-after", type=int, help="so many completions come, the next do not")
    parser.add_argument("--die-once", metavar="FILE", help="with --die: only while this file is not there")
    parser.add_argument("--busy-flushes", type=int, default=0, help="so many flushes are answered 400")
    parser.add_argument("--imports", metavar="MODULE", help="each worker imports it, as a scheduler does")
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0, help="not 0: a part that only says that it lives")
    parser.add_argument("--dist-init-addr", help="where the nodes meet before the first one answers")
    parser.add_argument(
        "--itl-ms", type=float, default=2.0, help="between a stream's tokens; below 0: two at once end it"
    )
    parser.add_argument(
        "--compiles-ms", type=float, default=0.0, help="longer where TRITON_CACHE_DIR was empty at the start"
    )
    parser.add_argument("--answer-ms", type=float, default=50.0, help="before a completion is answered")
    parser.add_argument("--openai", action="store_true", help="no native API")
    parser.add_argument("--api-key")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--tell", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def say(text: str) -> None:
    sys.stderr.write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}\n")
    sys.stderr.flush()


def begin_worker(number: int, manner: str, imports: str | None) -> subprocess.Popen[bytes]:
    """A child under the title that SGLang gives a scheduler; it is what it shall be when this returns."""
    heard, said = os.pipe()
    title = f"sglang::scheduler_TP{number}"
    argv = [title, __file__, "--port", "0", "--worker", manner, "--tell", str(said)]
    argv += ["--imports", imports] if imports else []
    worker = subprocess.Popen(argv, executable=sys.executable, pass_fds=[said])
    os.close(said)
    if not os.read(heard, 1):
        say(f"scheduler {number} ended while it began")
        sys.exit(1)
    os.close(heard)
    return worker


def meet(wanted: argparse.Namespace) -> list[Any]:
    """Wait for all other nodes, or join the first: what holds them together while this is kept."""
    import socket

    host, _, port = wanted.dist_init_addr.rpartition(":")
    if wanted.node_rank:
        while True:
            try:
                return [socket.create_connection((host, int(port)))]
            except ConnectionRefusedError:
                time.sleep(0.1)
    with socket.create_server((host, int(port))) as door:
        say(f"Init torch distributed begin. waiting for {wanted.nnodes - 1} nodes")
        return [door.accept()[0] for _ in range(wanted.nnodes - 1)]


def work(manner: str, tell: int, imports: str | None) -> None:
    """Sit there as ``manner`` says. orphan: re-parented. daemon: that, and in a session of its own."""
    if manner in ("orphan", "daemon") and os.fork():
        os._exit(0)
    if manner in ("setsid", "daemon"):
        os.setsid()
    if manner in ("stubborn", "daemon"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    folder = os.environ.get("OEACTL_PROOF_DIR")
    if folder and os.environ.get("STANDIN_DIGEST"):
        prove(Path(folder), os.environ["STANDIN_DIGEST"])
    if imports:
        importlib.import_module(imports)
    os.write(tell, b".")
    os.close(tell)
    while True:
        time.sleep(60)


def prove(folder: Path, digest: str) -> None:
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    proof = {
        "kind": "eager", "recipe": "oea", "digest": digest, "parameters": {"k0": 2}, "file": "/e/topk.py",
        "pid": os.getpid(), "start_ticks": ticks, "mode": "DECODE", "layer": 1, "rows": 4, "later": "unknown",
    }  # fmt: skip
    folder.joinpath(f"eager-{os.getpid()}.json").write_text(json.dumps(proof))


class Handler(BaseHTTPRequestHandler):
    """The endpoints of SGLang that oeactl asks."""

    wanted: argparse.Namespace
    loaded_at = 0.0
    flushes = 0
    completions = 0
    cold = False
    streams = 0
    at_once = 0
    most_at_once = 0
    lock = threading.Lock()

    def log_message(self, format: str, *args: Any) -> None:
        say(f'INFO:     127.0.0.1:1 - "{format % args}"')

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/health":
            self.send(200 if time.time() >= self.loaded_at else 503)
        elif self.wanted.node_rank:
            self.send(404)
        elif not self.allowed():
            self.send(401, {"error": "Unauthorized"})
        elif path == "/v1/models":
            self.send(200, {"data": [{"id": "tiny"}]})
        elif path == "/get_server_info" and not self.wanted.openai:
            command = f"launch_server --api-key {self.wanted.api_key} --max-total-tokens 9"
            state = {"most_at_once": self.most_at_once, "hf_token": "hf_1234567"}
            told = {"api_key": self.wanted.api_key, "launch_command": command, "internal_states": [state]}
            self.send(200, {**told, "version": "0.0.1", "max_total_tokens": 9, "tokenizer_path": "/m"})
        elif path == "/model_info" and not self.wanted.openai:
            self.send(200, {"model_path": "/m"})
        else:
            self.send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        path = self.path.partition("?")[0]
        if self.wanted.node_rank:
            self.send(404)
        elif not self.allowed():
            self.send(401, {"error": "Unauthorized"})
        elif path == "/flush_cache":
            Handler.flushes += 1
            self.send(400 if Handler.flushes <= self.wanted.busy_flushes else 200)
        elif path == "/generate" and not self.wanted.openai:
            prompt = body["input_ids"] if "input_ids" in body else body["text"].split()
            self.generate(len(prompt), body["sampling_params"]["max_new_tokens"], body.get("stream", False))
        elif path == "/v1/completions" and self.wanted.openai:
            known = {"model", "prompt", "max_tokens", "temperature"}
            unknown = body["model"] != "tiny" or set(body) - known
            usage = {"completion_tokens": body["max_tokens"]}
            self.send(422 if unknown else 200, {"choices": [{"text": "a"}], "usage": usage})
        else:
            self.send(404, {"detail": "Not Found"})

    def generate(self, prompt: int, count: int, stream: bool) -> None:
        if self.wanted.no_completion:
            self.send(500, {"error": {"message": "no kernel image is available"}})
            return
        with self.lock:
            Handler.completions += 1
            late = self.wanted.fail_after is not None and self.completions > self.wanted.fail_after
        if late:
            self.send(500, {"error": {"message": "the scheduler hangs"}})
            return
        with self.lock:
            Handler.at_once += 1
            Handler.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.wanted.answer_ms / 1000)
        with self.lock:
            Handler.at_once -= 1
        meta = {"prompt_tokens": prompt, "completion_tokens": count, "cached_tokens": 0}
        if stream:
            self.stream(meta, count)
        else:
            self.send(200, {"text": "x", "meta_info": meta})

    def stream(self, meta: dict[str, int], count: int) -> None:
        """One event a token, at a pace, as SGLang streams them."""
        with self.lock:
            Handler.streams += 1
            if self.wanted.itl_ms < 0 and self.streams > 1:
                sys.stderr.write(DEATHS["oom"])
                sys.stderr.flush()
                os._exit(1)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        pace_ms = self.wanted.itl_ms + (self.wanted.compiles_ms if self.cold else 0.0)
        for done in range(1, count + 1):
            event = {"text": "x " * done, "meta_info": {**meta, "completion_tokens": done}}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            time.sleep(max(0.0, pace_ms) / 1000)
        self.wfile.write(b"data: [DONE]\n\n")
        with self.lock:
            Handler.streams -= 1

    def allowed(self) -> bool:
        key = self.wanted.api_key
        return key is None or self.headers.get("Authorization") == f"Bearer {key}"

    def send(self, status: int, body: Any = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main() -> None:
    wanted = options()
    if wanted.worker:
        work(wanted.worker, wanted.tell, wanted.imports)
    say("server_args={'model_path': '/m', 'api_key': 'sk-in-the-log'}")
    manners = list(filter(None, wanted.workers.split(",")))
    first = wanted.node_rank * len(manners)
    workers = [begin_worker(first + n, manner, wanted.imports) for n, manner in enumerate(manners)]
    say("Load weight begin. avail mem=20.58 GB")
    sys.stderr.write(
        "\rLoading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.4it/s]\r"
    )
    sys.stderr.flush()
    time.sleep(wanted.slow_start)
    while wanted.held and Path(wanted.held).exists():
        time.sleep(0.05)
    if wanted.die and not (wanted.die_once and Path(wanted.die_once).exists()):
        if wanted.die_once:
            Path(wanted.die_once).touch()
        sys.stderr.write(DEATHS[wanted.die])
        sys.exit(1)
    others = meet(wanted) if wanted.nnodes > 1 else []

    def end(number: int, frame: object) -> None:
        for worker in [] if wanted.leave_children else workers:
            worker.terminate()
        os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if wanted.stubborn else end)
    Handler.wanted, Handler.loaded_at = wanted, time.time() + wanted.loading
    if wanted.compiles_ms:
        cache = Path(os.environ["TRITON_CACHE_DIR"])
        Handler.cold = not (cache / "kernel-0").exists()
        cache.mkdir(parents=True, exist_ok=True)
        for number in range(9):
            cache.joinpath(f"kernel-{number}").write_text("compiled")
    server = Server(("127.0.0.1", wanted.port), Handler)
    say("Application startup complete.")
    if not wanted.loading:
        say("The server is fired up and ready to roll!")
    server.serve_forever()
    del others


if __name__ == "__main__":
    main()
