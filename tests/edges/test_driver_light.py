"""The light client against a server that does what its script says: each oddity of a stream, and each bound.

The program runs in a process of its own, sent through the real agent, as on a host.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.gates import failures, judge
from oeactl.core.load import PerRequest, Point, make_point
from oeactl.edges.drivers.light import Api, LightClient
from oeactl.edges.jobs import JobResult, run_job
from oeactl.ports import Agent
from tests.support.levels import some_evidence
from tests.support.patience import in_quiet
from tests.support.serving import Told, agent
from tests.support.stream_server import Asked, Server, Voice, paced, serving, token, usage, words

POINT = make_point(2, input_len=8, output_len=4, seed=42, requests=2)
KEY = "very-secret"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(paced()) as one:
        yield one


def here(agent: Agent, *, argv: Sequence[str], given: bytes | None = None, **given_not: Any) -> JobResult:
    """As run_job, without the agent around it: half a second less a test."""
    assert given is not None
    with TemporaryDirectory() as folder:
        files = {"{in}": f"{folder}/in", "{out}": f"{folder}/out"}
        Path(files["{in}"]).write_bytes(given)
        words = [files.get(word, word) for word in argv]
        done = subprocess.run([words[0], "-I", "-S", *words[1:]], capture_output=True, text=True, check=False)
        out = Path(files["{out}"])
        return JobResult(
            returncode=done.returncode,
            timed_out=False,
            tail=tuple((done.stdout + done.stderr).splitlines()),
            out=out.read_bytes() if out.exists() else None,
            seconds=1.0,
        )


def client(server: Server, api: Api = "completions", **changes: Any) -> LightClient:
    fields: dict[str, Any] = {"python": sys.executable, "version": "0", "run_job": here, **changes}
    made = LightClient(agent(), api=api, url=server.url, **fields)
    made._ignores_eos = True  # the tests of the probe set it back
    return made


def request(point: Point = POINT, **changes: Any) -> PointRequest:
    made = PointRequest(
        phase="measured",
        point=point,
        url="http://127.0.0.1:1",
        model="m",
        tokenizer="m",
        deadline_s=30.0,
        vocabulary=1000,
    )
    return msgspec.structs.replace(made, **changes)


def play(
    server: Server, act: Callable[[Voice, Asked], Any], api: Api = "completions", **changes: Any
) -> PointMeasured:
    server.act, server.asked = act, []
    return client(server, api).run(request(**changes), Told())


def rows_of(measured: PointMeasured) -> PerRequest:
    assert measured.requests is not None, measured.failure
    return measured.requests


@pytest.mark.parametrize("api", ["generate", "completions", "chat"])
@in_quiet
def test_each_api_is_measured_by_the_server_s_own_counts(server: Server, api: Api) -> None:
    dataset = "natural" if api == "chat" else "random-ids"
    measured = play(server, paced(ttft_s=0.2, itl_s=0.1), api, dataset=dataset)
    rows, figures = rows_of(measured), measured.measurement
    assert figures is not None
    assert (figures.completed, figures.failed, figures.output_tokens) == (2, 0, 8)
    assert rows.output_lens == (4, 4)
    assert rows.errors == ("", "")
    assert [len(gaps) for gaps in rows.itls_s] == [3, 3]
    assert all(0.195 < seconds < 1.2 for seconds in rows.ttfts_s)
    assert figures.itl_ms is not None and 50 < figures.itl_ms.median < 500
    assert figures.tpot_ms is not None and 50 < figures.tpot_ms.mean < 500
    assert 0.49 < figures.duration_s < 3.0
    if api != "chat":
        assert rows.input_lens == (8, 8)
    assert measured.client is not None and measured.client.processes == 1


def test_the_request_is_what_the_point_asks_for(server: Server) -> None:
    play(server, paced(), "generate")
    for asked in server.asked:
        assert asked.body["sampling_params"] == {"max_new_tokens": 4, "temperature": 0, "ignore_eos": True}
        assert asked.body["stream"] is True
        assert len(asked.prompt) == 8
        assert all(125 <= one < 900 for one in asked.prompt)
    assert len({tuple(asked.prompt) for asked in server.asked}) == 2


def test_the_same_seed_sends_the_same_prompts_and_another_one_others(server: Server) -> None:
    def prompts(**changes: Any) -> set[tuple[int, ...]]:
        play(server, paced(), "generate", **changes)
        return {tuple(asked.prompt) for asked in server.asked}

    first = prompts()
    assert prompts() == first
    assert prompts(phase="warm-up").isdisjoint(first)


def test_the_key_goes_into_the_header_and_nowhere_else(server: Server) -> None:
    async def deny(voice: Voice, asked: Asked) -> None:
        await voice.head(401, "text/plain", content_length=str(len(KEY)))
        await voice.raw(KEY.encode())

    server.act, server.asked = deny, []
    measured = client(server, api_key=KEY).run(request(), Told())
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    assert measured.failure is not None and "HTTP 401" in measured.failure
    assert KEY not in repr(measured)


# -- streams to survive ---------------------------------------------------------------------------


async def _whole(voice: Voice, asked: Asked, cut: Callable[[bytes], list[bytes]]) -> None:
    """An answer written in the pieces that ``cut`` makes of its body."""
    import json

    texts = ["ö", "ß ", "日本", "語 \U0001f600"]
    events = [token(asked, n + 1, text, last=n == 3) for n, text in enumerate(texts)]
    body = b"".join(b"data: " + json.dumps(e, ensure_ascii=False).encode() + b"\n\n" for e in events)
    body += b"data: " + json.dumps(usage(asked, 4)).encode() + b"\n\ndata: [DONE]\n\n"
    await voice.head()
    for piece in cut(body):
        await voice.body(piece)
        await asyncio.sleep(0.001)
    await voice.end()


def test_an_event_cut_inside_a_character_or_a_line_is_put_together(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await _whole(voice, asked, lambda body: [body[i : i + 7] for i in range(0, len(body), 7)])

    measured = play(server, act, dataset="natural")
    assert rows_of(measured).generated_texts == ("öß 日本語 \U0001f600",) * 2
    assert rows_of(measured).output_lens == (4, 4)


def test_several_events_in_one_read_count_once_each_and_share_their_time(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await _whole(voice, asked, lambda body: [body])

    measured = play(server, act)
    assert rows_of(measured).output_lens == (4, 4)
    assert rows_of(measured).itls_s == ((), ())
    assert measured.measurement is not None and measured.measurement.completed == 2


def test_crlf_lines_comments_and_other_fields_are_passed_over(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await _whole(
            voice,
            asked,
            lambda body: [
                b": ping\r\n\r\nid: 7\r\nretry: 10\r\n",
                body.replace(b"\n", b"\r\n"),
                b": bye\n\n",
            ],
        )

    assert rows_of(play(server, act)).output_lens == (4, 4)


@pytest.mark.parametrize("counted", ["missing", "null"])
def test_a_stream_without_a_token_count_is_a_failure_never_a_guess(server: Server, counted: str) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        for n in range(4):
            await voice.event({"choices": [{"text": "a", "finish_reason": "length" if n == 3 else None}]})
        if counted == "null":
            await voice.event({"choices": [], "usage": None})
        await voice.done()

    measured = play(server, act)
    assert measured.measurement is None
    assert measured.failure is not None and "no token count (usage)" in measured.failure


def test_a_delta_that_says_only_the_role_is_no_token(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        await voice.event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        await voice.event({"choices": [{"delta": {}}]})
        await asyncio.sleep(0.2)
        await voice.event(token(asked, 1, "a", last=True))
        await voice.event(usage(asked, 1))
        await voice.done()

    measured = play(server, act, "chat", dataset="natural")
    assert all(seconds > 0.19 for seconds in rows_of(measured).ttfts_s)
    assert measured.measurement is not None and measured.measurement.tpot_ms is None


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "tool_calls"])
@in_quiet
def test_the_first_token_of_any_kind_ends_the_wait(server: Server, name: str) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        thought: Any = [{"index": 0}] if name == "tool_calls" else "hm"
        await voice.event({"choices": [{"delta": {name: thought, "content": None}}]})
        await asyncio.sleep(1.0)
        await voice.event(token(asked, 2, "a", last=True))
        await voice.event(usage(asked, 2))
        await voice.done()

    measured = play(server, act, "chat", dataset="natural")
    assert all(seconds < 0.9 for seconds in rows_of(measured).ttfts_s)


def _error_events() -> list[tuple[Api, Any, bytes]]:
    return [
        ("completions", {"error": {"message": "out of memory", "code": 500}}, b""),
        ("completions", {"object": "error", "message": "out of memory"}, b""),
        ("completions", {"message": "out of memory"}, b"event: error\n"),
        ("generate", {"error": {"message": "out of memory"}}, b""),
        (
            "generate",
            {
                "text": "",
                "meta_info": {
                    "completion_tokens": 1,
                    "finish_reason": {"type": "abort", "message": "out of memory"},
                },
            },
            b"",
        ),
    ]


@pytest.mark.parametrize(("api", "event", "before"), _error_events())
def test_an_error_inside_a_200_is_a_failed_request(
    server: Server, api: Api, event: dict[str, Any], before: bytes
) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        if asked.number % 2:
            await paced()(voice, asked)
            return
        await voice.head()
        await voice.event(token(asked, 1, "a"))
        if before:
            await voice.body(before)
        await voice.event(event)
        if api == "completions":
            await voice.event(usage(asked, 4))
        await voice.done()

    measured = play(server, act, api)
    assert measured.measurement is not None
    assert (measured.measurement.completed, measured.measurement.failed) == (1, 1)
    assert "out of memory" in "".join(rows_of(measured).errors)
    assert measured.measurement.output_tokens == 4


def test_an_end_without_done_is_good_only_where_the_server_had_finished(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        for n in range(4):
            await voice.event(token(asked, n + 1, "a", last=n == 3 and asked.number == 0))
        if asked.number == 0:
            await voice.event(usage(asked, 4))
        await voice.end()

    measured = play(server, act)
    assert sorted(rows_of(measured).errors) == ["", "the stream ended before it was done"]


def test_a_body_that_ends_with_the_connection_is_whole(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head(connection="close")
        await voice.event(token(asked, 4, "a", last=True))
        await voice.event(usage(asked, 4))
        await voice.event(b"[DONE]")
        voice.close()

    assert rows_of(play(server, act)).errors == ("", "")


def test_a_reset_after_200_is_a_failed_request(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        if asked.number % 2:
            await paced()(voice, asked)
            return
        await voice.head()
        await voice.event(token(asked, 1, "a"))
        await asyncio.sleep(0.05)
        voice.drop()

    errors = sorted(rows_of(play(server, act)).errors)
    assert errors[0] == "" and "the connection" in errors[1]


def test_a_503_at_the_start_is_told_with_its_text(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head(503, "application/json", content_length="22")
        await voice.raw(b'{"error":"loading now"}'[:22])

    measured = play(server, act)
    assert measured.failure is not None
    assert measured.failure.startswith('none of 2 requests succeeded: HTTP 503: {"error":"loading')


def test_a_stall_is_bounded(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        await voice.event(token(asked, 1, "a"))
        await asyncio.sleep(60)

    measured = play(server, act, deadline_s=1.0)
    assert measured.failure is not None and "not complete after 1 s" in measured.failure


@in_quiet
def test_one_half_open_stream_fails_alone(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        if asked.number:
            await paced()(voice, asked)
        else:
            await voice.head()
            await asyncio.sleep(60)

    measured = play(server, act, deadline_s=1.0)
    assert measured.measurement is not None
    assert (measured.measurement.completed, measured.measurement.failed) == (1, 1)


def test_one_token_has_no_tpot(server: Server) -> None:
    measured = play(server, paced(), point=msgspec.structs.replace(POINT, output_len=1))
    assert measured.measurement is not None
    assert measured.measurement.tpot_ms is None
    assert measured.measurement.itl_ms is None


def test_fewer_prompts_than_streams_is_an_ordinary_small_load(server: Server) -> None:
    measured = play(server, paced(), point=msgspec.structs.replace(POINT, concurrency=16))
    assert measured.measurement is not None
    assert measured.measurement.completed == 2
    assert measured.measurement.achieved_concurrency is not None
    assert measured.measurement.achieved_concurrency < 3


def test_done_without_an_end_of_the_body_ends_the_request_and_not_the_level(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head()
        await voice.event(token(asked, 4, "a", last=True))
        await voice.event(usage(asked, 4))
        await voice.event(b"[DONE]")
        await asyncio.sleep(60)

    assert rows_of(play(server, act)).errors == ("", "")


def test_an_answer_that_is_no_stream_is_told(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        await voice.head(200, "application/json", content_length="17")
        await voice.raw(b'{"choices": "no"}')

    measured = play(server, act)
    assert measured.failure is not None and "no event stream came but application/json" in measured.failure


def test_text_that_grows_and_text_in_pieces_come_out_the_same(server: Server) -> None:
    async def grows(voice: Voice, asked: Asked) -> None:
        await voice.head()
        for n in range(4):
            await voice.event(token(asked, n + 1, "abcd"[: n + 1], last=n == 3))
        await voice.done()

    async def pieces(voice: Voice, asked: Asked) -> None:
        await voice.head()
        for n in range(4):
            await voice.event(token(asked, n + 1, "abcd"[n], last=n == 3))
        await voice.done()

    for act in (grows, pieces):
        assert rows_of(play(server, act, "generate", dataset="natural")).generated_texts == ("abcd", "abcd")


# -- load -----------------------------------------------------------------------------------------


@in_quiet
def test_a_closed_loop_keeps_its_streams_busy_on_connections_it_keeps(server: Server) -> None:
    before = server.connections
    point = make_point(8, input_len=8, output_len=16, seed=1)
    measured = play(server, paced(ttft_s=0.02, itl_s=0.005), point=point)
    assert measured.measurement is not None
    assert measured.measurement.completed == 80
    assert measured.measurement.achieved_concurrency is not None
    assert measured.measurement.achieved_concurrency > 6
    assert server.connections == before + 8


def test_processes_share_one_load(server: Server) -> None:
    point = make_point(4, input_len=8, output_len=8, seed=1)
    server.act, server.asked = paced(), []
    driver = client(server, processes=2)
    measured = driver.run(request(point), Told())
    assert measured.client is not None and measured.client.processes == 2
    assert measured.measurement is not None and measured.measurement.completed == 40
    assert len({tuple(asked.prompt) for asked in server.asked}) == 40


@in_quiet
def test_arrivals_by_rate_come_at_random_and_do_not_wait_for_answers(server: Server) -> None:
    """40 a second on average, each answered after 0.4 s: a closed loop of one could not."""
    point = msgspec.structs.replace(
        make_point(64, input_len=8, output_len=2, seed=7, requests=64), rate=40.0, requests=60
    )
    measured = play(server, paced(ttft_s=0.4), point=point)
    rows = rows_of(measured)
    assert rows.sent_s is not None
    sent = sorted(rows.sent_s)
    gaps = [after - before for before, after in pairwise(sent)]
    assert 0.6 < sent[-1] < 3.0
    assert max(gaps) > 3 * sum(gaps) / len(gaps)
    again = rows_of(play(server, paced(), point=point))
    assert again.sent_s is not None
    assert sorted(again.sent_s)[10] == pytest.approx(sent[10], abs=0.1)


@in_quiet
def test_a_duration_ends_a_level_and_lets_what_was_sent_come_back(server: Server) -> None:
    point = msgspec.structs.replace(make_point(2, input_len=8, output_len=4, seed=1), duration_s=1.0)
    measured = play(server, paced(ttft_s=0.1), point=point)
    figures = measured.measurement
    assert figures is not None
    assert 8 <= figures.completed == figures.requested <= 22
    assert 0.9 < figures.duration_s < 1.6
    assert "completed" not in judged(measured, point)


def judged(measured: PointMeasured, point: Point, **changes: Any) -> set[str]:
    """The gates that void this measurement."""
    evidence = some_evidence(
        point,
        measurement=measured.measurement,
        requests=measured.requests,
        failure=measured.failure,
        client=measured.client,
        eos_ignored=measured.eos_ignored,
        input_exact=measured.input_exact,
        **changes,
    )
    return {line.partition(":")[0] for line in failures(judge(evidence))} - {"concurrency"}


@in_quiet
def test_a_server_that_repeats_one_block_at_twice_the_speed_is_void(server: Server) -> None:
    point = make_point(4, input_len=64, output_len=24, seed=1, requests=16)

    def speaks(itl_s: float, text: Callable[[Asked, int], str]) -> PointMeasured:
        return play(server, paced(itl_s=itl_s, text=text), point=point, dataset="natural")

    honest = speaks(0.01, words)
    broken = speaks(0.005, lambda asked, index: "the of " if index % 2 else f"and {asked.number % 2} ")
    assert honest.measurement is not None and broken.measurement is not None
    assert broken.measurement.output_tokens_per_s > 1.5 * honest.measurement.output_tokens_per_s
    assert "answers" not in judged(honest, point, dataset="natural")
    assert "answers" in judged(broken, point, dataset="natural")


def test_a_client_that_was_the_bottleneck_refuses_to_report(server: Server) -> None:
    """Written in a few large pieces, tokens come faster than one process can read them."""
    point = make_point(1, input_len=8, output_len=60_000, seed=1, requests=1)
    events = [
        b'data: {"text":"%s","meta_info":{"completion_tokens":%d,"prompt_tokens":8}}\n\n' % (b"ab " * 80, n)
        for n in range(1, 60_000)
    ]
    events.append(
        b'data: {"text":"","meta_info":{"completion_tokens":60000,"prompt_tokens":8,"finish_reason":'
        b'{"type":"length"}}}\n\ndata: [DONE]\n\n'
    )
    body = b"".join(events)

    async def flood(voice: Voice, asked: Asked) -> None:
        await voice.head(content_length=str(len(body)))
        await voice.raw(body)

    measured = play(server, flood, "generate", point=point)
    assert measured.measurement is not None and measured.measurement.output_tokens == 60_000
    assert "client" in judged(measured, point)


def test_a_client_that_comes_near_its_bounds_gets_twice_the_processes_as_far_as_there_are_cores(
    server: Server,
) -> None:
    orders: list[dict[str, Any]] = []

    def busy(agent: Agent, *, given: bytes | None = None, **more: Any) -> JobResult:
        """As it is run here, but telling of 6 cores, and of one process that was busy all the time."""
        assert given is not None
        size = int(given.split(maxsplit=1)[0])
        order = json.loads(zlib.decompress(given[given.index(b"\n") + 1 + size :]))
        orders.append(order)
        job = here(agent, given=given, **more)
        told = json.loads(zlib.decompress(job.out or b""))
        for one in told["clients"]:
            one.update(cpu_s=0.6, seconds=1.0)
        out = zlib.compress(json.dumps({**told, "cpus": 6}).encode())
        return msgspec.structs.replace(job, out=out)

    server.act = paced()
    driver = client(server, "generate", run_job=busy)
    for _ in range(4):
        driver.run(request(), Told())
    assert [order["processes"] for order in orders] == [1, 2, 3, 3]
    orders.clear()
    fixed = client(server, "generate", run_job=busy, processes=2)
    for _ in range(2):
        fixed.run(request(), Told())
    assert [order["processes"] for order in orders] == [2, 2]


def test_a_file_of_messages_needs_chat_and_one_of_ids_does_not(server: Server) -> None:
    messages = client(server, "generate", prompts=[([{"role": "user", "content": "a"}], None)] * 4)
    measured = messages.run(request(dataset="file"), Told())
    assert measured.failure is not None and "--api chat" in measured.failure
    ids = client(server, "chat", prompts=[([1, 2], None)] * 4)
    measured = ids.run(request(dataset="file"), Told())
    assert measured.failure is not None and "--api completions" in measured.failure


def test_a_server_that_knows_no_ignore_eos_is_asked_without_and_it_is_said(server: Server) -> None:
    async def act(voice: Voice, asked: Asked) -> None:
        if "ignore_eos" in asked.body:
            await voice.head(422, "application/json", content_length="2")
            await voice.raw(b"{}")
        else:
            await paced()(voice, asked)

    server.act, server.asked = act, []
    driver = client(server)
    driver._ignores_eos = None
    measured = driver.run(request(), Told())
    assert measured.measurement is not None
    assert not measured.eos_ignored
    assert len(server.asked) == 4  # two questions, two requests


def test_sent_through_the_agent_it_tells_how_far_it_is(server: Server) -> None:
    server.act, server.asked = paced(ttft_s=0.3), []
    told = Told()
    point = make_point(1, input_len=8, output_len=2, seed=1, requests=4)
    measured = client(server, run_job=run_job).run(request(point), told)
    assert measured.measurement is not None and measured.measurement.completed == 4
    assert told.updates[-1].endswith("; requests 4 of 4")


@in_quiet
def test_tokens_on_their_way_are_in_the_rate_that_is_shown(server: Server) -> None:
    server.act, server.asked = paced(itl_s=0.02), []
    told = Told()
    point = make_point(1, input_len=8, output_len=150, seed=1, requests=1)
    client(server, run_job=run_job).run(request(point), told)
    rates = [int(found[1]) for text in told.updates if (found := re.search(r"(\d+) tok/s now", text))]
    assert rates and 5 < rates[0] < 60  # 50, before any request was over


def test_a_server_that_is_not_there_is_told_in_words(server: Server) -> None:
    import sys

    driver = LightClient(
        agent(), python=sys.executable, api="generate", version="0", url="http://127.0.0.1:9"
    )
    measured = driver.run(request(), Told())
    assert measured.failure is not None and "no connection" in measured.failure


def test_prompts_without_a_vocabulary_are_refused_in_words(server: Server) -> None:
    measured = client(server, "generate").run(request(vocabulary=None), Told())
    assert measured.failure is not None and "--dataset natural" in measured.failure


def test_a_job_gets_its_input_as_a_file() -> None:
    done = run_job(
        agent(),
        argv=("sh", "-c", 'cat "$1" > "$2"', "sh", "{in}", "{out}"),
        env={},
        given=b"abc",
        deadline_s=30.0,
    )
    assert done.out == b"abc"
