"""Waiting until a server that was begun answers: its process, its log, its health, then a real completion.

Owns: ``server.await_ready``. Refuses: to take another server's answer for ours, to pile up probes, and to
outlast its deadline. Nothing is ended here.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from . import commands, containers, http, log, port, process, record, units
from .server import root_of
from .wire import operation

if TYPE_CHECKING:
    from .http import Answer
    from .process import Key
    from .record import Record
    from .wire import Client, Request

POLL_S = 0.2
TOLD_EVERY_S = 2.0
CLOSED_S = 0.25  # between looks at a port where nobody listens
QUICK_S = 2.0  # after a quick 503: the engine says "starting" and generates nothing
SLOW_S = 10.0  # after anything else: probes that pile up can crash a scheduler
PROBE_TIMEOUT_S = 30.0
COMPLETION_TIMEOUT_S = 900.0  # the first one may compile kernels
CANARY_AT_ONCE = 8
CANARY_TIMEOUT_S = 120.0  # of one completion, once the first has come
TAIL_LINES = 20
PHASE_S = 5.0  # so long a known phase stands before any other line is told
STATUS_EVERY_S = 2.0
STATUS_TRIES = 3
AGAIN = "it failed, and something starts it again (a restart policy, a loop in a script)"
HEALTH_PATHS = ("/ready", "/health", None)

NATIVE = {
    "input_ids": [3, 4, 5, 6, 7, 8],
    "sampling_params": {"max_new_tokens": 2, "temperature": 0, "ignore_eos": True},
}
OPENAI = {"prompt": "1 2 3", "max_tokens": 2, "temperature": 0}


class Probe(threading.Thread):
    """Asks one thing at a time: is it well, then for a completion, then for ``canary`` more, some at once.

    done: an answer has settled it.
    seen: the last answer in words. refusal: a completion that no waiting will mend.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(daemon=True)
        self.seen = ""
        self.refusal = ""
        self.done = threading.Event()
        self.nudge = threading.Event()  # the log says it is up
        self._request = request
        self._paths = list(HEALTH_PATHS)
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()
        self.nudge.set()

    def run(self) -> None:
        while not self._stopped.is_set() and not self.done.is_set():
            self._wait(self._ask())

    def _wait(self, seconds: float) -> None:
        self.nudge.wait(seconds)
        self.nudge.clear()

    def _ask(self) -> float:
        """One step; the seconds until the next."""
        if self._paths[0] is not None:
            answer = self._fetch(self._paths[0])
            if answer.refused:
                return CLOSED_S
            if answer.status in (401, 403, 404, 405):
                self._paths.pop(0)
                return 0.0
            self.seen = answer.error or f"{self._paths[0]} {answer.status}"
            if answer.status != 200:
                return QUICK_S if answer.status and answer.seconds < 1.0 else SLOW_S
        self.seen = "waiting for a first completion"
        return self._judge(self._complete())

    def _fetch(
        self, path: str, body: dict[str, Any] | None = None, timeout_s: float = PROBE_TIMEOUT_S
    ) -> Answer:
        return http.fetch(
            self._request["url"],
            path,
            method="GET" if body is None else "POST",
            body=None if body is None else json.dumps(body).encode(),
            api_key=self._request.get("api_key"),
            timeout_s=timeout_s,
        )

    def _complete(self, timeout_s: float = COMPLETION_TIMEOUT_S) -> Answer:
        if self._request["kind"] == "sglang":
            return self._fetch("/generate", NATIVE, timeout_s)
        models = self._fetch("/v1/models").json()
        names = [one.get("id") for one in models.get("data", [])] if isinstance(models, dict) else []
        body = {"model": self._request.get("model") or (names[0] if names else ""), **OPENAI}
        answer = self._fetch("/v1/completions", body, timeout_s)
        if answer.status in (404, 405):
            chat = {**body, "messages": [{"role": "user", "content": body.pop("prompt")}]}
            chat.pop("prompt", None)
            return self._fetch("/v1/chat/completions", chat, timeout_s)
        return answer

    def _judge(self, answer: Answer) -> float:
        if answer.refused:
            return CLOSED_S
        if answer.status == 200 and generated(answer.json()):
            self.refusal = self._canary(int(self._request.get("canary") or 0))
            self.done.set()
            return 0.0
        text = answer.error or answer.body[:300].decode("utf-8", "replace")
        self.seen = f"a completion was answered {answer.status}: {text}"
        if 400 <= answer.status < 500 and answer.status not in (408, 429):
            self.refusal = self.seen
            self.done.set()
        return SLOW_S

    def _canary(self, count: int) -> str:
        """What is wrong with ``count`` more completions, "" when all came. Some servers hang at the 100th."""
        came: list[bool] = []

        def one(number: int) -> str:
            if self._stopped.is_set():
                return ""
            answer = self._complete(CANARY_TIMEOUT_S)
            came.append(True)
            self.seen = f"waiting for canary completions: {len(came)}/{count}"
            if answer.status == 200 and generated(answer.json()):
                return ""
            return answer.error or f"HTTP {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"

        wrong = [text for text in http.side_by_side(one, list(range(count)), CANARY_AT_ONCE) if text]
        return f"{len(wrong)} of {count} canary completions failed: {wrong[0]}" if wrong else ""


