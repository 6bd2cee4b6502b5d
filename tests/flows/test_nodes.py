"""One server on two nodes: whatever goes wrong on one of them, all nodes end in the same state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from oeactl.core.host import Launch, Process, Reply
from oeactl.core.inventory import EngineSpec, Host, ServerSpec
from oeactl.errors import (
    ConnectionLost,
    Degraded,
    Interrupted,
    Locked,
    OeactlError,
    Refused,
    RolledBack,
    Unreachable,
)
from oeactl.flows.nodes import NodeFiles, NodesFiles
from oeactl.flows.nodes_server import Head, NodesServer, Tail
from oeactl.ports import Failed, Progress, Ready
from tests.support.forestalled import Forestalled
from tests.support.site_world import (
    OTHER,
    PRISTINE,
    After,
    FakeEngine,
    FakeFiles,
    FakeServer,
    Operator,
    World,
    a_recipe,
    held,
)

LOST = ConnectionLost("the connection ended before the command did", where="whole/n2")


class Part(FakeServer):
    """ports.Follower over a world: it ends while it loads where ``breaks`` says so."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.here = world

    def watch(self, process: Process, progress: Progress) -> Failed:
        while self.here.running is not None and not self.here.breaks(self.here.running.layers):
            progress.update("loading")
            time.sleep(0.01)
        self.here.running = None
        return Failed(why="the server's process ended", first_error="ValueError: patched badly")

    def joined(self, process: Process) -> Ready | Failed:
        if self.here.running is None:
            return Failed(why="the server's process ended")
        return Ready(process=process, seconds=1.0)


class Loading(FakeServer):
    """The first node's part: it waits for the others, as one that loads does."""

    def __init__(self, world: World, others: Sequence[World]) -> None:
        super().__init__(world)
        self.here, self.others = world, others

    def await_ready(self, process: Process, launch: Launch, progress: Progress) -> Ready | Failed:
        limit = time.monotonic() + 60
        while any(one.running is None or one.breaks(one.running.layers) for one in self.others):
            assert time.monotonic() < limit, "nobody ended this wait"
            progress.update("waiting for the others")
            time.sleep(0.01)
        return super().await_ready(process, launch, progress)


class Decoding(FakeEngine):
    """Every node's workers decode what the first one's do."""

    def __init__(self, worlds: Sequence[World]) -> None:
        super().__init__(worlds[0])
        self.worlds = worlds

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]:
        replies = super().complete(prompts=prompts, output_len=output_len, concurrency=concurrency)
        for world in self.worlds[1:]:
            if world.running is not None:
                world.show()
        return replies


class Cluster(Operator):
    """Somebody with two nodes at the other end."""

    def __init__(self, *, running: bool = True) -> None:
        self.worlds = (World(running=running), World(running=running))
        super().__init__(self.worlds[0])
        spec = ServerSpec(argv=("-m", "sglang.launch_server"), log="/log")
        hosts = [Host(name=f"box/n{n}", engine=EngineSpec(python="/py"), server=spec) for n in (1, 2)]
        first, second = self.worlds
        files = [NodeFiles(host=host, files=FakeFiles(w)) for host, w in zip(hosts, self.worlds, strict=True)]
        whole = msgspec.structs.replace(hosts[0], name="box", members=tuple(hosts))
        self.site = self.site.__class__(
            **{
                **self.site.__dict__,
                "host": whole,
                "files": NodesFiles(whole, files),
                "server": NodesServer(
                    Head(host=hosts[0], server=Loading(first, [second])),
                    [Tail(host=hosts[1], server=Part(second))],
                ),
                "engine": Decoding(self.worlds),
            }
        )

    @property
    def pristine(self) -> bool:
        """No trace of a change on any node, nobody's lease."""
        return all(
            world.disk == PRISTINE and world.journal.layers == () and world.journal.lease is None
            for world in self.worlds
        )

    @property
    def up(self) -> list[bool]:
        return [world.running is not None and world.running.listens for world in self.worlds]


