"""A change is not active while a worker that should run it is gone, whatever the others show."""

from __future__ import annotations

import msgspec

from oeactl.core.proof import judge_proofs
from tests.support.bench_world import LAYER, PROOF
from tests.support.levels import UP, WORKER

SECOND = msgspec.structs.replace(WORKER, pid=WORKER.pid + 1, role="tp1")


def test_one_worker_of_two_that_ended_leaves_the_change_unproven() -> None:
    assert judge_proofs(LAYER, UP, [PROOF]).proven
    verdict = judge_proofs(LAYER, msgspec.structs.replace(UP, lost=(SECOND,)), [PROOF])
    assert verdict.failed and verdict.remedy == "oeactl restart"
    assert "is not active: 1 of 2 workers ended" in verdict.summary
    assert any(f"tp1 (pid {SECOND.pid}) ended" in line for line in verdict.lines())


def test_a_leader_among_the_lost_is_no_worker() -> None:
    leader = msgspec.structs.replace(WORKER, pid=9, role="")
    assert judge_proofs(LAYER, msgspec.structs.replace(UP, lost=(leader,)), [PROOF]).proven


def test_one_proof_of_two_that_is_missing_leaves_the_change_unproven() -> None:
    both = msgspec.structs.replace(UP, workers=(WORKER, SECOND))
    other = msgspec.structs.replace(PROOF, pid=SECOND.pid)
    assert judge_proofs(LAYER, both, [PROOF, other]).proven
    assert judge_proofs(LAYER, both, [PROOF]).failed
