"""The activation gate: what the workers of this start showed of what is on disk, and of what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oeactl.core.activation import activations
from oeactl.core.host import Holder, Layer, ProofFile, ServerState
from tests.support.levels import UP, WORKER

LAYER = Layer(
    recipe="oea",
    revision=1,
    parameters={"k0": 2},
    digest="d" * 64,
    operation="op",
    applied_at="2026-11-30T00:00:00Z",
    applied_by=Holder(user="u", host="h", pid=1),
    edits={"/e/topk.py": ()},
)
PROOF = ProofFile(
    kind="eager",
    recipe="oea",
    digest="d" * 64,
    parameters={"k0": 2},
    file="/e/topk.py",
    pid=WORKER.pid,
    start_ticks=WORKER.start_ticks,
    mode="DECODE",
    layer=1,
    rows=4,
)


def proof(**changes: Any) -> ProofFile:
    return msgspec.structs.replace(PROOF, **changes)


@pytest.mark.parametrize(
    ("proofs", "outcome"),
    [
        ((proof(),), "pass"),
        ((proof(kind="capture"),), "pass"),
        ((proof(kind="loaded"), proof(kind="compiled")), "not_measured"),
        ((proof(kind="loaded"),), "fail"),
        ((), "fail"),
        ((proof(start_ticks=1),), "fail"),
    ],
)
def test_only_a_branch_taken_by_this_start_is_active(proofs: tuple[ProofFile, ...], outcome: str) -> None:
    (found,) = activations((LAYER,), UP, proofs)
    assert (found.recipe, found.outcome) == ("oea", outcome)
    assert found.reason


def test_a_worker_that_counts_experts_is_active_and_known_to_count() -> None:
    for shown, counts in (((proof(),), False), ((proof(), proof(kind="experts")), True)):
        (found,) = activations((LAYER,), UP, shown)
        assert (found.outcome, found.counts) == ("pass", counts)


def test_workers_that_cannot_be_seen_are_not_measured() -> None:
    (found,) = activations((LAYER,), ServerState(recorded=None, listener=None, healthy=True), ())
    assert found.outcome == "not_measured"


def test_a_recipe_that_the_server_loaded_and_the_disk_no_longer_has_fails() -> None:
    (found,) = activations((), UP, (proof(),))
    assert found.outcome == "fail"
    assert "restart" in found.reason


def test_proofs_of_a_server_that_is_gone_say_nothing() -> None:
    assert activations((), UP, (proof(pid=1, start_ticks=1),)) == ()


def test_a_recipe_without_proof_has_none_to_show() -> None:
    assert activations((msgspec.structs.replace(LAYER, proof=False),), UP, ()) == ()
