"""Which driver sends which load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oeactl.cli.common import Call
from oeactl.cli.load import Load, chosen_load, driver_of, with_dataset
from oeactl.cli.wiring import Wired
from oeactl.core.burst import PointMeasured, PointRequest
from oeactl.core.inventory import EngineSpec, Host, ServerSpec
from oeactl.core.load import make_point, make_sweep
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.local import open_local
from oeactl.errors import Unreachable, UsageError
from tests.support import sshd
from tests.support.bench_world import Bench, Told
from tests.support.stream_server import Server, paced, serving


def chosen(**changes: Any) -> Load:
    nothing = {"driver": None, "api": None, "dataset": None, "processes": None, "origin": None}
    return chosen_load(**{**nothing, **changes})


@pytest.mark.parametrize(
    "said",
    [{"api": "chat"}, {"dataset": "natural"}, {"processes": 2}, {"origin": "here"}, {"timed": "--rate"}],
)
def test_what_only_the_light_client_knows_needs_it(said: dict[str, Any]) -> None:
    assert chosen(**said).needs_light
    with pytest.raises(UsageError, match="is for the light client"):
        chosen(driver="sglang", **said)


def test_random_ids_alone_leave_the_choice_open() -> None:
    assert chosen().needs_light is None
    assert chosen(driver="sglang", dataset="random-ids").needs_light is None


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"driver": "vllm"}, "--driver vllm is not known"),
        ({"api": "grpc"}, "--api grpc is not known"),
        ({"dataset": "sharegpt"}, "neither a dataset nor a file"),
        ({"origin_url": "http://a:1"}, "--from-url says how another host reaches the server"),
        ({"origin": "here", "origin_url": "http://a:1"}, "--from-url says how another host"),
        ({"origin": "third", "origin_url": "ftp://a:1"}, "is no URL of a server"),
    ],
)
def test_what_is_not_known_is_refused(said: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        chosen(**said)


def test_a_file_bounds_the_requests_and_is_named_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "a"}\n' * 20)
    load = chosen(dataset=str(path))
    sweep = with_dataset(make_sweep((1, 4), input_len=8, output_len=8, seed=1), load)
    assert [point.requests for point in sweep.points] == [16, 20]
    assert (sweep.dataset, sweep.dataset_file) == ("file", "mine.jsonl")
    assert sweep.dataset_sha256 is not None and len(sweep.dataset_sha256) == 64
    with pytest.raises(UsageError, match="20 prompts cannot keep 32 in flight"):
        with_dataset(make_sweep((32,), input_len=8, output_len=8, seed=1), load)


# -- from where it is sent ---------------------------------------------------------------------------

SENT = PointRequest(
    phase="measured",
    point=make_point(2, input_len=8, output_len=4, seed=42, requests=2),
    url="http://127.0.0.1:1",
    model="m",
    tokenizer="m",
    deadline_s=60.0,
    vocabulary=1000,
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(paced()) as one:
        yield one


def box(tmp_path: Path, server: Server, **changes: Any) -> Wired:
    """The server's host, which is known and never asked for anything."""
    spec = ServerSpec(argv=("-m", "x"), log="/log", url=server.url)
    entry = Host(name="box", address="127.0.0.1", engine=EngineSpec(python="/py"), server=spec)
    site = replace(Bench(tmp_path).site(), host=msgspec.structs.replace(entry, **changes))
    remote = open_local("box")

    def none() -> Any:
        raise AssertionError("not SGLang's client")

    return Wired(site=site, driver=none, remote=remote, agent=AgentLink(remote, python="/py"), api_key="k3y")


def sent(call: Call, here: Wired, **said: Any) -> tuple[PointMeasured, tuple[str, ...]]:
    load = replace(chosen(**said), driver="light", dataset="random-ids")
    with driver_of(call, load, here) as driver:
        return driver.run(SENT, Told()), driver.describe().flags


def test_a_third_machine_sends_it_and_is_on_record(tmp_path: Path, server: Server) -> None:
    call = Call(project=None, json=True, verbose=False, debug=False)
    measured, flags = sent(call, box(tmp_path, server), origin="@local")
    assert measured.measurement is not None and measured.measurement.completed == 2
    assert "from=@local" in flags
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer k3y"}


def test_a_third_machine_is_told_another_url_where_the_address_does_not_do(
    tmp_path: Path, server: Server
) -> None:
    call = Call(project=None, json=True, verbose=False, debug=False)
    here = box(tmp_path, server, address=None)
    with pytest.raises(UsageError, match="box has no address"):
        sent(call, here, origin="@local")
    measured, _ = sent(call, here, origin="@local", origin_url=server.url)
    assert measured.measurement is not None


def test_a_server_that_is_not_reached_from_there_is_said_before_anything_is_sent(
    tmp_path: Path, server: Server
) -> None:
    call = Call(project=None, json=True, verbose=False, debug=False)
    with pytest.raises(Unreachable, match="not reached from there") as refused:
        sent(call, box(tmp_path, server), origin="@local", origin_url="http://127.0.0.1:9")
    assert refused.value.where == "@local: http://127.0.0.1:9"
    assert server.asked == []


@pytest.mark.sshd
def test_over_ssh_too(tmp_path: Path, server: Server) -> None:
    with sshd.running(tmp_path / "third") as third:
        entry = f"{{address: {third.address}, port: {third.port}, ssh_config: {third.ssh_config}}}"
        (tmp_path / "hosts.yaml").write_text(f"hosts: {{third: {entry}}}\n")
        call = Call(project=tmp_path, json=True, verbose=False, debug=False)
        measured, flags = sent(call, box(tmp_path, server), origin="third")
    assert measured.measurement is not None and measured.measurement.completed == 2
    assert "from=third" in flags


def test_a_host_that_is_not_there_is_named(tmp_path: Path, server: Server) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {}}\n")
    call = Call(project=tmp_path, json=True, verbose=False, debug=False)
    with pytest.raises(UsageError, match="unknown host 'nowhere'"):
        sent(call, box(tmp_path, server), origin="nowhere")
