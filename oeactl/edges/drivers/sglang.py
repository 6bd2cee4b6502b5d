"""SGLang's own load client, run on the host: which module it is, which flags it knows, what its line says.

Owns: the argv, the reading of its one JSON line, its progress. Tokens are ``completion_tokens`` of the native
``/generate``; the duration is the client's and contains its final GET. Refuses: to guess at a flag that
``--help`` does not show, and at a line that is not exactly what was asked for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from oeactl.core import bench_serving
from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.host import Value
from oeactl.core.load import ClientLoad
from oeactl.core.pace import Pace
from oeactl.core.provenance import DriverRecord
from oeactl.core.redact import REDACTED, redact_text
from oeactl.edges.drivers.sglang_line import DATASET, read_line
from oeactl.edges.jobs import JobResult, Spent, run_job
from oeactl.errors import UsageError
from oeactl.ports import Agent, Progress

#: From 0.5.15 on, and before.
_MODULES = ("sglang.benchmark.serving", "sglang.bench_serving")
#: Finds which of them this engine has, and writes its name and its help; it travels in the agent's request.
_LOOK = """
import importlib.util, runpy, sys
out, modules = sys.argv[1], sys.argv[2:]
def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
found = [name for name in modules if has(name)]
with open(out, "w", encoding="utf-8") as sys.stdout:
    print(found[0] if found else "")
    sys.stdout.flush()
    if found:
        sys.argv = [found[0], "--help"]
        runpy.run_module(found[0], run_name="__main__", alter_sys=True)
"""
_NEEDED = (
    "--backend",
    "--base-url",
    "--dataset-name",
    "--max-concurrency",
    "--model",
    "--num-prompts",
    "--output-details",
    "--output-file",
    "--random-input-len",
    "--random-output-len",
    "--random-range-ratio",
    "--seed",
    "--tokenize-prompt",
    "--tokenizer",
    "--warmup-requests",
)
_WELCOME = ("--cache-report",)  # from 0.5.14 on

_HELP_TIMEOUT_S = 300.0
_LEAST_S = 1.0  # of a load, for its CPU to be told: the kernel counts in hundredths
_LONGEST = 120  # of an exception's line, in a sentence
_USAGE = re.compile(r"^usage:.*?(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
_FLAG = re.compile(r"[\[|(]\s*(--[a-z][a-z0-9-]*)")
_RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception|Exit)\b")
_DONE = re.compile(r"(\d+)/(\d+) \[[^\]]*\]?\s*$")


class RunJob(Protocol):
    """Run argv on the host; ``{out}`` in it becomes a fresh file there, whose bytes come back."""

    def __call__(
        self,
        agent: Agent,
        *,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        given: bytes | None = None,
        deadline_s: float,
        on_line: Callable[[str], None] = ...,
    ) -> JobResult: ...


class Client(Value, frozen=True, kw_only=True):
    """The client as this host has it: its module, and those of our flags that it knows."""

    module: str
    flags: frozenset[str]


class SglangClient:
    """Driver over the engine's own client. python, env, cwd: the server's, on the host.

    api_key travels in the environment of the client alone. One ``--help`` child for the life of this object.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        python: str,
        env: Mapping[str, str],
        cwd: str | None,
        api_key: str | None = None,
        run_job: RunJob = run_job,
    ) -> None:
        self._agent = agent
        self._python = python
        self._cwd = cwd
        self._run_job = run_job
        self._api_key = api_key
        # The client imports the engine too; its proof of having loaded a patched file would be a false one.
        # Unbuffered, its last lines come in the order in which they were said.
        self._env = {**env, "OEACTL_PROOF": "0", "PYTHONUNBUFFERED": "1"}
        if api_key:
            self._env["OPENAI_API_KEY"] = api_key
        self._client: Client | None = None

    def describe(self) -> DriverRecord:
        """Look at the client's ``--help`` once. Raises UsageError."""
        client = self._found()
        return DriverRecord(
            name="sglang",
            program=client.module,
            flags=tuple(sorted(client.flags)),
            tokens_from="server",
            duration_includes=bench_serving.DURATION,
        )

    def run(self, request: PointRequest, progress: Progress) -> PointMeasured:
        """Run the client once, one load level a process."""
        client = self._found()
        argv = arguments(client, request)
        shown = _Shown(request, progress)
        job = self._run_job(
            self._agent,
            argv=(self._python, *argv),
            env=self._env,
            cwd=self._cwd,
            deadline_s=request.deadline_s,
            on_line=shown,
        )
        tail = tuple(self._scrubbed(line) for line in job.tail)
        failure = _failure(job, request, shown.done, tail)
        if failure is not None:
            return PointMeasured(argv=argv, failure=failure, tail=tail)
        try:
            measurement, rows = read_line(job.out or b"", request)
        except ValueError as problem:
            return PointMeasured(argv=argv, failure=f"the client's line is not usable: {problem}", tail=tail)
        rows = msgspec.structs.replace(rows, errors=tuple(self._scrubbed(text) for text in rows.errors))
        client_load = shown.client(job.spent)
        return PointMeasured(argv=argv, measurement=measurement, requests=rows, client=client_load)

    def _found(self) -> Client:
        if self._client is None:
            self._client = self._look()
        return self._client

    def _look(self) -> Client:
        job = self._run_job(
            self._agent,
            argv=(self._python, "-c", _LOOK, "{out}", *_MODULES),
            env=self._env,
            cwd=self._cwd,
            deadline_s=_HELP_TIMEOUT_S,
        )
        module, _, text = (job.out or b"").decode("utf-8", "replace").partition("\n")
        if job.returncode == 0 and module:
            return read_help(module, text)
        if job.returncode == 0:
            raise UsageError(
                "there is no SGLang load client here",
                where=f"{self._agent.name}: {self._python}",
                hint="engine.python in hosts.yaml must be the interpreter that runs SGLang",
            )
        raise UsageError(
            "the engine's own load client does not start",
            where=f"{self._agent.name}: {self._python} -m {module or _MODULES[0]} --help",
            hint="run this on the host; what it lacks belongs into the engine's venv or the server's env",
            details=tuple(self._scrubbed(line) for line in job.tail[-8:]),
        )

    def _scrubbed(self, text: str) -> str:
        return redact_text(text.replace(self._api_key, REDACTED) if self._api_key else text)


