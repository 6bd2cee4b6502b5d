"""Make the running server decode, then read which branch each of its workers took.

The load is small and synthetic: enough requests at once that every scheduler sees a batch of at least
``min_tokens`` rows. It doubles as the canary: a server that answers health and no completions fails here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oeactl.core.host import Layer, ProofFile, Reply, ServerState
from oeactl.core.launch import ranks_of
from oeactl.core.proof import Verdict, judge_proofs
from oeactl.flows.lifecycle import log_tail, server_of
from oeactl.flows.site import Site
from oeactl.ports import Failed

_BUSY = (429, 503)  # the server's way to say later
_BUSY_TRIES = 5
_BUSY_S = 2.0
_OUTPUT_LEN = 16
_ROUNDS = 3


def exercise(site: Site, layers: tuple[Layer, ...]) -> Failed | None:
    """Send the warm-up load; Failed when any completion does not come back whole."""
    assert site.engine is not None and site.host.server is not None
    rows = max([2, *(int(layer.parameters.get("min_tokens", 1)) for layer in layers)])
    concurrency = 2 * rows * ranks_of(site.host.server.argv)
    prompts = [[10 + (7 * i + 3 * j) % 190 for j in range(8 + i % 5)] for i in range(2 * concurrency)]
    replies = _completions(site, prompts, concurrency)
    wrong = [reply for reply in replies if reply.status != 200]
    if not wrong:
        return None
    first = wrong[0].error or f"HTTP {wrong[0].status}: {wrong[0].body[:200].decode('utf-8', 'replace')}"
    why = f"{len(wrong)} of {len(replies)} warm-up completions failed: {first}"
    return Failed(why=why, tail=log_tail(site))


def _completions(site: Site, prompts: list[list[int]], concurrency: int) -> list[Reply]:
    """A reply to each prompt. A busy server is asked again: that is no reason to roll anything back."""
    assert site.engine is not None
    replies: dict[int, Reply] = {}
    asked = list(range(len(prompts)))
    for attempt in range(_BUSY_TRIES):
        if attempt:
            site.clock.sleep(_BUSY_S)
        wanted = [prompts[number] for number in asked]
        told = site.engine.complete(prompts=wanted, output_len=_OUTPUT_LEN, concurrency=concurrency)
        replies.update(zip(asked, told, strict=True))
        asked = [number for number in asked if replies[number].status in _BUSY]
        if not asked:
            break
    return [replies[number] for number in range(len(prompts))]


def verdicts_of(
    layers: Iterable[Layer], state: ServerState, proofs: Sequence[ProofFile]
) -> tuple[Verdict, ...]:
    """Judge what the workers of this start have shown so far, one verdict a recipe."""
    return tuple(judge_proofs(layer, state, proofs) for layer in layers if layer.proof)


def strays(layers: Iterable[Layer], state: ServerState, proofs: Sequence[ProofFile]) -> tuple[str, ...]:
    """Recipes that workers of the running server show, and that are no longer on disk."""
    workers = {worker.key for worker in state.workers}
    shown = {proof.recipe for proof in proofs if proof.key in workers}
    return tuple(sorted(shown - {layer.recipe for layer in layers}))


def prove(site: Site, layers: tuple[Layer, ...]) -> Failed | tuple[Verdict, ...]:
    """Exercise the server until every worker has shown its branch, at most a few rounds."""
    site.progress.step("proving that the change runs" if layers else "asking it for completions")
    verdicts: tuple[Verdict, ...] = ()
    for _ in range(_ROUNDS):
        failed = exercise(site, layers)
        if failed is not None:
            return failed
        server = server_of(site)
        verdicts = verdicts_of(layers, server.state(health=False), server.proofs())
        if all(verdict.settled for verdict in verdicts):
            break
        site.clock.sleep(1.0)
    return verdicts


def inactive(verdicts: tuple[Verdict, ...]) -> Verdict | None:
    """The first recipe that the exercised server does not run, if any."""
    return next((verdict for verdict in verdicts if verdict.failed), None)


def remedy_after_exercise(site: Site, verdict: Verdict) -> str:
    """What to look into when a fresh server was made to decode and still does not run the change."""
    log = f"oeactl logs --host {site.host.name}"
    if verdict.overall == "loaded" and any(worker.seen == "skipped" for worker in verdict.workers):
        return f"{verdict.remedy}: {log}"
    if verdict.overall == "loaded":
        return (
            "the engine bypasses the branch, as --moe-runner-backend flashinfer_trtllm and triton_kernel "
            f"do: {log}"
        )
    if verdict.overall in ("absent", "stale"):
        return (
            "the server imports another copy (PYTHONPATH, engine.root), runs stale bytecode, or has "
            f"OEACTL_PROOF=0 in its environment: {log}"
        )
    return verdict.remedy if verdict.overall == "elsewhere" and verdict.remedy else log