def generated(body: Any) -> bool:
    """Whether this answer holds at least one generated token, by the engine's own count where it has one."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict) or body.get("error"):
        return False
    count = (body.get("meta_info") or body.get("usage") or {}).get("completion_tokens")
    if count is not None:
        return int(count) > 0
    choices = body.get("choices") or []
    return bool(body.get("text") or any(one.get("text") or one.get("message") for one in choices))


class Watch:
    """What is known about the start while we wait. Answers are "what is wrong", None while nothing is."""

    def __init__(self, request: Request, last: Record | None) -> None:
        self.request = request
        self.port = port.port_of(request["url"])
        wanted = (request["process"]["pid"], request["process"]["start_ticks"])
        self.leader: Key | None = wanted if wanted[0] else None
        self.since = wanted[1]
        ours = last is not None and last.key == wanted
        self.family = last.members() if last and ours else process.Family(self.leader)
        path = request["log"] or (last.log if last and ours else "")
        self.tail = log.Tail(path, last.log_begin if last and ours else 0)
        self.text = "starting"
        self.done: float | None = None
        self.total: float | None = None
        self._phase_until = 0.0
        self._status_at, self._status_failed = time.monotonic() + STATUS_EVERY_S, 0
        self._looked_at = 0.0
        self._restarts = units.restarts_of(request) + containers.restarts_of(request)
        self.loops = False

    def read_log(self, probe: Probe | None = None) -> None:
        for line in self.tail.read():
            one = log.said(line, self.text)
            if one and (one.known or time.monotonic() > self._phase_until):
                self.text, self.done, self.total = one.text, one.done, one.total
                if one.known:
                    self._phase_until = time.monotonic() + PHASE_S
                if probe and one.text == log.UP:
                    probe.nudge.set()

    def death(self) -> str | None:
        if self.tail.error.begins_again:
            self.loops = True
            return AGAIN
        if self.leader:
            if process.alive(self.leader):
                return None
            self.loops = self._starts_again()
            return AGAIN if self.loops else "the server's process ended"
        if time.monotonic() < self._status_at:
            return None
        self._status_at = time.monotonic() + STATUS_EVERY_S
        self._status_failed = self._status_failed + 1 if commands.is_running(self.request) is False else 0
        return "the status command says it does not run" if self._status_failed >= STATUS_TRIES else None

    def _starts_again(self) -> bool:
        unit: str | None = self.request.get("unit")
        container = self.request.get("container")
        if unit:
            return units.starts_again(unit, self._restarts)
        return containers.starts_again(container, self._restarts) if container else False

    def stranger(self, settled: bool = False) -> str | None:
        """Who else holds the port: one look a second, it is slow. settled: somebody must hold it by now."""
        if self.request.get("container"):
            return None  # docker's own proxy may hold its port
        if not settled and time.monotonic() < self._looked_at + 1.0:
            return None
        self._looked_at = time.monotonic()
        members: set[int] = set()
        holders: tuple[int, ...] | None = None
        for _ in range(2):  # ours may be begun, or begin to listen, between two looks: then look again
            members = {one.pid for one in self.family.look()} if port.inodes(self.port) else set()
            holders = port.listeners(self.port, members)
            if holders is None or members.intersection(holders):
                break
        if holders is None:
            return f"nobody on this host listens on port {self.port}" if settled else None
        if self.leader:
            return None if members.intersection(holders) else self._foreign(holders)
        found = process.stat(holders[0]) if holders else None
        return self._foreign(holders) if found and found.ticks < self.since else None

    def _foreign(self, holders: tuple[int, ...]) -> str:
        who = process.named(holders[0]) if holders else "a process that this user may not look into"
        return f"port {self.port} is answered by another server: {who}"

    def failed(self, why: str) -> dict[str, Any]:
        time.sleep(POLL_S)  # its last words
        self.tail.finish()
        error = self.tail.error.found
        kind = "port" if error and error.kind == "port" else None
        return {
            "failed": {
                "why": why,
                "first_error": error.line if error else None,
                "hint": log.REMEDIES.get(error.kind) if error else None,
                "kind": "loop" if self.loops else kind,
                "tail": list(self.tail.last)[-TAIL_LINES:],
            }
        }


@operation("server.await_ready")
def await_ready(request: Request, client: Client) -> dict[str, Any]:
    """Emit ``waiting`` (text, done, total, elapsed_s) until ``{"ready": …}`` or ``{"failed": …}`` is known.

    Without a leader's pid (start commands) the server is whoever listens and began after ``start_ticks``.
    """
    folder = record.state_dir(request)
    last = record.read(folder)
    watch, probe = Watch(request, last), Probe(request)
    begun = time.monotonic()
    probe.start()
    try:
        why = _wait(watch, probe, client, begun, request["deadline_s"])
    finally:
        probe.stop()
    if why:
        return watch.failed(why)
    found = _server(watch)
    if found is None:
        return watch.failed("the server ended after its first completion")
    return {"ready": ready(folder, last, watch, found)}


def ready(folder: str, last: Record | None, watch: Watch, found: process.Stat) -> dict[str, Any]:
    """The wire's Ready; its workers are remembered, so that one that ends later is missed."""
    if last and last.key in (found.key, (0, watch.since)):
        watch.family.known.add(found.key)
        roles = [(one.pid, one.ticks, process.role(process.title(one.pid))) for one in watch.family.look()]
        workers = [one for one in roles if one[2]]
        begun_as = last._replace(pid=found.pid, ticks=found.ticks, workers=workers)
        record.remember(folder, begun_as, watch.family)
    return {"process": process.describe(found), "seconds": process.age_s(found.ticks)}


def _wait(watch: Watch, probe: Probe, client: Client, begun: float, limit_s: float) -> str | None:
    told, told_at = "", 0.0
    while True:
        watch.read_log(probe)
        elapsed = time.monotonic() - begun
        why = watch.death() or watch.stranger()
        if why:
            return f"{why} after {process.duration(elapsed)}"
        if probe.done.is_set():
            return probe.refusal or watch.stranger(settled=True)
        if elapsed > limit_s:
            return f"not ready within {process.duration(limit_s)}; last: {probe.seen or watch.text}"
        text = probe.seen if probe.seen.startswith(("waiting", "a completion")) else watch.text
        if text != told or elapsed - told_at > TOLD_EVERY_S:
            client.emit("waiting", text=text, done=watch.done, total=watch.total, elapsed_s=elapsed)
            told, told_at = text, elapsed
        time.sleep(POLL_S)


def _server(watch: Watch) -> process.Stat | None:
    if watch.leader:
        return process.stat(watch.leader[0]) if process.alive(watch.leader) else None
    holders = port.listeners(watch.port)
    found = process.stat(holders[0]) if holders else None
    return root_of(found) if found else None
