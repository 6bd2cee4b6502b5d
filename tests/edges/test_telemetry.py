"""A host's telemetry, through the real agent, from a stand-in nvidia-smi and a server that has /metrics."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oeactl.core.metrics import engine_load
from oeactl.core.telemetry import Sample, Watched, watched
from oeactl.edges.telemetry import AgentTelemetry
from oeactl.ports import Agent, Samples
from tests.support.cards import H200, POWER_CAP, RTX_PRO_6000, VGPU, Cards
from tests.support.serving import agent
from tests.support.stream_server import Server, paced, serving

SGLANG = """# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="tiny",tp_rank="0"} 4.0
sglang:num_queue_reqs{model_name="tiny",tp_rank="0"} 2.0
sglang:num_used_tokens{model_name="tiny",tp_rank="0"} 512.0
sglang:max_total_num_tokens{model_name="tiny",tp_rank="0"} 4096.0
sglang:gen_throughput{model_name="tiny",tp_rank="0"} 812.5
sglang:token_usage{model_name="tiny",tp_rank="0"} NaN
"""


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cards:
    made = Cards(tmp_path / "bin", cards=[H200, RTX_PRO_6000])
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(paced()) as one:
        yield one


def telemetry(link: Agent, url: str = "http://127.0.0.1:1", *, machine: bool = True) -> AgentTelemetry:
    return AgentTelemetry(link, url=url, machine=machine, every_s=0.1)


def heard(samples: Samples, enough: Callable[[tuple[Sample, ...]], bool]) -> tuple[Sample, ...]:
    """Wait until what came is enough."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        taken = samples.between(0.0, time.time())
        if enough(taken):
            return taken
        time.sleep(0.05)
    raise AssertionError(f"not in time: {samples.why()}, {samples.between(0.0, time.time())}")


def looked(
    enough: Callable[[tuple[Sample, ...]], bool], *, url: str = "http://127.0.0.1:1", own: int = 0
) -> Watched:
    link = agent()
    with telemetry(link, url).watching([own or os.getpid()]) as samples:
        taken = heard(samples, enough)
        why = samples.why()
    link.close()
    return watched(taken, engine_load([one.metrics for one in taken if one.metrics], {}), why)


def has_cards(taken: tuple[Sample, ...]) -> bool:
    return any(one.cards for one in taken) and any(one.cpu_busy is not None for one in taken)


def test_each_card_is_summed_up_and_what_it_has_not_is_none(cards: Cards) -> None:
    found = looked(has_cards)
    first, second = found.cards
    assert (first.index, first.uuid, first.used) == (0, cards.uuid(0), None)
    assert first.sm_mhz is not None and first.sm_mhz.mean == 1980
    assert first.power_w is not None and first.power_w.max == 402.17
    assert (first.power_limit_w, first.memory_total_mib) == (600.0, 143771.0)
    assert first.throttled == {}
    assert second.memory_temperature_c is None
    assert second.temperature_c is not None and second.temperature_c.min == 61
    assert found.foreign is None
    assert found.cpu_busy is not None and 0 <= found.cpu_busy.mean <= 1
    assert found.clock_offset_s is not None and -5 < found.clock_offset_s <= 0


def test_a_card_that_tells_little_is_not_called_idle_cold_or_unthrottled(cards: Cards) -> None:
    cards.say(cards=[VGPU])
    (card,) = looked(has_cards).cards
    assert (card.sm_mhz, card.power_w, card.temperature_c, card.throttled) == (None, None, None, None)
    assert card.busy_percent is not None and card.busy_percent.mean == 37


def test_an_old_driver_is_asked_by_the_names_it_knows(cards: Cards) -> None:
    cards.say(
        cards=[{**H200, "clocks_throttle_reasons.active": POWER_CAP}],
        unknown=("clocks_event_reasons.active", "temperature.memory", "enforced.power.limit"),
    )
    (card,) = looked(has_cards).cards
    assert card.throttled == {"power cap": 1.0}
    assert (card.memory_temperature_c, card.power_limit_w) == (None, 600.0)


