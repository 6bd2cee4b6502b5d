"""Make the running server decode, then read which branch each of its workers took.

The load is small and synthetic: enough requests at once that every scheduler sees a batch of at least
``min_tokens`` rows. It doubles as the canary: a server that answers health and no completions fails here.
"""

from __future__ import annotations

from oeactl.core.host import Layer
from oeactl.core.launch import ranks_of
from oeactl.core.proof import Verdict, judge_proofs
from oeactl.flows.lifecycle import server_of
from oeactl.flows.site import Site
from oeactl.ports import Failed

_OUTPUT_LEN = 16
_ROUNDS = 3


def exercise(site: Site, layers: tuple[Layer, ...]) -> Failed | None:
    """Send the warm-up load; Failed when any completion does not come back whole."""
    assert site.engine is not None and site.host.server is not None
    rows = max([2, *(int(layer.parameters.get("min_tokens", 1)) for layer in layers)])
    concurrency = 2 * rows * ranks_of(site.host.server.argv)
    prompts = [[10 + (7 * i + 3 * j) % 190 for j in range(8 + i % 5)] for i in range(2 * concurrency)]
    replies = site.engine.complete(prompts=prompts, output_len=_OUTPUT_LEN, concurrency=concurrency)
    wrong = [reply for reply in replies if reply.status != 200]
    if not wrong:
        return None
    first = wrong[0].error or f"HTTP {wrong[0].status}: {wrong[0].body[:200].decode('utf-8', 'replace')}"
    tail = server_of(site).log_lines(20)
    return Failed(why=f"{len(wrong)} of {len(replies)} warm-up completions failed: {first}", tail=tail)


def read_proof(site: Site, layers: tuple[Layer, ...]) -> tuple[Verdict, ...]:
    """Judge what the workers of this start have written so far, one verdict a recipe."""
    server = server_of(site)
    state, proofs = server.state(), server.proofs()
    return tuple(judge_proofs(layer, state, proofs) for layer in layers if layer.proof)


def stray_proofs(site: Site) -> bool:
    """Whether workers of the running server show patched code that the journal does not know of."""
    server = server_of(site)
    workers = {(worker.pid, worker.start_ticks) for worker in server.state().workers}
    return any((proof.pid, proof.start_ticks) in workers for proof in server.proofs())


def prove(site: Site, layers: tuple[Layer, ...]) -> Failed | tuple[Verdict, ...]:
    """Exercise the server until every worker has shown its branch, at most a few rounds."""
    site.progress.step("proving that the change runs")
    verdicts: tuple[Verdict, ...] = ()
    for _ in range(_ROUNDS):
        failed = exercise(site, layers)
        if failed is not None:
            return failed
        verdicts = read_proof(site, layers)
        if all(verdict.settled for verdict in verdicts):
            break
        site.clock.sleep(1.0)
    return verdicts
