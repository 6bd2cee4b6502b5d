"""SGLang's own client as driver: the flags it has, the line it wrote, every way in which it ends badly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.gates import failures, judge
from oeactl.core.load import make_point
from oeactl.core.redact import REDACTED
from oeactl.edges.drivers.sglang import SglangClient, read_help
from oeactl.edges.drivers.sglang_line import read_line
from oeactl.edges.jobs import JobResult, Spent
from oeactl.errors import UsageError
from oeactl.ports import Agent
from tests.support.levels import some_evidence

LINE = (Path(__file__).parent / "data" / "sglang_0.5.20_line.jsonl").read_bytes()
POINT = msgspec.structs.replace(make_point(1, input_len=64, output_len=32, seed=42), seed=7)
MEASURE = PointRequest(
    phase="measured",
    point=POINT,
    url="http://127.0.0.1:30000/",
    model="/models/tiny",
    tokenizer="/models/tiny",
    deadline_s=600.0,
)
WARM_UP = msgspec.structs.replace(MEASURE, phase="warm-up")
FLAGS = (
    "--backend {sglang,vllm}",
    "--base-url BASE_URL",
    "--host HOST",
    "--port PORT",
    "--dataset-name {sharegpt,random,random-ids}",
    "--model MODEL",
    "--tokenizer TOKENIZER",
    "--num-prompts NUM_PROMPTS",
    "--random-input-len RANDOM_INPUT_LEN",
    "--random-output-len RANDOM_OUTPUT_LEN",
    "--random-range-ratio RANDOM_RANGE_RATIO",
    "--max-concurrency MAX_CONCURRENCY",
    "--output-file OUTPUT_FILE",
    "--output-details",
    "--seed SEED",
    "--warmup-requests WARMUP_REQUESTS",
    "--flush-cache",
    "--tokenize-prompt",
)


def usage(*flags: str, module: str = "serving") -> str:
    """Help as argparse lays it out: a usage block, then prose that names flags of its own."""
    block = "\n                  ".join(f"[{flag}]" for flag in ("-h", *flags))
    prose = "  --seed SEED  See --cache-report, --base-url.\n"
    return f"usage: {module}.py {block}\n\nBenchmark.\n\noptions:\n{prose}"


class NoAgent:
    """The driver hands its agent on to run_job and asks it nothing."""

    name = "box"

    def ask(self, op: str, /, *, timeout_s: float = 120.0, **fields: Any) -> Any:
        raise AssertionError(op)

    def watch(self, op: str, /, **fields: Any) -> AbstractContextManager[Iterator[Mapping[str, Any]]]:
        raise AssertionError(op)

    def close(self) -> None: ...


class Jobs:
    """Plays a host: answers the look for the client, then each load as it was told to."""

    def __init__(self, *, help_text: str | None = None, module: str = "sglang.benchmark.serving") -> None:
        self.calls: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.result = JobResult(returncode=0, timed_out=False, tail=(), out=LINE, seconds=1.0)
        found = f"{module}\n{usage(*FLAGS) if help_text is None else help_text}"
        self.look = JobResult(returncode=0, timed_out=False, tail=(), out=found.encode(), seconds=1.0)

    def __call__(
        self,
        agent: Agent,
        *,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        deadline_s: float,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> JobResult:
        self.calls.append({"argv": tuple(argv), "env": dict(env), "cwd": cwd, "deadline_s": deadline_s})
        if "-c" in argv:
            return self.look
        for line in self.lines:
            on_line(line)
        return self.result

    @property
    def loads(self) -> list[dict[str, Any]]:
        return [call for call in self.calls if "-c" not in call["argv"]]

    def ends(self, returncode: int, *tail: str, out: bytes | None = None, timed_out: bool = False) -> None:
        self.result = JobResult(returncode=returncode, timed_out=timed_out, tail=tail, out=out, seconds=1.0)


class Shown:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, float | None, float | None]] = []

    def step(self, text: str) -> None: ...

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        self.updates.append((text, done, total))

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


def client(jobs: Jobs, *, api_key: str | None = None) -> SglangClient:
    return SglangClient(
        NoAgent(),
        python="/venv/bin/python",
        env={"OMP_NUM_THREADS": "1", "ENGINE_STUBS": "datasets"},
        cwd="/srv",
        api_key=api_key,
        run_job=jobs,
    )


def line(**changes: Any) -> bytes:
    """The real line with some fields replaced; a value of ... leaves the field out."""
    fields = {**json.loads(LINE), **changes}
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


def test_the_line_of_a_real_client_is_read_whole() -> None:
    measurement, rows = read_line(LINE, MEASURE)
    assert (measurement.requested, measurement.completed, measurement.failed) == (16, 16, 0)
    assert (measurement.input_tokens, measurement.output_tokens) == (1024, 512)
    assert measurement.output_tokens_per_s == pytest.approx(512 / measurement.duration_s)
    assert measurement.ttft_ms.mean == pytest.approx(sum(rows.ttfts_s) / 16 * 1000)
    assert measurement.ttft_ms.p90 is not None and measurement.ttft_ms.p90 < measurement.ttft_ms.p99
    assert measurement.tpot_ms is not None and measurement.itl_ms is not None
    assert measurement.cached_input_tokens == 0
    assert all(0 < len(gaps) <= 31 for gaps in rows.itls_s)


def test_the_line_of_a_real_client_passes_every_gate_it_can_feed() -> None:
    measurement, rows = read_line(LINE, MEASURE)
    gates = judge(some_evidence(POINT, measurement=measurement, requests=rows))
    assert failures(gates) == ()
    # Other work came up on that machine meanwhile: 0.36 s a request became 0.41.
    assert {g.name for g in gates if g.warning} == {"retokenized", "warm_up"}


def test_nothing_of_the_server_s_information_is_kept() -> None:
    measured = client(Jobs()).run(MEASURE, Shown())
    assert "not-a-real-key" not in msgspec.json.encode(measured).decode()


def test_older_releases_report_less_and_it_stays_unmeasured() -> None:
    absent = {
        key: ...
        for key in json.loads(LINE)
        if key.startswith(("p90_", "p95_")) or key in ("cached_tokens", "cache_report", "accept_length")
    }
    measurement, rows = read_line(line(**absent), MEASURE)
    assert (measurement.ttft_ms.p90, measurement.e2e_ms.p95) == (None, None)
    assert (measurement.cached_input_tokens, measurement.accept_length, rows.cached_tokens) == (
        None,
        None,
        None,
    )


def test_one_token_a_request_has_no_time_between_tokens() -> None:
    request = msgspec.structs.replace(MEASURE, point=msgspec.structs.replace(POINT, output_len=1))
    measurement, _ = read_line(line(random_output_len=1), request)
    assert (measurement.tpot_ms, measurement.itl_ms) == (None, None)


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (b"", "0 lines"),
        (LINE + LINE, "2 lines"),
        (LINE[:300], "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (line(duration=...), "duration"),
        (line(completed="16"), "completed"),
        (line(duration=float("inf")), "'duration' is not a finite number"),
        (line(mean_ttft_ms=float("nan")), "'mean_ttft_ms' is not a finite number"),
        (line(itls=[[float("nan")] * 31] * 16), "'itls' is not a finite number"),
        (line(mean_tpot_ms=...), "tpot"),
        (line(backend="sglang-oai"), "'backend' is 'sglang-oai'"),
        (line(max_concurrency=2), "'max_concurrency' is 2, and 1 was asked for"),
        (line(random_range_ratio=0.0), "'random_range_ratio' is 0.0"),
        (line(random_input_len=1024), "'random_input_len' is 1024"),
        (line(errors=[""] * 15), "differ in length: "),
        (line(errors=...), "errors"),
    ],
)
def test_a_line_that_is_not_exactly_of_this_load_is_refused(out: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        read_line(out, MEASURE)


def test_infinity_is_taken_where_the_client_writes_it_and_nowhere_else() -> None:
    assert b'"request_rate": Infinity' in LINE
    read_line(LINE, MEASURE)
    with pytest.raises(ValueError, match="accept_length"):
        read_line(line(accept_length=float("inf")), MEASURE)


def test_a_line_that_cannot_be_read_is_a_failed_level_not_a_crash() -> None:
    jobs = Jobs()
    jobs.ends(0, out=LINE[:300])
    measured = client(jobs).run(MEASURE, Shown())
    assert measured.measurement is None
    assert measured.failure and measured.failure.startswith("the client's line is not usable: not JSON")


def test_the_measured_load_is_asked_for_in_full() -> None:
    jobs = Jobs()
    measured = client(jobs).run(MEASURE, Shown())
    (call,) = jobs.loads
    assert call["argv"] == ("/venv/bin/python", *measured.argv)
    assert measured.argv == (
        *("-m", "sglang.benchmark.serving", "--backend", "sglang"),
        *("--base-url", "http://127.0.0.1:30000", "--model", "/models/tiny", "--tokenizer", "/models/tiny"),
        *("--dataset-name", "random-ids", "--tokenize-prompt"),
        *("--random-input-len", "64", "--random-output-len", "32", "--random-range-ratio", "1.0"),
        *("--num-prompts", "16", "--max-concurrency", "1", "--seed", "7"),
        *("--warmup-requests", "0", "--output-file", "{out}", "--output-details"),
    )
    assert (call["cwd"], call["deadline_s"]) == ("/srv", 600.0)


def test_the_warm_up_has_its_own_prompts_and_count() -> None:
    jobs = Jobs()
    client(jobs).run(WARM_UP, Shown())
    argv = jobs.loads[0]["argv"]
    assert argv[argv.index("--num-prompts") + 1] == "2"
    assert argv[argv.index("--seed") + 1] == str(POINT.warmup_seed) != str(POINT.seed)


def test_a_flag_is_passed_only_where_the_release_has_it() -> None:
    newer = Jobs(help_text=usage(*FLAGS, "--cache-report"))
    older = Jobs(module="sglang.bench_serving")
    for jobs in (newer, older):
        client(jobs).run(MEASURE, Shown())
    assert newer.loads[0]["argv"][-1] == "--cache-report"
    assert "--cache-report" not in older.loads[0]["argv"]
    assert older.loads[0]["argv"][1:3] == ("-m", "sglang.bench_serving")


def test_the_help_is_asked_once_for_the_whole_run() -> None:
    jobs = Jobs()
    driver = client(jobs)
    record = driver.describe()
    for request in (WARM_UP, MEASURE, WARM_UP, MEASURE):
        driver.run(request, Shown())
    assert len(jobs.calls) - len(jobs.loads) == 1
    assert (record.name, record.program) == ("sglang", "sglang.benchmark.serving")
    assert "--seed" in record.flags and "--cache-report" not in record.flags


def test_flags_are_read_from_the_usage_and_not_from_prose() -> None:
    assert "--cache-report" not in read_help("m", usage(*FLAGS)).flags
    with pytest.raises(UsageError, match="--base-url"):
        read_help("m", usage(*(flag for flag in FLAGS if "--base-url" not in flag)))


@pytest.mark.parametrize(
    "missing",
    ["--tokenize-prompt", "--random-range-ratio", "--output-details", "--warmup-requests", "--seed"],
)
def test_an_indispensable_flag_that_is_missing_is_named(missing: str) -> None:
    jobs = Jobs(help_text=usage(*(flag for flag in FLAGS if not flag.startswith(missing))))
    with pytest.raises(UsageError, match=missing):
        client(jobs).run(MEASURE, Shown())
    assert jobs.loads == []


def test_a_client_without_random_ids_is_refused() -> None:
    with pytest.raises(UsageError, match="random-ids"):
        read_help("m", usage(*FLAGS).replace(",random-ids", ""))


def test_a_flag_in_a_group_of_alternatives_is_seen() -> None:
    text = usage(*FLAGS[:-1], "--other X | --tokenize-prompt")
    assert "--tokenize-prompt" in read_help("m", text).flags


def test_an_engine_without_a_client_is_a_usage_error() -> None:
    jobs = Jobs(module="", help_text="")
    with pytest.raises(UsageError, match="no SGLang load client"):
        client(jobs).describe()


def test_a_client_that_does_not_start_shows_its_last_words() -> None:
    jobs = Jobs()
    last = "ModuleNotFoundError: No module named 'datasets'"
    jobs.look = JobResult(
        returncode=1,
        timed_out=False,
        tail=("Traceback", last),
        out=b"sglang.benchmark.serving\n",
        seconds=1.0,
    )
    with pytest.raises(UsageError, match="does not start") as refused:
        client(jobs).describe()
    assert last in refused.value.details
    assert "sglang.benchmark.serving --help" in (refused.value.where or "")


def test_the_key_travels_in_the_environment_alone_and_is_shown_nowhere() -> None:
    jobs = Jobs()
    jobs.ends(1, "401 for very-secret", "ValueError: very-secret is wrong")
    measured = client(jobs, api_key="very-secret").run(MEASURE, Shown())
    (call,) = jobs.loads
    assert call["env"]["OPENAI_API_KEY"] == "very-secret"
    assert "very-secret" not in " ".join(call["argv"])
    assert "very-secret" not in repr(measured)
    assert REDACTED in (measured.failure or "")


def test_an_error_text_in_the_line_does_not_carry_the_key() -> None:
    jobs = Jobs()
    jobs.ends(0, out=line(errors=["bad very-secret", *[""] * 15]))
    measured = client(jobs, api_key="very-secret").run(MEASURE, Shown())
    assert "very-secret" not in repr(measured)


def test_the_client_has_the_server_s_environment_and_leaves_no_proof() -> None:
    jobs = Jobs()
    client(jobs).run(MEASURE, Shown())
    env = jobs.loads[0]["env"]
    assert (env["ENGINE_STUBS"], env["OMP_NUM_THREADS"]) == ("datasets", "1")
    assert env["OEACTL_PROOF"] == "0"
    assert "OPENAI_API_KEY" not in env


def ended(returncode: int, *tail: str, out: bytes | None = None, timed_out: bool = False) -> PointMeasured:
    jobs = Jobs()
    jobs.lines = ["  6%|6   | 1/16 [00:01<00:15,  1.00s/it]"]
    jobs.ends(returncode, *tail, out=out, timed_out=timed_out)
    measured = client(jobs).run(MEASURE, Shown())
    assert measured.measurement is None
    return measured


def test_no_success_at_all_is_a_failed_level_in_plain_words() -> None:
    index = "IndexError: index -1 is out of bounds for axis 0 with size 0"
    measured = ended(1, "Traceback (most recent call last):", index, "100%|#| 16/16 [00:00<00:00, 9it/s]")
    assert measured.failure == "none of 16 requests succeeded"
    assert index in measured.tail


def test_another_death_of_the_client_names_its_exception() -> None:
    measured = ended(1, "Traceback", "ValueError: Warmup failed", "  warnings.warn(x)")
    assert measured.failure == "the client ended with 1: ValueError: Warmup failed"


def test_a_client_that_was_killed_says_so() -> None:
    assert ended(-9).failure == "the client ended with -9"


def test_a_stalled_stream_costs_the_deadline_and_says_how_far_it_got() -> None:
    measured = ended(-15, timed_out=True)
    assert measured.failure == "the client was ended after 600 s, 1 of 16 requests done"


def test_a_client_that_ends_well_and_writes_nothing_has_measured_nothing() -> None:
    assert ended(0).failure == "the client ended well and wrote no result"


def test_requests_done_of_planned_are_shown_as_the_bar_moves() -> None:
    jobs = Jobs()
    jobs.lines = [
        "  0%|          | 0/16 [00:00<?, ?it/s]",
        "\r  6%|#         | 1/16 [00:00<00:06,  2.41it/s]\r 50%|#####     | 8/16 [00:03<00:03,  2.5it/s]",
        " 50%|#####     | 8/16 [00:03<00:03,  2.5it/s]",
        "Loading weights: 100%|##########| 3/3 [00:00<00:00, 10it/s]",
        "100%|##########| 16/16 [00:06<00:00,  2.53it/s]",
    ]
    shown = Shown()
    client(jobs).run(MEASURE, shown)
    assert [(done, total) for _, done, total in shown.updates] == [(8, 16), (16, 16)]
    assert all(text.endswith("; requests") for text, _, _ in shown.updates)


def spending(*cpu_s: float) -> PointMeasured:
    """A client that had had so much CPU at each second, and whose bar moved from its second line on."""
    jobs = Jobs()
    jobs.lines = ["Namespace()", *(f" {n}| {n}/16 [00:00<?, ?it/s]" for n in (0, 4, 8, 12, 16)), "Result"]
    spent = tuple(Spent(at_s=float(n), cpu_s=one, lines=n) for n, one in enumerate(cpu_s))
    jobs.result = msgspec.structs.replace(jobs.result, spent=spent)
    return client(jobs).run(MEASURE, Shown())


def test_the_client_s_cpu_counts_while_its_load_was_on() -> None:
    """Not while it imported the engine, nor when it counted the text again."""
    load = spending(0.0, 1.9, 2.1, 2.3, 2.5, 2.7, 3.7).client
    assert load is not None
    assert (load.processes, load.busiest_core, load.lag_mean_ms) == (1, pytest.approx(0.2), None)
    busy = spending(0.0, 0.9, 1.9, 2.9, 3.9, 4.9, 5.9)
    (gate,) = [
        one
        for one in judge(
            some_evidence(POINT, measurement=busy.measurement, requests=busy.requests, client=busy.client)
        )
        if one.name == "client"
    ]
    assert gate.outcome == "fail"
    assert "it was the bottleneck: 100% of a core" in gate.reason


def test_a_load_too_short_to_tell_the_client_s_cpu_leaves_it_unmeasured() -> None:
    assert spending().client is None
    assert spending(0.0, 0.9).client is None
