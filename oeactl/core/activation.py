"""What the workers' proofs say about a measurement: does the server run what is on disk?

Owns: the step from proof verdicts to the activation gate, and to the results. Refuses: to judge one recipe's
proofs (proof.py does).
"""

from __future__ import annotations

from collections.abc import Sequence

from oeactl.core.evidence import Activation, Outcome
from oeactl.core.host import Layer, ProofFile, ServerState
from oeactl.core.proof import judge_proofs


def activations(
    layers: Sequence[Layer], state: ServerState, proofs: Sequence[ProofFile]
) -> tuple[Activation, ...]:
    """One activation a recipe on disk, and one a recipe that workers loaded and the disk no longer has."""
    started = {worker.key for worker in state.workers}
    ours = [proof for proof in proofs if proof.key in started]
    found = [_of_layer(layer, state, ours) for layer in layers if layer.proof]
    digests = {layer.digest for layer in layers}
    strays = {(proof.recipe, proof.digest) for proof in ours if proof.digest not in digests}
    found += [
        Activation(
            recipe=recipe,
            digest=digest,
            outcome="fail",
            reason="the running server loaded it and the disk no longer has it: oeactl restart",
            kinds=_kinds(ours, digest),
        )
        for recipe, digest in sorted(strays)
    ]
    return tuple(found)


def _of_layer(layer: Layer, state: ServerState, ours: Sequence[ProofFile]) -> Activation:
    verdict = judge_proofs(layer, state, ours)
    outcome: Outcome = "pass" if verdict.proven else "fail"
    if verdict.overall in ("compiled", "unseen"):
        outcome = "not_measured"
    return Activation(
        recipe=layer.recipe,
        digest=layer.digest,
        outcome=outcome,
        reason=verdict.summary,
        kinds=_kinds(ours, layer.digest),
    )


def _kinds(proofs: Sequence[ProofFile], digest: str) -> tuple[str, ...]:
    return tuple(sorted({one.kind for one in proofs if one.digest == digest}))
