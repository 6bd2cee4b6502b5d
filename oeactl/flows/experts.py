"""See which experts a live server uses: a small batch of its own, never while anything is measured."""

from __future__ import annotations

from oeactl.core.host import Survey
from oeactl.core.routing import ExpertsSeen, Usage, batch_prompts, counted, size_of, summarise, unseen
from oeactl.errors import Unreachable
from oeactl.flows.site import Site, model_facts
from oeactl.ports import Engine, Server

STATUS_BATCHES = (1, 4, 16, 64)

DECODE_STEPS = 16
_PROMPT_LEN = 16
_SEED = 20251102
_VOCABULARY = 200  # where the model does not say: as many as any has
_COUNTER = "or OEACTL_EXPERTS=1 in server.env, with recipe oea on disk, makes its workers count"


def see_experts(
    engine: Engine, server: Server, survey: Survey, requests: int
) -> tuple[ExpertsSeen, Usage | None]:
    """Decode ``requests`` random prompts together for a few steps; what they used, and how often.

    Where the engine does not tell, the workers' own counters do, if they were switched on; not how often.
    """
    config = model_facts(survey.model)
    layers, experts = size_of(config)
    if layers is None:
        return unseen(
            requests, "the model's config.json, which says how many layers there are, was not read"
        ), None
    vocabulary = config.get("vocab_size")
    prompts = batch_prompts(
        requests, _PROMPT_LEN, vocabulary if isinstance(vocabulary, int) else _VOCABULARY, _SEED
    )
    routed = engine.routed_experts(prompts=prompts, output_len=DECODE_STEPS + 1)
    if isinstance(routed, str):
        return _counted(engine, server, survey, prompts) or unseen(requests, f"{routed}; {_COUNTER}"), None
    return summarise(routed, layers=layers, experts=experts)


def _counted(
    engine: Engine, server: Server, survey: Survey, prompts: tuple[tuple[int, ...], ...]
) -> ExpertsSeen | None:
    """The same batch, as the workers' counters saw it. It lasts longer: its requests may come one by one."""
    before = server.proofs()
    engine.complete(prompts=prompts, output_len=2 * DECODE_STEPS, concurrency=len(prompts))
    return counted(before, server.proofs(), requests=len(prompts), config=model_facts(survey.model))


def experts_now(
    site: Site, survey: Survey, batches: tuple[int, ...] = STATUS_BATCHES
) -> tuple[ExpertsSeen, ...]:
    """What batches of a few sizes use on the server as it runs, smallest first."""
    if site.engine is None or site.server is None:
        return ()
    site.progress.step("seeing which experts are used")
    seen: list[ExpertsSeen] = []
    for requests in batches:
        try:
            seen.append(see_experts(site.engine, site.server, survey, requests)[0])
        except Unreachable as problem:
            seen.append(unseen(requests, problem.what))
    return tuple(seen)
