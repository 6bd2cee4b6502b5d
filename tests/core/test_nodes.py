"""``nodes`` of hosts.yaml, and several machines' surveys, journals, states and proofs as one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from oeactl.core.afterwards import afterwards
from oeactl.core.host import Launch, Process, ProofFile, ServerState, Survey, Transaction
from oeactl.core.hosts_file import read_inventory
from oeactl.core.inventory import Host, at_home
from oeactl.core.nodes import (
    inverse,
    joined,
    joined_proofs,
    joined_states,
    launch_on,
    own,
    part,
    uneven,
)
from oeactl.core.parameters import bind
from oeactl.core.plan import AlreadyApplied, Planned, make_plan
from oeactl.core.proof import judge_proofs
from oeactl.core.reasons import Refusal
from oeactl.core.revert import Reverting, plan_revert
from oeactl.errors import UsageError
from tests.support.recipes import MODULE
from tests.support.site_world import PRISTINE, a_recipe
from tests.support.surveys import HOLDER, path_of, survey_of

WHOLE = """
hosts:
  whole:
    user: root
    engine: {python: /py}
    server:
      argv: [-m, sglang.launch_server, --tp, "16", --port, "30000"]
      log: ~/whole.log
      env: {A: "1"}
    nodes:
    - {address: 10.0.0.1}
    - address: 10.0.0.2
      name: second
      user: ubuntu
      port: 2222
      engine: {root: /src}
      server: {env: {NIC: eth1}, log: /data/whole.log}
"""


def read(text: str) -> Host:
    inventory = read_inventory(text, "hosts.yaml", folder=Path("/project"), home="/home/me", variables={})
    return inventory.hosts["whole"]


# hosts.yaml


def test_each_node_is_the_hosts_entry_with_its_own_keys_over_it_and_its_rank() -> None:
    host = read(WHOLE)
    first, second = host.members
    assert (first.name, first.node, first.address, first.user) == (
        "whole/10.0.0.1",
        "10.0.0.1",
        "10.0.0.1",
        "root",
    )
    assert (second.name, second.address, second.user, second.port) == (
        "whole/second",
        "10.0.0.2",
        "ubuntu",
        2222,
    )
    assert second.engine.python == "/py" and second.engine.root == "/src"
    assert first.server is not None and second.server is not None
    assert second.server.env == {"A": "1", "NIC": "eth1"}
    assert (first.server.log, second.server.log) == ("~/whole.log", "/data/whole.log")
    for rank, member in enumerate((first, second)):
        assert member.server is not None
        ends = ("--nnodes", "2", "--node-rank", str(rank), "--dist-init-addr", "10.0.0.1:20000")
        assert member.server.argv[-6:] == ends
    assert msgspec.structs.replace(host, name=first.name, members=()) == first


def test_where_the_nodes_meet_may_be_said() -> None:
    host = read(WHOLE.replace("      env: {A", "      dist_init_addr: 192.168.7.1:5000\n      env: {A"))
    assert host.server is not None and host.server.argv[-1] == "192.168.7.1:5000"


def test_a_home_is_each_nodes_own() -> None:
    first = at_home(read(WHOLE).members[0], "/root")
    assert first.server is not None and first.server.log == "/root/whole.log"


@pytest.mark.parametrize(
    ("change", "to", "message"),
    [
        ("- {address: 10.0.0.1}", "- {user: me}", "'hosts.whole.nodes\\[0\\]' lacks 'address'"),
        ("name: second", "name: 10.0.0.1", "is called '10.0.0.1', as another is"),
        ("name: second", "nmae: second", "unknown key 'nmae' in hosts.whole.nodes\\[1\\]"),
        ("    user: root\n", "    address: 10.0.0.9\n", "'hosts.whole.address' says nothing"),
        ("--tp,", "--nnodes, '2', --tp,", "argv' has --nnodes, which comes from 'nodes'"),
        ("--tp,", "--node-rank=0, --tp,", "argv' has --node-rank=0, which comes"),
        (
            "      argv:",
            "      manager: commands\n      start: [a]\n      stop: [b]\n      #",
            "is 'commands', and a",
        ),
        ("    nodes:", "    node:", "unknown key 'node'"),
        ("    nodes:\n", "    nodes: 2\n    other:\n", "must be a list"),
        ("hosts:", "defaults: {nodes: []}\nhosts:", "'nodes' belongs to one host"),
        ("  whole:\n    user: root", "  '@local':", "'nodes' says nothing of @local"),
    ],
)
def test_a_mistake_among_nodes_is_named_with_its_line(change: str, to: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as failed:
        read(WHOLE.replace(change, to))
    assert failed.value.where is not None and failed.value.where.startswith("hosts.yaml:")


def test_one_machine_twice_is_refused() -> None:
    twice = WHOLE[: WHOLE.index("    - address: 10.0.0.2")] + "    - {address: 10.0.0.1, name: again}\n"
    with pytest.raises(UsageError, match=r"nodes '10\.0\.0\.1' and 'again' of 'hosts.whole' are the same"):
        read(twice)


def test_a_meeting_place_without_nodes_is_a_mistake() -> None:
    alone = WHOLE[: WHOLE.index("    nodes:")].replace("env: {A", "dist_init_addr: 1.2.3.4:5\n      env: {A")
    with pytest.raises(UsageError, match="is of a server over several nodes"):
        read(alone)


# One plan for all


def surveys(*sources: bytes) -> dict[str, Survey]:
    return {f"n{number}": survey_of({MODULE: source}) for number, source in enumerate(sources, 1)}


def plan_on(survey: Survey, size: str = "4") -> Planned | AlreadyApplied | Refusal:
    bound = bind(a_recipe(), {"size": size}, {})
    return make_plan(bound, survey, operation="op", applied_at="2026-01-01T00:00:00+00:00", applied_by=HOLDER)


def written(plan: Planned, before: dict[str, Survey], *names: str) -> dict[str, Survey]:
    """The nodes once the plan's parts are made on ``names``."""
    host = read(WHOLE)
    after = dict(before)
    for name in names:
        mine = part(transaction(plan), name, root="/opt/engine", host=host)
        after[name] = afterwards(before[name], mine.files, mine.layers)
    return after


