"""A real SGLang on this CPU: begun, ready by a real completion, asked, ended with nothing left of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.core.burst import PointRequest
from oeactl.core.host import Launch
from oeactl.core.load import make_point
from oeactl.edges.drivers.light import Api, LightClient
from oeactl.edges.engines.sglang import SglangEngine
from oeactl.edges.servers.process import ProcessServer
from oeactl.ports import Failed, Ready
from tests.support.engine import VOCABULARY, cpu_engine, server_argv, server_env
from tests.support.serving import Standin, Told, agent, free_port

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
KEY = "sk-real"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Standin]:
    one = Standin(tmp_path, free_port())
    yield one
    one.clear()


def launch(place: Standin, *more: str) -> Launch:
    engine = cpu_engine()
    return Launch(
        python=str(engine.python),
        argv=server_argv(place.port, "--api-key", KEY, *more),
        cwd=str(place.folder),
        env=server_env(engine.site),
        log=str(place.log),
        url=place.url,
    )


def server(place: Standin) -> ProcessServer:
    return place.server(api_key=KEY, ready_timeout_s=300.0, stop_timeout_s=60.0, grace_s=5.0)


def test_it_starts_completes_and_ends_with_nothing_left(place: Standin) -> None:
    one, told = server(place), Told()
    wanted = launch(place)
    outcome = one.await_ready(one.start(wanted), wanted, told)
    assert isinstance(outcome, Ready), outcome
    assert {"starting the engine", "warming up"} & set(told.updates)
    state = one.state()
    assert state.recorded == state.listener == outcome.process
    assert [worker.title for worker in state.workers] == ["sglang::scheduler"]
    assert state.healthy is True
    engine = SglangEngine(agent(), url=place.url, api_key=KEY)
    replies = engine.complete(prompts=[[5 + n, 6, 7] for n in range(4)], output_len=6, concurrency=4)
    assert [json.loads(reply.body)["meta_info"]["completion_tokens"] for reply in replies] == [6] * 4
    info = engine.info()
    assert info["version"] and KEY not in json.dumps(info)
    assert engine.model_info()["model_path"] == str(cpu_engine().model)
    assert engine.flush_cache() is True
    measured_by_the_light_client(place)
    assert not [line for line in one.log_lines(10_000) if KEY in line]
    one.stop(told)
    assert place.pids() == []
    assert one.state(health=False).listener is None
    assert not [note for note in told.notes if "SIGKILL" in note]


def measured_by_the_light_client(place: Standin) -> None:
    """With the engine's own interpreter, by each of the server's three APIs."""
    point = make_point(2, input_len=16, output_len=8, seed=1, requests=4)
    apis: tuple[Api, ...] = ("generate", "completions", "chat")
    for api in apis:
        driver = LightClient(
            agent(), python=str(cpu_engine().python), api=api, version="0", url=place.url, api_key=KEY
        )
        request = PointRequest(
            phase="measured",
            point=point,
            url=place.url,
            model="tiny",
            tokenizer="",
            deadline_s=120.0,
            dataset="natural" if api == "chat" else "random-ids",
            vocabulary=VOCABULARY,
        )
        measured = driver.run(request, Told())
        assert measured.measurement is not None, measured.failure
        assert measured.measurement.completed == 4
        assert measured.requests is not None
        assert measured.requests.output_lens == (8,) * 4
        assert api == "chat" or measured.requests.input_lens == (16,) * 4


def test_a_wrong_argument_is_told_as_the_first_error(place: Standin) -> None:
    one, wanted = server(place), launch(place, "--no-such-flag")
    outcome = one.await_ready(one.start(wanted), wanted, Told())
    assert isinstance(outcome, Failed)
    assert "unrecognized arguments: --no-such-flag" in (outcome.first_error or "")
    assert outcome.hint == "correct server.argv in hosts.yaml"
    assert place.pids() == []
