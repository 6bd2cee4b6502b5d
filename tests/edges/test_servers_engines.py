"""An engine is asked on its host: side by side, with its key, secrets redacted, the flush confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.edges.engines.openai import OpenAIEngine
from oeactl.edges.engines.sglang import SglangEngine
from oeactl.errors import Unreachable
from oeactl.ports import Ready
from tests.support.serving import Standin, Told, agent, free_port

pytestmark = pytest.mark.timeout(60)
KEY = "sk-77"


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[Standin]:
    one = Standin(tmp_path, free_port())
    yield one
    one.clear()


def begin(standin: Standin, *args: str, **place: Any) -> None:
    server, launch = standin.server(**place), standin.launch(*args)
    outcome = server.await_ready(server.start(launch), launch, Told())
    assert isinstance(outcome, Ready), outcome


def test_completions_run_side_by_side_and_come_back_in_order(standin: Standin) -> None:
    begin(standin)
    engine = SglangEngine(agent(), url=standin.url)
    prompts = [[1] * (n + 1) for n in range(12)]
    replies = engine.complete(prompts=prompts, output_len=3, concurrency=4)
    assert [reply.status for reply in replies] == [200] * 12
    assert [f'"prompt_tokens": {n + 1}'.encode() in reply.body for n, reply in enumerate(replies)] == [
        True
    ] * 12
    states = engine.info()["internal_states"]
    assert states[0]["most_at_once"] == 4


def test_the_key_goes_in_a_header_and_comes_back_redacted(standin: Standin) -> None:
    begin(standin, "--api-key", KEY, api_key=KEY)
    info = SglangEngine(agent(), url=standin.url, api_key=KEY).info()
    assert info["api_key"] == "[redacted]"
    assert info["launch_command"] == "launch_server --api-key [redacted] --max-total-tokens 9"
    assert info["internal_states"][0]["hf_token"] == "[redacted]"
    assert (info["max_total_tokens"], info["tokenizer_path"]) == (9, "/m")
    with pytest.raises(Unreachable, match="answered 401") as caught:
        SglangEngine(agent(), url=standin.url).info()
    assert "api_key_env" in (caught.value.hint or "")


def test_older_and_newer_endpoints_are_both_found(standin: Standin) -> None:
    begin(standin)
    engine = SglangEngine(agent(), url=standin.url)
    assert engine.info()["version"] == "0.0.1"
    assert engine.model_info() == {"model_path": "/m"}


def test_a_flush_that_is_busy_is_tried_again_until_confirmed(standin: Standin) -> None:
    begin(standin, "--busy-flushes", "2")
    assert SglangEngine(agent(), url=standin.url).flush_cache() is True


def test_without_a_server_there_is_no_flush_and_no_info(standin: Standin) -> None:
    engine = SglangEngine(agent(), url=standin.url)
    assert engine.flush_cache() is False
    with pytest.raises(Unreachable, match="does not answer: ConnectionRefusedError"):
        engine.info()
    (reply,) = engine.complete(prompts=[[1]], output_len=1, concurrency=1)
    assert reply.status == 0 and "refused" in reply.error.lower()


def test_a_server_of_openais_api_alone_is_ready_and_completes(standin: Standin) -> None:
    begin(standin, "--openai", kind="openai")
    engine = OpenAIEngine(agent(), url=standin.url)
    assert engine.info() == {"models": [{"id": "tiny"}]}
    replies = engine.complete(prompts=[[1, 2], [3]], output_len=2, concurrency=2)
    assert [reply.status for reply in replies] == [200, 200]
    assert engine.flush_cache() is False