@pytest.fixture
def ann() -> Cluster:
    cluster = Cluster()
    for world in cluster.worlds:  # the parts that ran before listen, too
        world.asked.clear()
    return cluster


def test_all_nodes_are_patched_restarted_and_proven(ann: Cluster) -> None:
    done = ann.patch()
    assert done.status == "patched"
    (verdict,) = done.verdicts
    assert [(one.worker.node, one.seen) for one in verdict.workers] == [("n1", "eager"), ("n2", "eager")]
    assert all(world.journal.layers for world in ann.worlds)
    assert ann.worlds[0].journal.layers == ann.worlds[1].journal.layers
    assert all(world.journal.lease is None for world in ann.worlds)
    assert ann.status().agrees
    assert ann.revert().status == "reverted"
    assert ann.pristine


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Refused("the import probe failed", where="whole/n2"), Refused),
        (Unreachable("nothing listens", where="whole/n2"), Unreachable),
        (LOST, RolledBack),
        (After(LOST), RolledBack),
        (KeyboardInterrupt(), Interrupted),
        (After(KeyboardInterrupt()), Interrupted),
    ],
)
@pytest.mark.parametrize("number", [0, 1])
def test_a_write_that_fails_on_one_node_is_taken_back_on_the_other(
    ann: Cluster, number: int, error: Any, raised: type[OeactlError]
) -> None:
    ann.worlds[number].meets("write", error)
    running = [world.running for world in ann.worlds]
    with pytest.raises(raised):
        ann.patch()
    assert ann.pristine
    assert [world.running for world in ann.worlds] == running