def read_help(module: str, text: str) -> Client:
    """Read the flags from the usage block alone: prose below it names flags too. Raises UsageError."""
    usage = _USAGE.search(text)
    block = usage[0] if usage else ""
    known = frozenset(_FLAG.findall(block))
    missing = [flag for flag in _NEEDED if flag not in known]
    if DATASET not in block:
        missing.append(f"--dataset-name {DATASET}")
    if missing:
        raise UsageError(
            f"the engine's load client knows no {', '.join(missing)}",
            where=f"{module} --help",
            hint="this release's client cannot measure fixed lengths; SGLang 0.4.7 and later can",
        )
    return Client(module=module, flags=known & frozenset((*_NEEDED, *_WELCOME)))


def arguments(client: Client, request: PointRequest) -> tuple[str, ...]:
    """What follows the interpreter. ``{out}`` stands for the output file, which the client appends to."""
    point = request.point
    argv = (
        *("-m", client.module),
        *("--backend", "sglang"),
        *("--base-url", request.url.rstrip("/")),
        *("--model", request.model),
        *("--tokenizer", request.tokenizer),
        *("--dataset-name", DATASET, "--tokenize-prompt"),
        *("--random-input-len", str(point.input_len)),
        *("--random-output-len", str(point.output_len)),
        *("--random-range-ratio", "1.0"),  # lengths are drawn from [L * ratio, L]
        *("--num-prompts", str(request.requests)),
        *("--max-concurrency", str(point.concurrency)),
        *("--seed", str(request.seed)),
        *("--warmup-requests", "0"),  # its own would put the first measured prompt into the cache
        *("--output-file", "{out}", "--output-details"),
    )
    return (*argv, *(flag for flag in _WELCOME if flag in client.flags))


class _Shown:
    """Called with every line of the client's output: shows the requests done, remembers the last count.

    Between the lines where its bar began and ended the load was on: so much of its CPU counts.
    """

    def __init__(
        self, request: PointRequest, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._request = request
        self._progress = progress
        self._clock = clock
        self._pace = Pace(request.requests, streams=request.point.concurrency)
        self._lines = 0
        self._bar: list[int] = []
        self._begun_at = 0.0
        self.done = 0

    def __call__(self, line: str) -> None:
        # The bar redraws itself with carriage returns; the last drawing counts.
        self._lines += 1
        found = _DONE.search(line.rstrip("\r\n").rpartition("\r")[2])
        if found is None or int(found[2]) != self._request.requests:
            return
        self._bar.append(self._lines)
        if len(self._bar) == 1:
            self._begun_at = self._clock()
        if int(found[1]) == self.done:
            return
        self.done = int(found[1])
        word = "requests" if self._request.phase == "measured" else "warm-up requests"
        tokens = self.done * self._request.point.output_len  # end-of-text is ignored
        text = self._pace.line(self._clock() - self._begun_at, over=self.done, failed=0, tokens=tokens)
        self._progress.update(f"{text}; {word}", done=self.done, total=self._request.requests)

    def client(self, spent: Sequence[Spent]) -> ClientLoad | None:
        """Its CPU while the bar moved; None where that was too short to tell."""
        if not self._bar:
            return None
        # A line comes with the CPU of its moment, so the last moment before a line was said is its own.
        begun = [one for one in spent if one.lines < self._bar[0]]
        ended = [one for one in spent if one.lines < self._bar[-1]]
        if not begun or ended[-1].at_s - begun[-1].at_s < _LEAST_S:
            return None
        cpu_s = ended[-1].cpu_s - begun[-1].cpu_s
        return ClientLoad(
            processes=1,
            cpu_s=cpu_s,
            busiest_core=cpu_s / (ended[-1].at_s - begun[-1].at_s),
            lag_mean_ms=None,
            lag_p99_ms=None,
            lag_max_ms=None,
        )


def _failure(job: JobResult, request: PointRequest, done: int, tail: tuple[str, ...]) -> str | None:
    """Why there is no line to read, in one sentence; None when there is one.

    When every request failed the client dies of an IndexError over its empty list of latencies.
    """
    if job.timed_out:
        at = f"{done} of {request.requests} requests done"
        return f"the client was ended after {request.deadline_s:.0f} s, {at}"
    if job.returncode == 0:
        return None if (job.out or b"").strip() else "the client ended well and wrote no result"
    raised = next((line.strip() for line in reversed(tail) if _RAISED.match(line.strip())), "")
    if raised.startswith("IndexError") and not job.out:
        return f"none of {request.requests} requests succeeded"
    raised = raised if len(raised) <= _LONGEST else f"{raised[:_LONGEST]}..."
    return f"the client ended with {job.returncode}" + (f": {raised}" if raised else "")