def transaction(plan: Planned | Reverting) -> Transaction:
    layers = plan.layers_after
    return Transaction(
        operation="op", kind="patch", root="/r", state_dir=None, files=plan.writes(), layers=layers,
        holder=HOLDER, what="patch",
    )  # fmt: skip


def test_a_file_is_planned_on_every_node_and_cut_into_each_ones_part() -> None:
    before = surveys(PRISTINE, PRISTINE)
    plan = plan_on(joined(before))
    assert isinstance(plan, Planned)
    assert [file.path for file in plan.files] == [f"n1:{path_of(MODULE)}", f"n2:{path_of(MODULE)}"]
    assert plan.imports == (MODULE,)
    alone = plan_on(before["n1"])
    assert isinstance(alone, Planned) and alone.digest == plan.digest
    for name in before:
        mine = part(transaction(plan), name, root="/opt/engine", host=read(WHOLE))
        assert [file.path for file in mine.files] == [path_of(MODULE)]
        assert mine.layers == alone.layers_after
        undone = inverse(mine, before[name])
        assert undone.layers == () and undone.files[0].after == PRISTINE
    after = joined(written(plan, before, "n1", "n2"))
    assert isinstance(plan_on(after), AlreadyApplied)
    back = plan_revert(after, recipe=None, force=False)
    assert isinstance(back, Reverting) and [file.after for file in back.files] == [PRISTINE, PRISTINE]
    assert uneven(after) is None


def test_different_originals_are_refused() -> None:
    plan = plan_on(joined(surveys(PRISTINE, PRISTINE + b"\n# other\n")))
    assert isinstance(plan, Refusal)
    assert "different originals" in plan.reasons[0].what and plan.reasons[0].where.startswith("n2:")


def test_what_only_one_node_has_is_said_completed_and_taken_back() -> None:
    before = surveys(PRISTINE, PRISTINE)
    plan = plan_on(joined(before))
    assert isinstance(plan, Planned)
    half = joined(written(plan, before, "n2"))
    assert uneven(half) is not None and "n1: none" in str(uneven(half))
    rest = plan_on(half)
    assert isinstance(rest, Planned) and [file.path for file in rest.files] == [f"n1:{path_of(MODULE)}"]
    back = plan_revert(half, recipe=None, force=False)
    assert isinstance(back, Reverting) and [file.path for file in back.files] == [f"n2:{path_of(MODULE)}"]


