"""The real client of a real SGLang against a server that plays tricks, and what gates make of its report."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count as counting
from pathlib import Path
from typing import Any

import pytest

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.figures import dated
from oeactl.core.gates import failures, judge
from oeactl.core.load import Point, make_point
from oeactl.core.provenance import DriverRecord
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.drivers.sglang import SglangClient
from oeactl.edges.local import open_local
from tests.support.engine import RELEASE, VOCABULARY, cpu_engine
from tests.support.levels import some_evidence

pytestmark = pytest.mark.engine

KEY = "very-secret"
POINT = make_point(2, input_len=8, output_len=6, seed=42, requests=4)


class Trickster(ThreadingHTTPServer):
    """A server of the native API that answers each request in the way its ``trick`` says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.trick = "none"
        self.served = counting()
        self.prompts: list[tuple[int, ...]] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Trickster

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        # What a server tells of itself may hold its key.
        self._answer(200, {"data": [{"id": "tiny"}], "api_key": KEY, "internal_states": [{}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.add(self.headers["Authorization"])
        self.server.prompts.append(tuple(request["input_ids"]))
        trick = self.server.trick
        if trick == "each differently":
            trick = ("fail", "short", "silent", "none")[next(self.server.served) % 4]
        if trick == "fail":
            self._answer(500, {"error": "no"})
            return
        asked = request["sampling_params"]["max_new_tokens"]
        pause_s = 0.35 if trick == "slow" else 0.0
        self._stream(asked - 1 if trick == "short" else asked, silent=trick == "silent", pause_s=pause_s)

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, tokens: int, *, silent: bool, pause_s: float) -> None:
        """Cumulative text and counts, an event a token; silent: errors in a stream that began with 200."""
        self.send_response(200)
        self.end_headers()
        for count in range(1, tokens + 1):
            time.sleep(pause_s)
            event: dict[str, Any] = {"text": "a " * count, "meta_info": {"completion_tokens": count}}
            if silent:
                event = {"error": {"message": "out of memory"}}
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")


@pytest.fixture(scope="module")
def trickster() -> Iterator[Trickster]:
    server = Trickster()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def driver() -> SglangClient:
    """One for all tests: it asks for the client's help once."""
    return SglangClient(
        AgentLink(open_local()),
        python=str(cpu_engine().python),
        env={
            "SGLANG_USE_CPU_ENGINE": "1",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "ENGINE_STUBS": "torchvision,sgl_kernel,datasets",
        },
        cwd="/",
        api_key=KEY,
    )


class Watched:
    """A Progress that keeps the last count."""

    def __init__(self) -> None:
        self.last: tuple[float | None, float | None] = (None, None)

    def step(self, text: str) -> None: ...

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        self.last = (done, total)

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


def measure(
    driver: SglangClient, trickster: Trickster, trick: str, *, point: Point = POINT
) -> tuple[PointMeasured, Watched]:
    trickster.trick, trickster.served, trickster.prompts = trick, counting(), []
    watched = Watched()
    request = PointRequest(
        phase="measured",
        point=point,
        url=trickster.url,
        model=str(cpu_engine().model),
        tokenizer=str(cpu_engine().model),
        deadline_s=240.0,
    )
    return driver.run(request, watched), watched


def void_for(measured: PointMeasured) -> set[str]:
    evidence = some_evidence(
        POINT,
        measurement=measured.measurement,
        requests=measured.requests,
        failure=measured.failure,
    )
    return {line.partition(":")[0] for line in failures(judge(evidence))}


def test_the_client_is_found_with_the_flags_it_has(driver: SglangClient) -> None:
    record: DriverRecord = driver.describe()
    assert record.program == "sglang.benchmark.serving"
    assert "--cache-report" in record.flags
    assert Path(cpu_engine().site, f"sglang-{RELEASE}.dist-info").is_dir()


def test_a_server_that_answers_well_is_measured_each_prompt_sent_once_at_the_length_asked(
    driver: SglangClient, trickster: Trickster
) -> None:
    """The client's own warm-up, switched off, would have sent the first prompt twice."""
    measured, watched = measure(driver, trickster, "slow")
    assert measured.failure is None
    assert measured.measurement is not None
    assert (measured.measurement.completed, measured.measurement.output_tokens) == (4, 24)
    assert not void_for(measured)
    assert watched.last == (4, 4)
    assert len(trickster.prompts) == len(set(trickster.prompts)) == 4
    assert {len(prompt) for prompt in trickster.prompts} == {8}
    assert max(max(prompt) for prompt in trickster.prompts) < VOCABULARY
    assert measured.client is not None and 0 <= measured.client.busiest_core < 1.5
    when = dated(measured.requests, POINT.concurrency, measured.measurement.duration_s)
    assert when is not None and when.sent_s is not None and max(when.sent_s) > 2.0
    assert KEY not in repr(measured)
    assert trickster.keys == {f"Bearer {KEY}"}


def test_no_success_at_all_is_void_in_plain_words(driver: SglangClient, trickster: Trickster) -> None:
    measured, watched = measure(driver, trickster, "fail")
    assert measured.failure == "none of 4 requests succeeded"
    assert any("IndexError" in line for line in measured.tail)
    assert watched.last == (4, 4)
    assert void_for(measured) == {"completed"}


def test_what_the_client_reports_as_ordinary_is_void_for_each_fault(
    driver: SglangClient, trickster: Trickster
) -> None:
    """A 500, a stream that ends early, and an error inside a 200: the client ends with 0 and a line."""
    measured, _ = measure(driver, trickster, "each differently")
    assert measured.failure is None
    assert measured.measurement is not None
    assert (measured.measurement.completed, measured.measurement.failed) == (3, 1)
    assert {"completed", "errors", "output_lengths", "ttft"} <= void_for(measured)
    assert measured.requests is not None
    assert sorted(measured.requests.output_lens) == [0, 5, 6, 6]
