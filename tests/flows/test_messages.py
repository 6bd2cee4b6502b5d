"""What goes over the wire: a patch without a restart is two messages to one program on the host."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from oeactl.core.host import Holder
from oeactl.core.inventory import EngineSpec, Host
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.clock import SystemClock
from oeactl.edges.config import read_recipe
from oeactl.edges.files import AgentFiles
from oeactl.edges.local import open_local
from oeactl.flows.patch import patch
from oeactl.flows.revert import revert
from oeactl.flows.site import Site
from oeactl.ports import Completed, Dialogue
from tests.flows.test_together import Answering, Silent
from tests.support.fleet import Fleet, make_fleet


class CountingTalk:
    """ports.Dialogue that counts what is said."""

    def __init__(self, inner: Dialogue, said: list[int]) -> None:
        self._inner, self._said = inner, said

    def lives(self) -> bool:
        return self._inner.lives()

    def say(self, data: bytes) -> None:
        self._said.append(len(data))
        self._inner.say(data)

    def hear(self, timeout_s: float) -> bytes:
        return self._inner.hear(timeout_s)

    def end(self, *, at_once: bool = False) -> Completed:
        return self._inner.end(at_once=at_once)


class CountingRemote:
    """This machine. begun: the commands it was given; said: the bytes of each message in a dialogue."""

    def __init__(self) -> None:
        self._inner = open_local("here")
        self.name = "here"
        self.begun: list[str] = []
        self.said: list[int] = []

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        self.begun.append("run")
        return self._inner.run(argv, stdin=stdin, timeout_s=timeout_s)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> AbstractContextManager[Iterator[bytes]]:
        self.begun.append("stream")
        return self._inner.stream(argv, stdin=stdin)

    def converse(self, argv: Sequence[str]) -> Dialogue:
        self.begun.append("converse")
        return CountingTalk(self._inner.converse(argv), self.said)

    def forward(self, port: int) -> AbstractContextManager[int]:
        return self._inner.forward(port)

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return make_fleet(tmp_path, [], 1)


@pytest.fixture
def remote() -> Iterator[CountingRemote]:
    remote = CountingRemote()
    yield remote
    remote.close()


def site(fleet: Fleet, remote: CountingRemote) -> Site:
    host = Host(
        name="h1",
        state_dir=str(fleet.state("h1")),
        engine=EngineSpec(python=sys.executable, root=str(fleet.engine("h1"))),
    )
    return Site(
        host=host,
        files=AgentFiles(AgentLink(remote, python=sys.executable, keep=True)),
        server=None,
        engine=None,
        clock=SystemClock(),
        progress=Silent(),
        prompt=Answering(False),
        holder=Holder(user="ann", host="laptop", pid=1),
    )


def test_a_patch_is_two_messages_and_so_is_its_revert(fleet: Fleet, remote: CountingRemote) -> None:
    here = site(fleet, remote)
    recipe = read_recipe(fleet.folder, "note")
    outcome = patch(
        here,
        recipe,
        {},
        operation="one",
        applied_at="2026-01-01T00:00:00Z",
        dry_run=False,
        restart=False,
        show=lambda plan, survey: None,
    )
    assert outcome.status == "patched"
    assert fleet.is_patched("h1")
    assert (remote.begun, len(remote.said)) == (["converse"], 2)
    assert remote.said[1] < remote.said[0] / 2, "each of its modules is sent once"
    revert(here, recipe=None, operation="two", restart=False, force=False)
    assert not fleet.is_patched("h1")
    assert (remote.begun, len(remote.said)) == (["converse"], 4)


def test_the_same_source_on_many_hosts_is_worked_out_once(fleet: Fleet, remote: CountingRemote) -> None:
    """A plan of another host differs in its paths alone: the edits are the very same value."""
    from concurrent.futures import ThreadPoolExecutor

    from oeactl.core.changes import changes, forget
    from oeactl.core.parameters import bind

    forget()
    bound = bind(read_recipe(fleet.folder, "note"), {}, {})
    file = bound.recipe.files[0]
    source = fleet.files("h1")["sglang/srt/layers/moe/topk.py"]

    def work(number: int) -> int:
        return id(changes(bound, file, source, where=f"/h{number}.py", version="1", python="3.11.7"))

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(work, range(16)))) == 1