def test_who_holds_a_card_is_the_server_its_children_a_job_of_ours_or_somebody_else(
    cards: Cards, tmp_path: Path
) -> None:
    sleep = [sys.executable, "-IS", "-c", "import time; time.sleep(600)"]
    job = subprocess.Popen(sleep, env={"OEACTL_JOB": "0"}, start_new_session=True)
    other = subprocess.Popen(sleep, start_new_session=True)
    nest = (
        f"import subprocess, sys; print(subprocess.Popen({sleep!r}, start_new_session=True).pid, flush=True)"
    )
    server = subprocess.Popen(
        [sys.executable, "-IS", "-c", f"{nest}; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdout is not None and server.stdin is not None
    worker = int(server.stdout.readline())
    try:
        cards.say(
            holders=[
                (0, worker, "70000", "sglang::scheduler_TP0"),
                (0, job.pid, "500", "python"),
                (0, other.pid, "[N/A]", "/usr/bin/python3, of ann"),
                (1, other.pid, "2048", "/usr/bin/python3, of ann"),
            ]
        )
        found = looked(
            lambda taken: has_cards(taken) and any(len(one.holders) == 4 for one in taken),
            own=server.pid,
        )
    finally:
        os.kill(worker, 9)
        for process in (job, other, server):
            process.kill()
            process.wait()
        server.stdout.close()
        server.stdin.close()
    assert [(card.index, card.used) for card in found.cards] == [(0, True), (1, False)]
    assert [card.index for card in found.loaded] == [0]
    assert found.foreign is not None
    assert [(one.card, one.used, one.pid, one.mib) for one in found.foreign] == [
        (0, True, other.pid, None),
        (1, False, other.pid, 2048),
    ]
    assert found.foreign[0].name == "/usr/bin/python3, of ann"


@pytest.mark.parametrize(
    "said",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "No devices were found",
    ],
)
def test_a_driver_that_does_not_answer_is_a_reason(cards: Cards, said: str) -> None:
    cards.say(broken=said)
    found = looked(lambda taken: len(taken) > 0)
    assert found.cards == ()
    assert found.unseen["cards"] == f"nvidia-smi: {said}"


def test_a_driver_that_dies_meanwhile_is_a_reason_too(cards: Cards) -> None:
    link = agent()
    with telemetry(link).watching([os.getpid()]) as samples:
        heard(samples, has_cards)
        cards.say(broken="Unable to determine the device handle for GPU0: Unknown Error")
        late = heard(samples, lambda taken: "cards" in taken[-1].why and not taken[-1].cards)[-1]
    link.close()
    assert "Unable to determine the device handle" in late.why["cards"]


def test_the_engine_s_own_account_is_asked_on_its_host(server: Server, cards: Cards) -> None:
    server.texts = {"/metrics": SGLANG}
    found = looked(lambda taken: any(one.metrics for one in taken), url=server.url).engine
    assert found is not None
    assert found.running is not None and found.running.mean == 4
    assert found.waiting is not None and found.waiting.max == 2
    assert (found.kv_total_tokens, found.queue_s, found.accept_length) == (4096, None, None)
    assert found.kv_available_tokens is not None and found.kv_available_tokens.min == 3584
    assert found.kv_share is not None and found.kv_share.mean == 0.125


def test_a_server_without_metrics_is_asked_once(cards: Cards) -> None:
    with serving(paced()) as bare:
        found = looked(lambda taken: len(taken) > 2, url=bare.url)
    assert (found.engine, found.unseen["metrics"]) == (None, "/metrics was answered 404")
    assert bare.paths == ["/metrics"]


def test_nothing_of_it_is_left_when_the_block_ends(cards: Cards) -> None:
    link = agent()
    with telemetry(link).watching([os.getpid()]) as samples:
        heard(samples, has_cards)
    link.close()
    limit = time.monotonic() + 30
    while any(str(cards.folder) in title for title in _titles()) and time.monotonic() < limit:
        time.sleep(0.1)
    assert not [title for title in _titles() if str(cards.folder) in title]


def _titles() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found


def test_a_host_that_cannot_be_seen_has_its_engine_s_account_alone(server: Server) -> None:
    server.texts = {"/metrics": SGLANG}
    link = agent()
    with telemetry(link, server.url, machine=False).watching([]) as samples:
        taken = heard(samples, lambda taken: any(one.metrics for one in taken))
        why = samples.why()
    link.close()
    found = watched(taken, None, why)
    assert found.unseen["cards"] == "the server's machine is not seen from here"
    assert found.cpu_busy is None
