"""See which experts a live server uses: a small batch of its own, never while anything is measured."""

from __future__ import annotations

from oeactl.core.host import Survey
from oeactl.core.routing import ExpertsSeen, Usage, batch_prompts, size_of, summarise, unseen
from oeactl.errors import Unreachable
from oeactl.flows.site import Site, model_facts
from oeactl.ports import Engine

STATUS_BATCHES = (1, 4, 16, 64)

DECODE_STEPS = 16
_PROMPT_LEN = 16
_SEED = 20251102
_VOCABULARY = 200  # where the model does not say: as many as any has


def see_experts(engine: Engine, survey: Survey, requests: int) -> tuple[ExpertsSeen, Usage | None]:
    """Decode ``requests`` random prompts together for a few steps; what they used, and how often."""
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
        return unseen(requests, routed), None
    return summarise(routed, layers=layers, experts=experts)


def experts_now(
    site: Site, survey: Survey, batches: tuple[int, ...] = STATUS_BATCHES
) -> tuple[ExpertsSeen, ...]:
    """What batches of a few sizes use on the server as it runs, smallest first."""
    if site.engine is None:
        return ()
    site.progress.step("seeing which experts are used")
    seen: list[ExpertsSeen] = []
    for requests in batches:
        try:
            seen.append(see_experts(site.engine, survey, requests)[0])
        except Unreachable as problem:
            seen.append(unseen(requests, problem.what))
    return tuple(seen)
