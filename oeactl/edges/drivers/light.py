"""The light client as driver: for any server with OpenAI's API, and for SGLang's native one.

Owns: the order it is sent, the reading of its rows, how many processes it gets, what a server must be spared
(``ignore_eos``). Tokens are the server's count; the duration is first send to last token. Refuses: a level
whose prompts it cannot make, and to report a rate where a request has no count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.figures import Counted, measure
from oeactl.core.load import ClientLoad, PerRequest
from oeactl.core.notes import CHARACTERS_A_TOKEN, NOTES, TASKS
from oeactl.core.pace import Pace
from oeactl.core.provenance import DriverRecord
from oeactl.core.redact import REDACTED, redact_text
from oeactl.edges import load_program
from oeactl.edges.drivers.sglang import RunJob
from oeactl.edges.jobs import JobResult, run_job
from oeactl.ports import Agent, Progress

Api = Literal["generate", "completions", "chat"]

_GRACE_S = 60.0  # beyond the burst's own deadline: to make prompts, and to write the result
_BUSY = 0.5  # of a core, or
_LATE = 0.05  # of the median gap between tokens: the next burst gets twice the processes
_PROBE_LEN = 2
_REFUSES = ("HTTP 400", "HTTP 422")
_LISTED_ERRORS = 3


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the program tells it (oeactl/loadgen/burst.py)."""

    number: int
    sent_s: float
    late_s: float
    ttft_s: float
    e2e_s: float
    itls_s: tuple[float, ...]
    asked: int
    tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None
    verify_steps: int | None
    finish: str | None
    error: str
    text: str | None


class _Client(msgspec.Struct, frozen=True, kw_only=True):
    """One process of it."""

    mean_ms: float
    p99_ms: float
    max_ms: float
    events: int
    cpu_s: float
    seconds: float


class _Result(msgspec.Struct, frozen=True, kw_only=True):
    began_at: float
    workload_sha256: str
    cpus: int
    rows: tuple[_Row, ...]
    clients: tuple[_Client, ...]


