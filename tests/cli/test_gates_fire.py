"""Each gate that a scripted server can make fire does; command, client and agent are the real ones.

What only a host shows (files, proofs) is in tests/flows and tests/e2e.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.cli import app
from tests.support.cards import H200, IDLE, POWER_CAP, SW_THERMAL, Cards
from tests.support.stream_server import Act, Asked, Server, Voice, paced, serving, token

MODEL = {"/v1/models": {"data": [{"id": "tiny"}]}, "/reset_prefix_cache": {}}
SGLANG = {
    "/server_info": {"version": "0.5.20", "served_model_name": "tiny", "internal_states": [{}]},
    "/flush_cache": {},
}
PACE = paced(itl_s=0.01)
LONG = paced(itl_s=0.02)
TWICE_AS_FAST = paced(itl_s=0.005, text=lambda asked, index: "the the of and ")


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving(PACE) as one:
        yield one


@pytest.fixture
def server(running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    running.act, running.asked, running.absent, running.refused = PACE, [], set(), set()
    running.pages, running.texts, running.paths = dict(MODEL), {}, []
    monkeypatch.setattr(running, "port", running.port)
    return running


def measured(server: Server, bad: Act) -> Act:
    """Behave until the cache was flushed; from then on as ``bad``."""

    async def act(voice: Voice, asked: Asked) -> None:
        flushed = any(path in server.paths for path in ("/reset_prefix_cache", "/flush_cache"))
        await (bad if flushed else PACE)(voice, asked)

    return act


def nth(server: Server, number: int, bad: Act, *, usual: Act = PACE) -> Act:
    """As usual but for the ``number``-th measured request."""
    seen: list[int] = []

    async def act(voice: Voice, asked: Asked) -> None:
        seen.append(asked.number)
        await (bad if len(seen) == number else usual)(voice, asked)

    return measured(server, act)


def bench(server: Server, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict[str, Any]]:
    """One level of two streams: its gates by name."""
    words = ("--url", server.url, "-c", "2", "--input-len", "32", "--output-len", "24", "--json", *more)
    app.main(["bench", *words])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    (point,) = document["trials"][0]["points"]
    gates = {gate["name"]: gate for gate in point["gates"]}
    failed = [f"{name}: {gate['reason']}" for name, gate in gates.items() if gate["outcome"] == "fail"]
    assert point["reasons"] == failed
    assert point["valid"] == (not failed)
    return gates


async def reset(voice: Voice, asked: Asked) -> None:
    await voice.head()
    await voice.event(token(asked, 1, "one "))
    voice.drop()


async def error_inside(voice: Voice, asked: Asked) -> None:
    await voice.head()
    await voice.event(token(asked, 1, "one "))
    await voice.event({"error": {"message": "CUDA error: an illegal memory access"}})
    await voice.done()


async def silent(voice: Voice, asked: Asked) -> None:
    await voice.head()
    await voice.done()


def counted(**changes: Any) -> Act:
    """SGLang's native stream, with other counts in its last event."""

    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        for index in range(asked.tokens):
            await asyncio.sleep(0.01)
            event = token(asked, index + 1, "one ", last=index + 1 == asked.tokens)
            event["meta_info"].update(changes)
            await voice.event(event)
        await voice.done()

    return act


async def late(voice: Voice, asked: Asked) -> None:
    await asyncio.sleep(4.0)
    await PACE(voice, asked)


async def early(voice: Voice, asked: Asked) -> None:
    """It stops by itself and says so."""
    body = {**asked.body, "max_tokens": 9}
    await PACE(voice, Asked(number=asked.number, api=asked.api, body=body, headers=asked.headers))


Fault = Callable[[Server], None]


def acting(make: Callable[[Server], Act]) -> Fault:
    def spoil(server: Server) -> None:
        server.act = make(server)

    return spoil


def refusing(*paths: str, after_flush: bool = False) -> Fault:
    def spoil(server: Server) -> None:
        if not after_flush:
            server.refused.update(paths)
            return

        async def act(voice: Voice, asked: Asked) -> None:
            server.refused.update(paths)
            await PACE(voice, asked)

        server.act = measured(server, act)

    return spoil


FAULTS: list[tuple[str, Fault, str]] = [
    ("completed", acting(lambda server: nth(server, 3, reset)), "19 of 20 planned requests completed"),
    ("errors", acting(lambda server: nth(server, 3, error_inside)), "CUDA error: an illegal memory access"),
    (
        "output_lengths",
        acting(lambda server: nth(server, 3, early)),
        "1 of 20 requests returned 9 tokens, not 24",
    ),
    ("ttft", acting(lambda server: nth(server, 3, silent)), "1 of 20 requests never showed a first token"),
    ("concurrency", acting(lambda server: nth(server, 20, late)), "in flight on average, 2 asked"),
    ("flush", refusing("/reset_prefix_cache"), "did not confirm that its prefix cache was flushed"),
    ("alive_after", refusing("/v1/completions", after_flush=True), "no token could be generated afterwards"),
]