def test_two_settings_of_one_recipe_are_refused_and_can_be_reverted() -> None:
    before = surveys(PRISTINE, PRISTINE)
    small, large = plan_on(joined(before), "4"), plan_on(joined(before), "8")
    assert isinstance(small, Planned) and isinstance(large, Planned)
    mixed = joined(written(large, written(small, before, "n1"), "n2"))
    assert "different settings" in str(uneven(mixed))
    refused = plan_on(mixed)
    assert isinstance(refused, Refusal) and "different parameters" in refused.reasons[0].what
    back = plan_revert(mixed, recipe=None, force=False)
    assert isinstance(back, Reverting) and [file.after for file in back.files] == [PRISTINE, PRISTINE]


def test_different_releases_are_said() -> None:
    pair = {"n1": survey_of({MODULE: PRISTINE}), "n2": survey_of({MODULE: PRISTINE}, version="2.0")}
    assert uneven(joined(pair)) == "the nodes run different engines: n1: sglang 1.0; n2: sglang 2.0"


def test_a_path_is_only_its_own_nodes() -> None:
    assert own("n1", "n1:/a") == "/a"
    assert own("n1", "n12:/a") is None and own("n1", "/a") is None
    assert own("fe80::1", "fe80::1:/a") == "/a"


# One server


def process(pid: int, role: str = "") -> Process:
    return Process(pid=pid, start_ticks=5, boot_id="b", role=role)


def up(pid: int, *roles: str) -> ServerState:
    workers = tuple(process(pid + number, role) for number, role in enumerate(roles, 1))
    return ServerState(recorded=process(pid), listener=process(pid), workers=workers, healthy=True)


def test_a_proof_counts_only_on_the_node_of_its_worker() -> None:
    before = surveys(PRISTINE, PRISTINE)
    plan = plan_on(joined(before))
    assert isinstance(plan, Planned)
    state = joined_states({"n1": up(100, "tp0"), "n2": up(100, "tp1")})  # the same pids, as may be
    proof = ProofFile(
        kind="eager", recipe=plan.recipe, digest=plan.digest, parameters={}, file=path_of(MODULE), pid=101,
        start_ticks=5,
    )  # fmt: skip
    one = judge_proofs(plan.layer, state, joined_proofs({"n1": [proof], "n2": []}))
    assert [worker.seen for worker in one.workers] == ["eager", "absent"] and one.failed
    assert "pid 101 on n2" in one.lines()[1]
    alone = joined_states({"n1": up(100, "tp0"), "n2": ServerState(recorded=None, listener=None)})
    left = judge_proofs(plan.layer, alone, joined_proofs({"n1": [proof]}))
    assert left.failed and "its part (on n2) ended" in left.lines()[1]
    both = judge_proofs(plan.layer, state, joined_proofs({"n1": [proof], "n2": [proof]}))
    assert both.overall == "taken"


def test_a_part_that_is_not_there_is_lost_and_what_is_left_without_the_first_is_no_server() -> None:
    gone = ServerState(recorded=None, listener=None)
    state = joined_states({"n1": up(100, "tp0"), "n2": gone})
    assert [(one.pid, one.node) for one in state.lost] == [(0, "n2")]
    state = joined_states({"n1": gone, "n2": up(100)})
    assert state.recorded is None and [one.called for one in state.workers] == ["pid 100 on n2"]
    assert joined_states({"n1": gone, "n2": gone}).lost == ()


def test_a_stranger_on_any_nodes_port_is_seen() -> None:
    stranger = ServerState(recorded=process(100), listener=process(7), foreign=True)
    state = joined_states({"n1": up(100), "n2": stranger})
    assert state.foreign and state.listener is not None and state.listener.called == "pid 7 on n2"


def test_what_is_added_to_the_first_nodes_launch_is_added_to_all() -> None:
    host = read(WHOLE)
    assert host.server is not None
    launch = Launch(
        python="/py",
        argv=(*host.server.argv, "--more"),
        cwd="/",
        env={**host.server.env, "B": "2"},
        log="/l",
        url="u",
    )
    second = launch_on(host.members[1], host.members[0], launch)
    assert second.argv[-1] == "--more" and second.argv[-5:-3] == ("--node-rank", "1")
    assert second.env == {"A": "1", "NIC": "eth1", "B": "2"} and second.log == "/data/whole.log"
