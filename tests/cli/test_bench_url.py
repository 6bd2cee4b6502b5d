"""The first minute: any server that is up, measured by its URL alone, without a hosts.yaml."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.agent.process import children, role, table, title
from oeactl.cli import app
from oeactl.core.results import dump, parse
from oeactl.core.run import Trial
from tests.support.stream_server import Server, paced, serving

SGLANG = {
    "/server_info": {
        "version": "0.5.20",
        "served_model_name": "tiny",
        "device": "cuda",
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "api_key": "very-secret",
        "internal_states": [{}],
    },
    "/flush_cache": {},
}
MODELS = {"/v1/models": {"data": [{"id": "small"}, {"id": "large"}]}, "/version": {"version": "0.24.0"}}


def workers_of_this_process() -> list[str]:
    """The titles of what descends from this process and looks like an engine's worker."""
    begot, queue, found = children(table()), [os.getpid()], []
    while queue:
        below = [one.pid for one in begot.get(queue.pop(), [])]
        found += [title(pid) for pid in below if role(title(pid))]
        queue += below
    return found


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """It listens in this very process, whose children would be its workers: an earlier file's end first.

    In a group of its own it is no part of the pytest that shares the tests among several of its kind.
    """
    group = os.getpgrp()
    with suppress(PermissionError):  # of a session's leader, which has one
        os.setpgid(0, 0)
    limit = time.monotonic() + 30
    while workers_of_this_process() and time.monotonic() < limit:
        time.sleep(0.1)
    with serving(paced(itl_s=0.002)) as one:
        yield one
    with suppress(PermissionError):
        os.setpgid(0, group)