@pytest.mark.parametrize("number", range(1, 21))
def test_a_ctrl_c_before_a_step_began_on_any_node_is_one_all_the_same(
    ann: Cluster, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch on two nodes begins 21 threads; the last gives the lease back, when all is done."""
    Forestalled(number, more=1).set(monkeypatch)
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        ann.patch()
    assert ann.pristine
    assert all(world.running is not None for world in ann.worlds)


@pytest.mark.parametrize("error", [Refused("it is read-only"), Unreachable("gone"), LOST, After(LOST)])
def test_a_revert_that_fails_on_one_node_leaves_all_patched(ann: Cluster, error: Any) -> None:
    ann.patch()
    ann.worlds[1].meets("write", error)
    with pytest.raises(OeactlError):
        ann.revert()
    assert all(len(world.journal.layers) == 1 and world.disk != PRISTINE for world in ann.worlds)
    assert ann.revert().status == "reverted"
    assert ann.pristine


def test_a_node_that_cannot_be_put_back_is_exit_7_with_the_way_out(ann: Cluster) -> None:
    ann.worlds[1].meets("write", Refused("read-only", where="whole/n2"))
    ann.worlds[0].meets("write", None, Unreachable("gone since", where="whole/n1"), Unreachable("gone since"))
    with pytest.raises(Degraded, match="could not be put back: whole/n1: gone since") as failed:
        ann.patch(restart=False)
    assert "oeactl revert --host box" in str((failed.value.hint, failed.value.details))


def test_a_part_that_ends_while_it_loads_has_all_nodes_put_back(ann: Cluster) -> None:
    ann.worlds[1].breaks = bool
    with pytest.raises(RolledBack, match="n2: the server's process ended"):
        ann.patch()
    assert ann.pristine
    assert all(world.running is not None for world in ann.worlds)


def test_a_part_that_cannot_begin_has_the_others_ended_again() -> None:
    down = Cluster(running=False)
    down.worlds[1].meets("start", Refused("port 30000 is taken by pid 7", where="box/n2"))
    with pytest.raises(Refused, match="is taken"):
        down.start()
    assert [world.running for world in down.worlds] == [None, None]
    assert down.pristine


@pytest.mark.parametrize("number", [0, 1])
def test_a_lease_is_on_every_node_or_on_none(ann: Cluster, number: int) -> None:
    held(ann, OTHER)
    theirs = ann.worlds[0].journal.lease
    ann.worlds[0].note(lease=None)
    ann.worlds[number].note(lease=theirs)
    with pytest.raises(Locked):
        ann.restart()
    assert [world.journal.lease for world in ann.worlds] == [
        theirs if world is ann.worlds[number] else None for world in ann.worlds
    ]


def test_one_proof_too_few_is_not_active_and_all_is_put_back(ann: Cluster) -> None:
    ann.worlds[1].shows = None
    with pytest.raises(RolledBack, match="1 of 2 workers showed no patched code"):
        ann.patch()
    assert ann.pristine and all(world.running is not None for world in ann.worlds)


def test_stopping_begins_with_the_node_that_hands_out_the_work(ann: Cluster) -> None:
    order: list[str] = []
    for name, world in zip(("n1", "n2"), ann.worlds, strict=True):
        world.breaks = lambda layers: False
        world.step = _told(world, name, order)  # type: ignore[method-assign]
    ann.stop()
    assert [line for line in order if line.endswith("stop")] == ["n1 stop", "n2 stop"]
    assert [world.running for world in ann.worlds] == [None, None]


def test_what_is_left_of_a_server_whose_first_node_is_down_is_said_and_ended(ann: Cluster) -> None:
    ann.worlds[0].running = None
    (trouble,) = ann.status().troubles
    assert "what is left of a server (pid" in trouble.what and "on n2" in trouble.what
    assert trouble.remedy == "oeactl stop --host box"
    assert ann.stop().status == "stopped"
    assert ann.status().agrees


def test_what_runs_on_the_others_can_be_ended_while_the_first_node_is_away(ann: Cluster) -> None:
    gone = Unreachable("no route to it", where="box/n1")
    for step in ("survey", "state", "stop"):
        ann.worlds[0].meets(step, *[gone] * 20)
    assert ["n1 cannot be reached" in trouble.what for trouble in ann.status().troubles] == [True, False]
    with pytest.raises(Unreachable, match="no route"):
        ann.stop()
    assert ann.worlds[1].running is None
    ann.worlds[1].meets("survey", gone)
    with pytest.raises(Unreachable):
        ann.status()


def test_while_a_node_is_away_nothing_is_changed_and_the_rest_can_be_seen_and_ended(ann: Cluster) -> None:
    ann.patch()
    before = ann.worlds[0].running
    gone = Unreachable("no route to it", where="box/n2")
    for step in ("survey", "state", "stop", "lease", "write", "start"):
        ann.worlds[1].meets(step, *[gone] * 20)
    first, second = ann.status().troubles
    assert "n2 cannot be reached: no route to it" in first.what
    assert "no part of the server is to be seen on n2" in second.what
    for command in (ann.revert, ann.restart, lambda: ann.patch(8)):
        with pytest.raises(Unreachable, match="n2 cannot be reached"):
            command()
    assert ann.worlds[0].running is before and len(ann.worlds[0].journal.layers) == 1
    with pytest.raises(Unreachable, match="no route"):
        ann.stop()
    assert ann.worlds[0].running is None and ann.worlds[0].journal.lease is None


def _told(world: World, name: str, order: list[str]) -> Any:
    step = world.step

    def told(what: str, *more: Any) -> Any:
        order.append(f"{name} {what}")
        return step(what, *more)

    return told


def test_a_recipe_without_the_same_originals_everywhere_is_refused_untouched(ann: Cluster) -> None:
    ann.worlds[1].edit(PRISTINE + b"# theirs\n")
    with pytest.raises(Refused):
        ann.patch(recipe=a_recipe())
    assert ann.worlds[0].disk == PRISTINE and ann.worlds[1].disk == PRISTINE + b"# theirs\n"