class LightClient:
    """Driver over ``oeactl.loadgen``, run through ``agent`` with ``python``. version: of oeactl.

    url: the server as seen from there, None for the request's own; model: the name to ask for, None likewise.
    runs_on: which other machine it runs on, for the record.
    prompts: for dataset ``file``, (prompt, output length or None). processes: None to find out. api_key
    travels in the order's file alone.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        python: str,
        api: Api,
        version: str,
        url: str | None = None,
        model: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        api_key: str | None = None,
        processes: int | None = None,
        prompts: Sequence[tuple[Any, int | None]] = (),
        runs_on: str | None = None,
        run_job: RunJob = run_job,
    ) -> None:
        self._agent = agent
        self._python = python
        self._api = api
        self._version = version
        self._url = url
        self._model = model
        self._env = {**(env or {}), "OEACTL_PROOF": "0"}
        self._cwd = cwd
        self._api_key = api_key
        self._fixed = processes
        self._processes = processes or 1
        self._prompts = prompts
        self._runs_on = runs_on
        self._run_job = run_job
        self._ignores_eos: bool | None = True if api == "generate" else None

    def describe(self) -> DriverRecord:
        """Say what it is; nothing is looked for, it needs Python alone."""
        return DriverRecord(
            name="light",
            program="oeactl.loadgen",
            version=self._version,
            flags=(f"api={self._api}", *((f"from={self._runs_on}",) if self._runs_on else ())),
            tokens_from="server",
        )

    def run(self, request: PointRequest, progress: Progress) -> PointMeasured:
        """Send one burst; before the first one see whether the server knows ``ignore_eos``."""
        made = self._made(request)
        if isinstance(made, str):
            return PointMeasured(argv=(), failure=made)
        if self._ignores_eos is None:
            refused = self._probe(request, made)
            if refused is not None:
                return refused
        return self._burst(self._order(request, made), request, _Shown(request, progress))

    def _order(self, request: PointRequest, made: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "url": (self._url or request.url).rstrip("/"),
            "api": self._api,
            "model": self._model or request.served_model or request.model,
            "api_key": self._api_key,
            "ignore_eos": self._ignores_eos is not False,
            "concurrency": request.point.concurrency,
            "requests": request.requests,
            "output_len": request.point.output_len,
            "seed": request.seed,
            "processes": self._processes,
            "deadline_s": request.deadline_s,
            "rate": request.point.rate if request.phase == "measured" else None,
            "duration_s": request.point.duration_s if request.phase == "measured" else None,
            "texts": 32 if request.dataset != "random-ids" and request.phase == "measured" else 0,
            "prompts": made,
        }

    def _made(self, request: PointRequest) -> dict[str, Any] | str:
        """What its prompts are made of; text: why they cannot be."""
        length = request.point.input_len
        if request.dataset == "file":
            return self._listed(request)
        if request.dataset == "random-ids" and self._api == "chat":
            return "chat completions take no token ids: --dataset natural"
        if request.dataset == "random-ids" and request.vocabulary is None:
            return "the model's vocabulary is not known, so there are no ids to draw: --dataset natural"
        if self._api != "chat" and request.vocabulary is not None and request.dataset != "natural":
            # Special tokens lie at either end; what is between them is text.
            low, high = min(256, request.vocabulary // 8), request.vocabulary * 9 // 10
            made: dict[str, Any] = {"kind": "ids", "length": length, "low": low, "high": high}
        else:
            length = max(1, round(length * CHARACTERS_A_TOKEN))
            made = {"kind": "text", "length": length, "notes": NOTES, "tasks": TASKS}
        if request.dataset == "shared-prefix":
            made["prefix"] = length // 2
        return made

    def _listed(self, request: PointRequest) -> dict[str, Any] | str:
        """The file's prompts from where the seed says; the warm-up from what is left of them, else notes."""
        if self._api != "chat" and any(_is_messages(prompt) for prompt, _ in self._prompts):
            return "the file has messages, which only chat completions take: --api chat"
        if self._api == "chat" and any(_is_ids(prompt) for prompt, _ in self._prompts):
            return "the file has token ids, which chat completions do not take: --api completions"
        count, begin = request.point.requests, (request.point.seed or 0) % max(1, len(self._prompts))
        turned = (*self._prompts[begin:], *self._prompts[:begin])
        measured = request.phase == "measured"
        chosen = turned[:count] if measured else turned[count : count + request.requests]
        if len(chosen) < request.requests:
            if measured:
                return f"{len(chosen)} prompts are in the file, {count} are needed: --requests {len(chosen)}"
            return {"kind": "text", "length": 2000, "notes": NOTES, "tasks": TASKS}
        return {"kind": "listed", "prompts": list(chosen)}

    def _probe(self, request: PointRequest, made: Mapping[str, Any]) -> PointMeasured | None:
        """Ask one thing twice at most: with ``ignore_eos``, and without where that is refused."""
        failed: PointMeasured | None = None
        for self._ignores_eos in (True, False):
            order = {**self._order(request, made), "concurrency": 1, "requests": 1, "processes": 1}
            order = {**order, "output_len": _PROBE_LEN, "seed": request.seed ^ 1, "texts": 0}
            order = {**order, "rate": None, "duration_s": None}
            if made["kind"] == "listed":
                order["prompts"] = {"kind": "listed", "prompts": [[made["prompts"][0][0], _PROBE_LEN]]}
            asked = self._burst(order, request, None)
            failed = failed or (asked if asked.failure is not None else None)
            if asked.failure is None:
                return None
            if not any(words in asked.failure for words in _REFUSES):
                break
        self._ignores_eos = None
        return failed

    def _burst(self, order: dict[str, Any], request: PointRequest, shown: _Shown | None) -> PointMeasured:
        argv = _shown_argv(order, request)
        job = self._run_job(
            self._agent,
            argv=load_program.argv(self._python),
            env=self._env,
            cwd=self._cwd,
            given=load_program.begin(order),
            deadline_s=request.deadline_s + _GRACE_S,
            on_line=shown or (lambda line: None),
        )
        tail = tuple(self._scrubbed(line) for line in job.tail if not line.startswith("{"))
        if job.out is None or job.returncode != 0:
            return PointMeasured(argv=argv, failure=_failure(job, tail), tail=tail)
        try:
            result = msgspec.convert(load_program.result(job.out), _Result)
        except (ValueError, msgspec.ValidationError) as problem:
            return PointMeasured(
                argv=argv, failure=f"the client's result is not usable: {problem}", tail=tail
            )
        return self._read(result, order, argv, request)

    def _read(
        self, result: _Result, order: Mapping[str, Any], argv: tuple[str, ...], request: PointRequest
    ) -> PointMeasured:
        rows = self._rows(result.rows)
        client = _client(result)
        measurement = measure(rows, _counted(result.rows)) if result.rows else None
        if measurement is None:
            errors = tuple(dict.fromkeys(error for error in rows.errors if error))[:_LISTED_ERRORS]
            why = f"none of {order['requests']} requests succeeded" + (f": {errors[0]}" if errors else "")
            return PointMeasured(argv=argv, failure=why, tail=errors, client=client)
        self._adapt(client, measurement.itl_ms.median if measurement.itl_ms else None, result.cpus)
        return PointMeasured(
            argv=argv,
            measurement=measurement,
            requests=rows,
            client=client,
            workload_sha256=result.workload_sha256,
            eos_ignored=bool(order["ignore_eos"]),
            input_exact=order["prompts"]["kind"] == "ids",
        )

    def _adapt(self, client: ClientLoad, itl_ms: float | None, cpus: int) -> None:
        """Give the next burst twice the processes where this one came near its bounds."""
        late = itl_ms is not None and (client.lag_mean_ms or 0.0) > _LATE * itl_ms
        if self._fixed is None and (client.busiest_core > _BUSY or late):
            self._processes = max(1, min(2 * client.processes, cpus // 2))

    def _rows(self, rows: Sequence[_Row]) -> PerRequest:
        cached = [row.cached_tokens for row in rows if row.cached_tokens is not None]
        return PerRequest(
            input_lens=tuple(row.prompt_tokens or 0 for row in rows),
            output_lens=tuple(row.tokens for row in rows),
            ttfts_s=tuple(row.ttft_s for row in rows),
            itls_s=tuple(row.itls_s for row in rows),
            errors=tuple(self._scrubbed(row.error) for row in rows),
            generated_texts=tuple(row.text or "" for row in rows),
            sampled=tuple(index for index, row in enumerate(rows) if row.text is not None),
            cached_tokens=tuple(row.cached_tokens or 0 for row in rows) if cached else None,
            asked_lens=tuple(row.asked for row in rows),
            sent_s=tuple(row.sent_s for row in rows),
            e2es_s=tuple(row.e2e_s for row in rows),
        )

    def _scrubbed(self, text: str) -> str:
        return redact_text(text.replace(self._api_key, REDACTED) if self._api_key else text)


def _is_messages(prompt: Any) -> bool:
    return isinstance(prompt, list) and isinstance(prompt[0], dict)


def _is_ids(prompt: Any) -> bool:
    return isinstance(prompt, list) and isinstance(prompt[0], int)


class _Shown:
    """Called with every line of the program: how far it is, how fast, how long still."""

    def __init__(self, request: PointRequest, progress: Progress) -> None:
        timed = request.point.duration_s if request.phase == "measured" else None
        self._total = None if timed else request.requests
        self._pace = Pace(request.requests, streams=request.point.concurrency, duration_s=timed)
        self._word = "requests" if request.phase == "measured" else "warm-up requests"
        self._progress = progress

    def __call__(self, line: str) -> None:
        try:
            told = json.loads(line)
            over, failed, tokens, seconds = (told[name] for name in ("over", "failed", "tokens", "seconds"))
        except (ValueError, KeyError, TypeError):
            return
        text = self._pace.line(seconds, over=over, failed=failed, tokens=tokens)
        self._progress.update(f"{text}; {self._word}", done=over, total=self._total)


def _counted(rows: Sequence[_Row]) -> Counted:
    """First send to last token, and how many tokens a verification of drafts brought."""
    begun = min(row.sent_s for row in rows)
    ended = max(row.sent_s + row.e2e_s for row in rows)
    steps = sum(row.verify_steps or 0 for row in rows if not row.error)
    drafted = sum(row.tokens for row in rows if not row.error and row.verify_steps)
    return Counted(duration_s=max(ended - begun, 1e-9), accept_length=drafted / steps if steps else None)


def _client(result: _Result) -> ClientLoad:
    return ClientLoad(
        processes=len(result.clients),
        cpu_s=sum(one.cpu_s for one in result.clients),
        busiest_core=max(one.cpu_s / max(one.seconds, 1e-9) for one in result.clients),
        lag_mean_ms=max(one.mean_ms for one in result.clients),
        lag_p99_ms=max(one.p99_ms for one in result.clients),
        lag_max_ms=max(one.max_ms for one in result.clients),
    )


def _shown_argv(order: Mapping[str, Any], request: PointRequest) -> tuple[str, ...]:
    names = ("api", "concurrency", "rate", "requests", "duration_s", "output_len", "seed", "processes")
    return (
        "oeactl.loadgen",
        *(f"{name}={order[name]}" for name in names if order[name] is not None),
        f"ignore_eos={order['ignore_eos']}",
        f"input_len={request.point.input_len}",
        f"dataset={request.dataset}",
    )


def _failure(job: JobResult, tail: tuple[str, ...]) -> str:
    if job.timed_out:
        return "the client did not end in time and was ended"
    last = f": {tail[-1]}" if tail else ""
    return f"the client ended with {job.returncode}{last}"
