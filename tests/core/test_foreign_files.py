"""Result files of other load clients: known by what is in them, read by key, judged as far as they tell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from oeactl.core.foreign_files import gates_of, read_levels
from oeactl.core.gates import failures
from oeactl.errors import UsageError

DATA = Path(__file__).parents[1] / "edges" / "data"
SGLANG: dict[str, Any] = json.loads((DATA / "sglang_0.5.20_line.jsonl").read_bytes())
AIPERF: dict[str, Any] = json.loads((DATA / "profile_export_aiperf.json").read_bytes())
CSV = (DATA / "profile_export_aiperf.csv").read_text()
VLLM: dict[str, Any] = json.loads((DATA / "vllm_0.33.0_result.json").read_bytes())
LISTS = ("input_lens", "output_lens", "ttfts", "itls", "errors", "generated_texts", "cached_tokens")
DETAILED = ("input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors")


def without(fields: dict[str, Any], *names: str, **changes: Any) -> bytes:
    return json.dumps(
        {key: value for key, value in {**fields, **changes}.items() if key not in names}
    ).encode()


def outcomes(data: bytes) -> dict[str, str]:
    (level,) = read_levels(data, "file")
    return {gate.name: gate.outcome for gate in gates_of(level)}


def test_a_line_of_bench_serving() -> None:
    (level,) = read_levels(without(SGLANG), "bench.jsonl")
    assert (level.client, level.engine, level.where) == ("sglang bench_serving", "sglang", "bench.jsonl:1")
    point, measured = level.point, level.measurement
    assert (point.concurrency, point.input_len, point.output_len) == (1, 64, 32)
    assert (point.requests, point.seed, point.rate) == (16, None, None)
    assert measured.output_tokens_per_s == SGLANG["output_throughput"]
    assert level.rows is not None and len(level.rows.ttfts_s) == 16
    gates = outcomes(without(SGLANG))
    assert gates["completed"] == gates["errors"] == gates["output_lengths"] == gates["figures"] == "pass"
    assert gates["flush"] == gates["same_server"] == gates["warm_up"] == gates["client"] == "not_measured"


def test_a_line_without_details_judges_what_is_left() -> None:
    gates = outcomes(without(SGLANG, *LISTS))
    assert gates["completed"] == gates["errors"] == gates["output_lengths"] == "not_measured"
    assert gates["figures"] == gates["concurrency"] == "pass"


@pytest.mark.parametrize(
    "data", [without(SGLANG, *LISTS), without(VLLM, *DETAILED), json.dumps(AIPERF).encode()]
)
def test_nothing_is_called_unmeasured_that_was_measured(data: bytes) -> None:
    (level,) = read_levels(data, "f")
    assert not [gate for gate in gates_of(level) if gate.reason == "there is no measurement"]


def test_lines_that_were_appended_are_levels() -> None:
    data = without(SGLANG) + b"\n\n" + without(SGLANG, max_concurrency=2) + b"\n"
    assert [(one.where, one.point.concurrency) for one in read_levels(data, "x.jsonl")] == [
        ("x.jsonl:1", 1),
        ("x.jsonl:3", 2),
    ]


def test_an_open_loop_is_one_and_infinity_is_none() -> None:
    (level,) = read_levels(without(SGLANG, request_rate=4.0, max_concurrency=None), "f")
    assert (level.point.rate, level.point.concurrency) == (4.0, 16)
    data = without(SGLANG, request_rate=float("inf"))
    assert b"Infinity" in data
    assert read_levels(data, "f")[0].point.rate is None


def test_the_server_s_secrets_stay_behind() -> None:
    info = {
        "version": "0.5.20",
        "api_key": "very-secret",
        "served_model_name": "glm",
        "internal_states": [{}],
    }
    (level,) = read_levels(without(SGLANG, server_info=info), "f")
    assert "very-secret" not in repr(level)
    assert (level.server_args["version"], level.model) == ("0.5.20", "glm")
    assert "internal_states" not in level.server_args


def test_counts_that_the_client_asked_for_are_called_so() -> None:
    (level,) = read_levels(without(SGLANG, backend="sglang-oai"), "f")
    assert level.tokens_from == "what was asked for, not what came"
    assert outcomes(without(SGLANG, backend="sglang-oai"))["output_lengths"] == "not_measured"


def test_a_result_of_vllm() -> None:
    (level,) = read_levels(without(VLLM), "r.json")
    point, measured = level.point, level.measurement
    assert (level.client, level.engine, level.model) == ("vllm bench serve", "vllm", "tiny")
    assert (point.concurrency, point.requests, point.rate) == (4, 12, None)
    assert (measured.completed, measured.failed) == (12, 0)
    assert measured.output_tokens_per_s == VLLM["output_throughput"]
    assert measured.e2e_ms is not None and measured.e2e_ms.mean > measured.ttft_ms.mean
    gates = outcomes(without(VLLM))
    assert gates["completed"] == gates["errors"] == gates["ttft"] == gates["figures"] == "pass"
    assert gates["output_lengths"] == gates["answers"] == gates["cached_prompt"] == "not_measured"


def test_a_result_of_vllm_without_details_or_latencies() -> None:
    data = without(VLLM, *DETAILED, "latencies", "failed")
    (level,) = read_levels(data, "r.json")
    assert level.rows is None and level.measurement.e2e_ms is None
    assert level.measurement.achieved_concurrency is None
    assert outcomes(data)["errors"] == outcomes(data)["concurrency"] == "not_measured"


def test_a_result_of_vllm_with_failures_is_void() -> None:
    errors = [*VLLM["errors"][:-1], "HTTP 500"]
    data = without(VLLM, completed=11, failed=1, errors=errors)
    (level,) = read_levels(data, "r.json")
    why = failures(gates_of(level))
    assert any("11 of 12 planned" in line for line in why) and any("HTTP 500" in line for line in why)


def test_an_export_of_aiperf() -> None:
    (level,) = read_levels(json.dumps(AIPERF, indent=2).encode(), "a.json")
    point, measured = level.point, level.measurement
    assert (level.client, level.version, level.model) == ("aiperf", "0.13.0", "tiny")
    assert level.url == "http://127.0.0.1:31907"
    assert (point.concurrency, point.requests, point.output_len) == (4, 12, 8)
    assert measured.output_tokens_per_s == AIPERF["output_token_throughput"]["avg"]
    assert measured.tpot_ms is not None
    assert measured.tpot_ms.mean == AIPERF["inter_token_latency"]["avg"]
    assert (measured.itl_ms is not None and measured.itl_ms.p99) == AIPERF["inter_chunk_latency"]["p99"]
    assert level.tokens_from == "server"
    gates = outcomes(json.dumps(AIPERF).encode())
    assert gates["completed"] == gates["figures"] == gates["cached_prompt"] == "pass"
    assert gates["errors"] == gates["ttft"] == gates["answers"] == "not_measured"


def test_the_csv_of_aiperf_says_less() -> None:
    (level,) = read_levels(CSV.encode(), "a.csv")
    assert (level.point.concurrency, level.measurement.output_tokens_per_s) == (4, 189.14)
    assert outcomes(CSV.encode())["completed"] == "not_measured"
    bare = "\n".join(line for line in CSV.splitlines() if not line.startswith("Effective Concurrency"))
    with pytest.raises(UsageError, match="how many were in flight"):
        read_levels(bare.encode(), "a.csv")


@pytest.mark.parametrize(
    ("data", "where", "says"),
    [
        (b"", "f", "empty"),
        (b"\xff\xfe", "f", "no text"),
        (b"hello\n", "f", "not JSON"),
        (b"[1]", "f", "not a JSON object"),
        (b'{"a": 1}', "f:1", "not a result of a load client"),
        (without(SGLANG) + b'\n{"a": }', "f:2", "not JSON"),
        (without(SGLANG)[:300], "f", "not JSON"),
        (without(SGLANG) + b"\n" + without(SGLANG, duration="long"), "f:2", "'duration': Expected `float`"),
        (without(SGLANG, mean_ttft_ms=float("nan")), "f:1", "'mean_ttft_ms' is not a finite number"),
        (without(SGLANG, "errors"), "f:1", "there is no 'errors'"),
        (without(SGLANG, errors=[""] * 3), "f:1", "differ in length"),
        (without(SGLANG, itls=[["x"]] * 16), "f:1", "'itls[0][0]': Expected `float`"),
        (without(VLLM, "duration"), "f:1", "missing required field `duration`"),
        (without(VLLM, completed="12"), "f:1", "'completed': Expected `int`"),
        (without(VLLM, "p99_ttft_ms"), "f:1", "there is no p99_ttft_ms"),
        (without(AIPERF, "time_to_first_token"), "f:1", "there is no 'time_to_first_token'"),
        (
            without(AIPERF, request_latency={"unit": "s", "avg": 1}),
            "f:1",
            "'request_latency' is in s, not in ms",
        ),
        (
            without(AIPERF, request_latency={"unit": "ms"}),
            "f:1: request_latency",
            "missing required field `avg`",
        ),
        (CSV.replace("189.14", "fast").encode(), "f:11: Output Token", "'avg' is not a number: fast"),
    ],
)
def test_a_file_that_is_out_of_order_is_named_by_line_and_key(data: bytes, where: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as refused:
        read_levels(data, "f")
    assert (refused.value.where or "").startswith(where)
