"""What the proof files of a server's workers amount to: on disk is not loaded, loaded is not taken.

Owns: the verdict, one a worker and one over all. Refuses: to call a change active because some worker took
it, or because a process that is gone did.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from oeactl.core.host import Layer, Process, ProofFile, ServerState, Value

Overall = Literal["taken", "captured", "compiled", "loaded", "stale", "elsewhere", "absent", "unseen"]
Seen = Literal[
    "eager", "capture", "compiled", "skipped", "loaded", "other digest", "other file", "absent", "gone"
]

#: From the best that a worker can show to the worst; the worst worker decides over all.
_ORDER: tuple[Seen, ...] = (
    *("eager", "capture", "compiled", "skipped", "loaded"),
    *("other digest", "other file", "absent", "gone"),
)
_OVERALL: dict[Seen, Overall] = {
    "eager": "taken",
    "capture": "captured",
    "compiled": "compiled",
    "skipped": "loaded",
    "loaded": "loaded",
    "other digest": "stale",
    "other file": "elsewhere",
    "absent": "absent",
    "gone": "absent",
}
_WORDS: dict[Seen, str] = {
    "eager": "went through the patched branch in decode",
    "capture": "captured the patched branch into its CUDA graphs, which decode replays",
    "compiled": "compiled the patched branch: that it runs is not measured",
    "skipped": "came to the branch in decode and left the routing as it is",
    "loaded": "loaded the patched file, and no decode went through its branch",
    "other digest": "ran the patch in another version or with other parameters",
    "other file": "ran a patched copy of the file in another place",
    "absent": "showed no patched code",
    "gone": "ended, and the server goes on without it",
}


class WorkerProof(Value, frozen=True, kw_only=True):
    """What one worker of this start has shown. proof: the file it was read from; None when there is none."""

    worker: Process
    seen: Seen
    proof: ProofFile | None = None

    def line(self) -> str:
        """One line: who, and what it did."""
        worker = self.worker
        where = ""
        if self.seen == "other file" and self.proof:
            where = f": {self.proof.file}"
        elif self.seen == "skipped" and self.proof:
            where = f": {self.proof.reason}"
        elif self.proof and self.proof.mode:
            where = f" ({self.proof.mode.lower()}, layer {self.proof.layer}, {self.proof.rows} rows)"
        return f"{worker.role or worker.title} ({worker.called}) {_WORDS[self.seen]}{where}"


class Verdict(Value, frozen=True, kw_only=True):
    """Whether one recipe is active in the running server.

    taken: every worker ran it in decode. captured: every one ran or captured it. compiled: not measured.
    loaded: imported only, bypassed or left alone so far. stale, elsewhere, absent: other code runs. unseen:
    no worker is to be seen at all. remedy: the next command, None when all is well.
    """

    recipe: str
    overall: Overall
    summary: str
    remedy: str | None = None
    workers: tuple[WorkerProof, ...] = ()

    @property
    def proven(self) -> bool:
        """Measurements count."""
        return self.overall in ("taken", "captured")

    @property
    def failed(self) -> bool:
        """Not active once decode has been tried: a patch is rolled back. "compiled" is neither."""
        return self.overall not in ("taken", "captured", "compiled")

    @property
    def settled(self) -> bool:
        """More decode would tell nothing new."""
        return self.overall in ("taken", "captured", "compiled", "stale", "elsewhere")

    def lines(self) -> tuple[str, ...]:
        """One line a worker."""
        return tuple(worker.line() for worker in self.workers)


def judge_proofs(layer: Layer, state: ServerState, proofs: Sequence[ProofFile]) -> Verdict:
    """Judge one recipe by the proof files, counting only workers of this start (pid, start time)."""
    gone = tuple(WorkerProof(worker=worker, seen="gone") for worker in state.lost if worker.role)
    workers = (*(_worker(layer, worker, proofs) for worker in state.workers), *gone)
    if not state.workers:
        return Verdict(
            recipe=layer.recipe,
            overall="unseen",
            summary=f"{layer.recipe} is not proven: no worker process of the server is to be seen",
            remedy="oeactl status; oeactl logs",
        )
    worst = max((worker.seen for worker in workers), key=_ORDER.index)
    overall = _OVERALL[worst]
    return Verdict(
        recipe=layer.recipe,
        overall=overall,
        summary=_summary(layer, worst, workers),
        remedy="oeactl restart" if gone else _remedy(worst, layer, state),
        workers=workers,
    )


def _worker(layer: Layer, worker: Process, proofs: Sequence[ProofFile]) -> WorkerProof:
    """The best that this worker has shown with the planned digest, else what it runs instead."""
    shown = [
        (_seen(layer, proof), proof)
        for proof in proofs
        if proof.recipe == layer.recipe and proof.key == worker.key and proof.kind != "experts"
    ]
    if not shown:
        return WorkerProof(worker=worker, seen="absent")
    seen, proof = min(shown, key=lambda one: _ORDER.index(one[0]))
    return WorkerProof(worker=worker, seen=seen, proof=proof)


def _seen(layer: Layer, proof: ProofFile) -> Seen:
    if proof.digest != layer.digest:
        return "other digest"
    if proof.file not in layer.edits:
        return "other file"
    assert proof.kind != "experts"
    return proof.kind


def _summary(layer: Layer, worst: Seen, workers: Sequence[WorkerProof]) -> str:
    total = len(workers)
    count = sum(worker.seen == worst for worker in workers)
    who = (
        ("the worker" if total == 1 else "every worker") if count == total else f"{count} of {total} workers"
    )
    if worst in ("eager", "capture"):
        if worst == "capture" and count < total:
            return f"{layer.recipe} is active: every worker ran or captured it ({count} of {total} captured)"
        return f"{layer.recipe} is active: {who} {_WORDS[worst]}"
    state = {"compiled": "is compiled in", "loaded": "is not yet proven"}.get(worst, "is not active")
    said = {one.proof.reason for one in workers if one.seen == "skipped" and one.proof and one.proof.reason}
    why = f", for {' and '.join(sorted(said))}" if worst == "skipped" and said else ""
    return f"{layer.recipe} {state}: {who} {_WORDS[worst]}{why}"


def _remedy(worst: Seen, layer: Layer, state: ServerState) -> str | None:
    overall = _OVERALL[worst]
    if worst == "skipped":
        return f"serve without what it names, or oeactl revert --recipe {layer.recipe}: there it does nothing"
    if overall in ("taken", "captured"):
        return None
    if overall == "compiled":
        return "measure it: oeactl bench"
    if overall == "loaded":
        return (
            "send it decode traffic of at least min_tokens rows at once; if that changes nothing, the engine "
            "bypasses the branch (--moe-runner-backend flashinfer_trtllm, triton_kernel): see oeactl logs"
        )
    if overall == "elsewhere":
        return "set engine.root in hosts.yaml to the copy that the server imports, then oeactl patch"
    if _older(state.started_at, layer.applied_at):
        return "the server was started before the patch: oeactl restart"
    return (
        "oeactl restart; if it stays so, the server imports another copy (PYTHONPATH, engine.root), runs "
        "stale bytecode, or has OEACTL_PROOF=0 in its environment"
    )


def _older(started_at: float | None, applied_at: str) -> bool:
    """Whether the server began before the patch was written (one host's clock for both)."""
    try:
        applied = datetime.fromisoformat(applied_at)
    except ValueError:
        return False
    return started_at is not None and applied.tzinfo is not None and started_at < applied.timestamp()