@pytest.fixture
def server(running: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OEACTL_HOST", raising=False)
    running.act, running.asked, running.absent, running.pages = paced(itl_s=0.002), [], set(), {}
    return running


def bench(
    server: Server, capsys: pytest.CaptureFixture[str], *more: str, code: int | None = None
) -> dict[str, Any]:
    """One small level. code: None where a busy machine may void it for the client's lag alone."""
    words = ("--url", f"{server.url}/v1", "-c", "2", "--input-len", "32", "--output-len", "8", *more)
    ended = app.main(["bench", *words, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    reasons = [line for trial in document.get("trials", ()) for p in trial["points"] for line in p["reasons"]]
    if code is None:
        assert not [line for line in reasons if not line.startswith(("client:", "concurrency:"))]
    else:
        assert ended == code
    return document


def test_an_sglang_server_is_measured_by_its_own_api(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 1000, "architectures": ["Tiny"]}')
    server.pages = {**SGLANG, "/server_info": {**SGLANG["/server_info"], "model_path": str(tmp_path)}}
    document = bench(server, capsys)
    (trial,) = document["trials"]
    assert {asked.api for asked in server.asked} == {"generate"}
    assert all(len(asked.prompt) == 32 for asked in server.asked)
    assert (trial["engine"]["package"], trial["engine"]["version"]) == ("sglang", "0.5.20")
    assert trial["model"]["architectures"] == ["Tiny"]
    assert trial["server"]["pid"] == os.getpid()  # it listens in this very process
    assert trial["server"]["gpus"] == 1
    assert trial["host"]["cpus"]
    (point,) = trial["points"]
    assert point["warm_up"]["flushed"] is True
    assert point["measurement"]["completed"] == 20
    gates = {gate["name"]: gate["outcome"] for gate in point["gates"]}
    assert gates["same_server"] == gates["flush"] == gates["alive_after"] == "pass"
    assert gates["source"] == gates["activation"] == gates["answers"] == "not_measured"
    assert document["path"].startswith(str(tmp_path / "results" / "runs"))
    assert "very-secret" not in json.dumps(document)


def test_any_other_server_is_measured_by_completions_with_natural_text(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages = MODELS
    document = bench(server, capsys)
    assert {asked.body["model"] for asked in server.asked} == {"small"}
    assert {asked.api for asked in server.asked} == {"completions"}
    (trial,) = document["trials"]
    assert (trial["engine"]["package"], trial["engine"]["version"]) == ("openai", "0.24.0")
    assert document["plan"]["sweep"]["dataset"] == "natural"
    assert document["plan"]["label"] == "small"
    (point,) = trial["points"]
    assert point["warm_up"]["flushed"] is None
    assert next(g for g in point["gates"] if g["name"] == "flush")["outcome"] == "not_measured"


def test_a_server_that_only_chats_is_asked_by_chat(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages, server.absent = MODELS, {"/v1/completions"}
    bench(server, capsys, "--model", "large", "--requests", "2")
    assert {asked.api for asked in server.asked} == {"chat"}
    assert {asked.body["model"] for asked in server.asked} == {"large"}


def test_a_level_by_arrivals_is_called_by_its_rate(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages = MODELS
    words = (
        "--url",
        server.url,
        "--rate",
        "40",
        "--requests",
        "20",
        "--input-len",
        "16",
        "--output-len",
        "4",
    )
    app.main(["bench", *words])
    shown = capsys.readouterr()
    assert "40 arrivals/s" in shown.err
    assert "40/s" in shown.out
    assert app.main(["bench", *words, "--duration", "1", "--json"]) == 2


def test_a_model_that_is_not_served_is_named_with_those_that_are(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages = MODELS
    error = bench(server, capsys, "--model", "huge", code=2)["error"]
    assert "no model is called 'huge'" in error["what"]
    assert "small, large" in error["hint"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--url", "http://127.0.0.1:9"), 4, "does not answer"),
        (("--url", "ftp://x"), 2, "is no URL"),
        (("--url", "http://a:b@c"), 2, "a password in it"),
        (("--url", "http://127.0.0.1:9", "--host", "x"), 2, "--url is measured from here"),
        (("--url", "http://127.0.0.1:9", "--api-key-env", "NOT_SET_HERE"), 2, "NOT_SET_HERE is not set"),
        (("--model", "x"), 2, "belong to --url"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_written(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    assert app.main(["bench", *words, "--json"]) == code
    assert says in json.loads(capsys.readouterr().out)["error"]["what"]
    assert not (tmp_path / "results").exists()


def test_a_server_by_its_url_is_measured_from_another_host(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages = MODELS
    document = bench(server, capsys, "--model", "small", "--from", "@local")
    (trial,) = document["trials"]
    assert "from=@local" in trial["driver"]["flags"]
    assert document["plan"]["sending"]["origin"] == "@local"
    refused = bench(server, capsys, "--from", "@local", "--from-url", "http://127.0.0.1:9", code=4)
    assert "not reached from there" in refused["error"]["what"]


def cut_short(run: Path) -> None:
    """Make a whole run one that Ctrl-C ended after its first level."""
    path = run / "trials" / "001-A.json"
    trial = parse(path.read_bytes(), Trial)
    path.write_bytes(dump(msgspec.structs.replace(trial, outcome="interrupted", points=trial.points[:1])))


def resumed(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = app.main(["run", "resume", "last", "--json", *more])
    return code, json.loads(capsys.readouterr().out)


def test_an_interrupted_sweep_by_url_goes_on_with_what_it_was_asked_for(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server.pages = MODELS
    (tmp_path / "mine.jsonl").write_text("".join(f'{{"prompt": "say {n}"}}\n' for n in range(40)))
    more = ("--model", "large", "-c", "1,2", "--dataset", "mine.jsonl", "--requests", "4")
    cut_short(Path(bench(server, capsys, *more)["path"]))
    server.asked = []
    code, document = resumed(capsys)
    assert code in (0, 8)  # 8: a busy machine voids a level for the client's lag
    first, second = document["trials"]
    assert [point["index"] for trial in (first, second) for point in trial["points"]] == [1, 2]
    assert {asked.body["model"] for asked in server.asked} == {"large"}


def test_it_does_not_go_on_with_other_prompts_or_another_server(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server.pages = MODELS
    mine = tmp_path / "mine.jsonl"
    mine.write_text("".join(f'{{"prompt": "say {n}"}}\n' for n in range(40)))
    more = ("--model", "large", "-c", "1,2", "--dataset", "mine.jsonl", "--requests", "4")
    cut_short(Path(bench(server, capsys, *more)["path"]))
    mine.write_text(mine.read_text() + '{"prompt": "one more"}\n')
    code, document = resumed(capsys)
    assert (code, document["error"]["what"]) == (2, "these are not the prompts that the run began with")
    mine.write_text("".join(f'{{"prompt": "say {n}"}}\n' for n in range(40)))
    server.pages = {**MODELS, "/version": {"version": "0.25.0"}}
    code, document = resumed(capsys)
    assert code == 3 and "the engine's version" in document["error"]["what"]
