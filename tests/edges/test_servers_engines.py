"""An engine is asked on its host: side by side, with its key, secrets redacted, the flush confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oeactl.edges.engines.openai import OpenAIEngine
from oeactl.edges.engines.sglang import SglangEngine
from oeactl.errors import Unreachable
from oeactl.ports import Ready
from tests.support.serving import Standin, Told, agent, free_port

KEY = "sk-77"


def begin(standin: Standin, *args: str, **place: Any) -> None:
    server, launch = standin.server(**place), standin.launch(*args)
    outcome = server.await_ready(server.start(launch), launch, Told())
    assert isinstance(outcome, Ready), outcome


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[Standin]:
    one = Standin(tmp_path, free_port())
    yield one
    one.clear()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server like SGLang's that wants a key and is too busy for the first two flushes."""
    one = Standin(tmp_path_factory.mktemp("sglang"), free_port())
    begin(one, "--api-key", KEY, "--busy-flushes", "2", "--answer-ms", "500", api_key=KEY)
    yield one.url
    one.clear()


def test_completions_run_side_by_side_and_come_back_in_order(url: str) -> None:
    engine = SglangEngine(agent(), url=url, api_key=KEY)
    prompts = [[1] * (n + 1) for n in range(12)]
    replies = engine.complete(prompts=prompts, output_len=3, concurrency=4)
    assert [json.loads(reply.body)["meta_info"]["prompt_tokens"] for reply in replies] == [*range(1, 13)]
    assert engine.info()["internal_states"][0]["most_at_once"] == 4


def test_the_key_goes_in_a_header_and_comes_back_redacted(url: str) -> None:
    info = SglangEngine(agent(), url=url, api_key=KEY).info()
    assert info["api_key"] == "[redacted]"
    assert info["launch_command"] == "launch_server --api-key [redacted] --max-total-tokens 9"
    assert info["internal_states"][0]["hf_token"] == "[redacted]"
    assert (info["max_total_tokens"], info["tokenizer_path"]) == (9, "/m")


def test_a_missing_key_is_named(url: str) -> None:
    with pytest.raises(Unreachable, match="answered 401") as caught:
        SglangEngine(agent(), url=url).info()
    assert "api_key_env" in (caught.value.hint or "")


def test_older_and_newer_endpoints_are_both_found(url: str) -> None:
    engine = SglangEngine(agent(), url=url, api_key=KEY)
    assert engine.info()["version"] == "0.0.1"
    assert engine.model_info() == {"model_path": "/m"}


def test_a_flush_that_is_busy_is_tried_again_until_confirmed(url: str) -> None:
    assert SglangEngine(agent(), url=url, api_key=KEY).flush_cache() is True


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
    assert engine.flush_cache() is None