def test_one_block_over_and_over_at_twice_the_speed_is_void(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.act = measured(server, TWICE_AS_FAST)
    gates = bench(server, capsys, "--dataset", "natural")
    assert gates["answers"]["outcome"] == "fail"
    assert "sampled answers repeat one block, such as 'the the of and" in gates["answers"]["reason"]
    assert gates["output_lengths"]["outcome"] == gates["completed"]["outcome"] == "pass"


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "spoil", "says"), FAULTS, ids=[name for name, _, _ in FAULTS])
def test_a_fault_of_the_server_makes_its_gate_fire(
    server: Server, capsys: pytest.CaptureFixture[str], name: str, spoil: Fault, says: str
) -> None:
    spoil(server)
    gate = bench(server, capsys, "--dataset", "natural")[name]
    assert gate["outcome"] == "fail", gate
    assert says in gate["reason"]


NATIVE: list[tuple[str, Act, str]] = [
    ("input_lengths", counted(prompt_tokens=31), "requests were sent 31 tokens, not 32"),
    ("cached_prompt", counted(cached_tokens=16), "50.0% of the prompt tokens came from the cache"),
]


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "bad", "says"), NATIVE, ids=[name for name, _, _ in NATIVE])
def test_what_the_server_counts_otherwise_than_was_sent_makes_its_gate_fire(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, bad: Act, says: str
) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 1000}')
    server.pages = {**SGLANG, "/server_info": {**SGLANG["/server_info"], "model_path": str(tmp_path)}}
    server.act = measured(server, bad)
    gate = bench(server, capsys)[name]
    assert gate["outcome"] == "fail", gate
    assert says in gate["reason"]


@pytest.mark.e2e
def test_tokens_that_come_faster_than_the_client_can_tell_apart_make_its_gate_fire(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.act = paced()
    gate = bench(server, capsys, "--dataset", "natural", "--output-len", "400")["client"]
    assert gate["outcome"] == "fail", gate


@pytest.mark.parametrize(
    ("reasons", "outcome"),
    [
        (SW_THERMAL, "fail"),
        pytest.param(POWER_CAP, "fail", marks=pytest.mark.e2e),
        pytest.param(IDLE, "pass", marks=pytest.mark.e2e),
    ],
)
def test_cards_that_were_held_down_make_their_gate_fire(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reasons: str,
    outcome: str,
) -> None:
    """The server is this very process, which has memory on card 0; card 1 is held down whatever happens."""
    hot = {**H200, "clocks_event_reasons.active": SW_THERMAL}
    cards = Cards(tmp_path / "bin", cards=[{**H200, "clocks_event_reasons.active": reasons}, hot])
    cards.say(holders=[(0, os.getpid(), "70000", "sglang::scheduler_TP0")])
    monkeypatch.setenv("PATH", cards.path)
    server.act = LONG
    gates = bench(server, capsys, "--dataset", "natural")
    assert gates["gpu_throttling"]["outcome"] == outcome, gates["gpu_throttling"]
    assert gates["gpu_foreign"]["outcome"] == "pass", gates["gpu_foreign"]


@pytest.mark.e2e
def test_a_stranger_on_the_server_s_card_makes_its_gate_fire(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = Cards(tmp_path / "bin", cards=[H200])
    cards.say(holders=[(0, os.getpid(), "70000", "sglang"), (0, 1, "23000", "train.py")])
    monkeypatch.setenv("PATH", cards.path)
    server.act = LONG
    gate = bench(server, capsys, "--dataset", "natural")["gpu_foreign"]
    assert (gate["outcome"], gate["reason"]) == ("fail", "pid 1 (train.py) is on GPU 0, 23,000 MiB")


HANDOVER = """
import asyncio, json, os, sys, time
from pathlib import Path
from tests.support.stream_server import paced, serving
seen = []
async def act(voice, asked):
    seen.append(asked)
    if len(seen) == 15:
        loop = asyncio.get_running_loop()
        if os.fork():
            os._exit(0)
        asyncio._set_running_loop(loop)  # it is known by the process too
        Path("pid").write_text(str(os.getpid()))
    await paced(itl_s=0.01)(voice, asked)
with serving(act) as server:
    server.pages = json.loads(sys.argv[1])
    Path("pid").write_text(str(os.getpid()))
    print(server.url, flush=True)
    time.sleep(600)
"""


@pytest.mark.e2e
def test_another_process_that_answers_in_the_server_s_place_makes_its_gate_fire(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It goes on with the very same connections, so that no request fails."""
    root = str(Path(__file__).parent.parent.parent)
    begun = subprocess.Popen(
        [sys.executable, "-c", HANDOVER, json.dumps(MODEL)],
        env={**os.environ, "PYTHONPATH": root},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert begun.stdout is not None
    try:
        server.port = int(begun.stdout.readline().rpartition(":")[2])
        gates = bench(server, capsys, "--dataset", "natural")
    finally:
        os.killpg(begun.pid, signal.SIGKILL)
        begun.wait()
        begun.stdout.close()
    assert gates["completed"]["outcome"] == "pass", gates["completed"]
    assert gates["same_server"]["outcome"] == "fail", gates["same_server"]
    last = (tmp_path / "pid").read_text()
    assert gates["same_server"]["reason"] == (
        f"the server was pid {begun.pid} before the level and pid {last} after it"
    )
