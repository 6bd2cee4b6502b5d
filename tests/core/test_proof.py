"""On disk is not loaded, loaded is not taken, and one worker of two is not enough."""

from __future__ import annotations

from typing import Any

import pytest

from oeactl.core.host import Holder, Layer, Process, ProofFile, ServerState
from oeactl.core.proof import judge_proofs

FILE = "/e/sglang/srt/layers/moe/topk.py"
LAYER = Layer(
    recipe="oea",
    revision=1,
    parameters={"k0": 4},
    digest="d1",
    operation="op",
    applied_at="2026-01-02T03:04:05+00:00",
    applied_by=Holder(user="ann", host="laptop", pid=1),
    edits={FILE: (), "/e/sglang/srt/layers/radix_attention.py": ()},
)
APPLIED = 1767323045.0  # the same moment
FIRST = Process(pid=10, start_ticks=100, boot_id="b", title="sglang::scheduler_TP0", role="tp0")
SECOND = Process(pid=11, start_ticks=101, boot_id="b", title="sglang::scheduler_TP1", role="tp1")


def state(*workers: Process, started_at: float = APPLIED + 60) -> ServerState:
    return ServerState(recorded=None, listener=None, workers=workers, started_at=started_at)


def proof(worker: Process, kind: Any = "eager", **changes: Any) -> ProofFile:
    fields: dict[str, Any] = {
        "kind": kind,
        "recipe": "oea",
        "digest": "d1",
        "parameters": {"k0": 4},
        "file": FILE,
        "pid": worker.pid,
        "start_ticks": worker.start_ticks,
    }
    return ProofFile(**{**fields, **changes})


@pytest.mark.parametrize(
    ("kinds", "overall", "proven", "failed", "settled"),
    [
        (("loaded", "eager"), "taken", True, False, True),
        (("loaded", "capture"), "captured", True, False, True),
        (("loaded", "capture", "eager"), "taken", True, False, True),
        (("loaded", "compiled"), "compiled", False, False, True),
        (("loaded",), "loaded", False, True, False),
        ((), "absent", False, True, False),
    ],
)
def test_the_best_that_a_worker_shows_counts(
    kinds: tuple[str, ...], overall: str, proven: bool, failed: bool, settled: bool
) -> None:
    verdict = judge_proofs(LAYER, state(FIRST), [proof(FIRST, kind) for kind in kinds])
    assert verdict.overall == overall
    assert (verdict.proven, verdict.failed, verdict.settled) == (proven, failed, settled)
    assert (verdict.remedy is None) == proven


def test_one_worker_of_two_missing_is_not_active() -> None:
    verdict = judge_proofs(LAYER, state(FIRST, SECOND), [proof(FIRST)])
    assert verdict.overall == "absent"
    assert verdict.summary == "oea is not active: 1 of 2 workers showed no patched code"
    assert verdict.lines()[1] == "tp1 (pid 11) showed no patched code"


def test_one_that_only_loaded_it_is_not_active() -> None:
    verdict = judge_proofs(LAYER, state(FIRST, SECOND), [proof(FIRST), proof(SECOND, "loaded")])
    assert verdict.overall == "loaded"
    assert verdict.summary.startswith("oea is not yet proven: 1 of 2 workers loaded the patched file")
    assert "moe-runner-backend" in (verdict.remedy or "")


def test_captured_by_some_and_run_by_others_is_active_and_named() -> None:
    verdict = judge_proofs(LAYER, state(FIRST, SECOND), [proof(FIRST), proof(SECOND, "capture")])
    assert verdict.overall == "captured"
    assert "captured" in verdict.summary and verdict.proven


def test_another_digest_is_stale_code() -> None:
    verdict = judge_proofs(LAYER, state(FIRST), [proof(FIRST, digest="d0")])
    assert verdict.overall == "stale"
    assert verdict.failed and verdict.settled


def test_another_file_is_another_copy() -> None:
    verdict = judge_proofs(LAYER, state(FIRST), [proof(FIRST, file="/other/topk.py")])
    assert verdict.overall == "elsewhere"
    assert "/other/topk.py" in verdict.lines()[0]
    assert "engine.root" in (verdict.remedy or "")


def test_a_process_of_an_earlier_start_proves_nothing_even_under_the_same_pid() -> None:
    gone = Process(pid=FIRST.pid, start_ticks=FIRST.start_ticks - 50, boot_id="b")
    assert judge_proofs(LAYER, state(FIRST), [proof(gone)]).overall == "absent"


def test_another_recipes_proof_is_not_this_ones() -> None:
    assert judge_proofs(LAYER, state(FIRST), [proof(FIRST, recipe="other")]).overall == "absent"


def test_a_server_older_than_the_patch_is_told_so() -> None:
    verdict = judge_proofs(LAYER, state(FIRST, started_at=APPLIED - 5), [])
    assert verdict.remedy == "the server was started before the patch: oeactl restart"
    younger = judge_proofs(LAYER, state(FIRST, started_at=APPLIED + 5), [])
    assert "PYTHONPATH" in (younger.remedy or "")


def test_no_worker_to_be_seen_is_no_proof() -> None:
    verdict = judge_proofs(LAYER, state(), [proof(FIRST)])
    assert verdict.overall == "unseen"
    assert verdict.failed and not verdict.proven


def test_one_that_left_decode_as_it_is_says_why_and_what_to_do() -> None:
    skipped = proof(FIRST, "skipped", reason="the choice is limited to groups")
    verdict = judge_proofs(LAYER, state(FIRST), [proof(FIRST, "loaded"), skipped])
    assert verdict.overall == "loaded" and verdict.failed
    assert verdict.summary.endswith("left the routing as it is, for the choice is limited to groups")
    assert verdict.remedy is not None and "oeactl revert --recipe oea" in verdict.remedy
    (line,) = verdict.lines()
    assert line.endswith("left the routing as it is: the choice is limited to groups")
    assert judge_proofs(LAYER, state(FIRST), [skipped, proof(FIRST)]).overall == "taken", "once is enough"
