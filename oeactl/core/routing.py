"""Which experts a live server really used: distinct ones a layer and decode step, and how often each.

Owns: reading what SGLang returns for ``return_routed_experts``, its shape, and the figures made of it.
Refuses: to guess. An answer whose size does not fit tokens and layers is *not measured*, with the reason.

A decode step of a batch is seen by position: the requests have prompts of one length and are admitted
together, so that token i of each was computed in one step.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from oeactl.core.host import ProofFile, Value

_INT32 = "i"

Step = tuple[tuple[int, ...], ...]
"""The experts of one token, a tuple a layer."""


class LayerSeen(Value, frozen=True, kw_only=True):
    """Distinct experts a decode step in one MoE layer, over the steps seen."""

    layer: int
    distinct_mean: float
    distinct_min: int
    distinct_max: int


class ExpertsSeen(Value, frozen=True, kw_only=True):
    """Distinct experts a decode step; the mean is over MoE layers and steps.

    seen_by: the engine, which tells them with its answers, or the counter of recipe oea in its workers.
    routed_mean: of the same batches as the engine would have routed them without a recipe; the counter tells.
    reason: why it is not measured. requests: in flight together. experts: how many a layer has, None where
    the model does not say. counts_sha256: the raw file that holds how often each expert was used.
    """

    outcome: Literal["measured", "not_measured"]
    reason: str = ""
    seen_by: Literal["engine", "counter"] = "engine"
    requests: int
    decode_steps: int = 0
    top_k: int | None = None
    experts: int | None = None
    distinct_mean: float | None = None
    routed_mean: float | None = None
    layers: tuple[LayerSeen, ...] = ()
    counts_sha256: str | None = None


class RoutedRequest(Value, frozen=True, kw_only=True):
    """One request as returned: its prompt, its tokens, and base64 of int32 [tokens, layers, top_k]."""

    prompt_tokens: int
    output_tokens: int
    experts: str


class Usage(Value, frozen=True, kw_only=True):
    """How often each expert was among a token's experts in decode. counts: a row a layer, N long."""

    tokens: int
    top_k: int
    layers: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]

    def shares(self) -> tuple[tuple[float, ...], ...]:
        """The probability that a token uses an expert: a row a layer; each row adds up to top_k."""
        return tuple(tuple(count / self.tokens for count in layer) for layer in self.counts)


def unseen(requests: int, reason: str) -> ExpertsSeen:
    """The record of a batch whose experts could not be seen."""
    return ExpertsSeen(outcome="not_measured", reason=reason, requests=requests)


def why_unseen(info: Mapping[str, Any], requests: int) -> str | None:
    """Why this server cannot show a batch of ``requests``, by its own arguments; None when it should."""
    if "enable_return_routed_experts" not in info:
        version = info.get("version") or "of this server"
        return f"release {version} does not return routed experts (SGLang 0.5.9 and later do)"
    if not info["enable_return_routed_experts"]:
        return "the server was started without --enable-return-routed-experts"
    most = info.get("max_running_requests")
    if isinstance(most, int) and most < requests:
        return f"the server decodes at most {most} requests at once"
    return None


def size_of(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Layers in all, and routed experts a layer, by a model's config.json; None where it does not say."""
    names = ("n_routed_experts", "num_experts", "num_local_experts")
    experts = next((config[name] for name in names if isinstance(config.get(name), int)), None)
    layers = config.get("num_hidden_layers")
    return (layers if isinstance(layers, int) else None), experts


def batch_prompts(count: int, length: int, vocabulary: int, seed: int) -> tuple[tuple[int, ...], ...]:
    """Prompts of random ids, as the measured load's are; below 10 stand the special tokens.

    The generator is the MINSTD one of Park and Miller (x -> 48271 x mod 2^31 - 1): any is good enough here,
    and this one gives the same prompts on every version of Python.
    """
    state = seed % 2147483646 + 1
    span = max(1, vocabulary - 10)
    prompts = []
    for _ in range(count):
        prompt = []
        for _ in range(length):
            state = state * 48271 % 2147483647
            prompt.append(10 + state % span)
        prompts.append(tuple(prompt))
    return tuple(prompts)


def summarise(
    requests: Sequence[RoutedRequest], *, layers: int, experts: int | None
) -> tuple[ExpertsSeen, Usage | None]:
    """What a batch showed, and how often each expert was used. Not measured where an answer does not fit."""
    try:
        decodes = [_decode(request, layers) for request in requests]
    except ValueError as problem:
        return unseen(len(requests), str(problem)), None
    steps = min((len(decode) for decode in decodes), default=0)
    if not steps:
        return unseen(len(requests), "no decode step was returned"), None
    moe = [layer for layer in range(layers) if any(any(token[layer]) for one in decodes for token in one)]
    if not moe:
        return unseen(len(requests), "every layer shows expert 0 alone: nothing was captured"), None
    seen = tuple(_layer_seen(decodes, steps, layer) for layer in moe)
    found = ExpertsSeen(
        outcome="measured",
        requests=len(requests),
        decode_steps=steps,
        top_k=len(decodes[0][0][moe[0]]),
        experts=experts,
        distinct_mean=sum(layer.distinct_mean for layer in seen) / len(seen),
        layers=seen,
    )
    return found, _usage(decodes, steps, moe, experts)


def counted(
    before: Sequence[ProofFile], after: Sequence[ProofFile], *, requests: int, config: Mapping[str, Any]
) -> ExpertsSeen | None:
    """What the workers' own counters saw of batches of ``requests`` rows meanwhile; None: nothing.

    before, after: the proof files then and now; those of other kinds are passed over.
    """
    rows, earlier = str(requests), {one.key: one.counts for one in _counting(before)}
    routed: list[float] = []
    found: dict[int, list[int]] = {}
    for one in _counting(after):
        then = earlier.get(one.key, {}).get(rows, {})
        for layer, count in one.counts.get(rows, {}).items():
            begun = then[layer].steps if layer in then else 0
            fresh = count.steps - begun if count.steps >= begun else count.steps  # it may have begun anew
            if fresh:
                routed += count.before[-fresh:]
                found.setdefault(int(layer), []).extend(count.after[-fresh:])
    if not found:
        return None
    seen = tuple(
        LayerSeen(
            layer=layer,
            distinct_mean=sum(counts) / len(counts),
            distinct_min=min(counts),
            distinct_max=max(counts),
        )
        for layer, counts in sorted(found.items())
    )
    top_k = config.get("num_experts_per_tok")
    return ExpertsSeen(
        outcome="measured",
        seen_by="counter",
        requests=requests,
        decode_steps=min(map(len, found.values())),
        top_k=top_k if isinstance(top_k, int) else None,
        experts=size_of(config)[1],
        distinct_mean=sum(layer.distinct_mean for layer in seen) / len(seen),
        routed_mean=sum(routed) / len(routed),
        layers=seen,
    )


def _counting(proofs: Sequence[ProofFile]) -> tuple[ProofFile, ...]:
    return tuple(proof for proof in proofs if proof.kind == "experts")


def _decode(request: RoutedRequest, layers: int) -> list[Step]:
    """The decode steps of one request. The last token sampled was never computed, hence tokens - 1."""
    try:
        data = base64.b64decode(request.experts, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise ValueError(f"routed experts are not base64: {problem}") from problem
    tokens = request.prompt_tokens + request.output_tokens - 1
    slots, rest = divmod(len(data), 4 * max(1, tokens) * layers)
    if rest or slots < 1:
        raise ValueError(f"{len(data)} bytes of routed experts do not fit {tokens} tokens x {layers} layers")
    flat = array(_INT32)
    flat.frombytes(data)
    rows = [tuple(flat[at : at + slots]) for at in range(0, len(flat), slots)]
    steps = [tuple(rows[at : at + layers]) for at in range(0, len(rows), layers)]
    return steps[request.prompt_tokens :]


def _layer_seen(decodes: Sequence[Sequence[Step]], steps: int, layer: int) -> LayerSeen:
    counts = [
        len({expert for decode in decodes for expert in decode[step][layer] if expert >= 0})
        for step in range(steps)
    ]
    return LayerSeen(
        layer=layer,
        distinct_mean=sum(counts) / steps,
        distinct_min=min(counts),
        distinct_max=max(counts),
    )


def _usage(
    decodes: Sequence[Sequence[Step]], steps: int, moe: Sequence[int], experts: int | None
) -> Usage | None:
    highest = max(
        expert for decode in decodes for token in decode for layer in moe for expert in token[layer]
    )
    size = experts if experts is not None else highest + 1
    if highest >= size:
        return None
    counts = [[0] * size for _ in moe]
    for decode in decodes:
        for token in decode[:steps]:
            for row, layer in zip(counts, moe, strict=True):
                for expert in token[layer]:
                    if expert >= 0:
                        row[expert] += 1
    return Usage(
        tokens=steps * len(decodes),
        top_k=len(decodes[0][0][moe[0]]),
        layers=tuple(moe),
        counts=tuple(tuple(row) for row in counts),
    )


def pooled(usages: Sequence[Usage]) -> Usage:
    """Recordings of one model as one. Raises ValueError where their shapes differ or there is none."""
    if not usages:
        raise ValueError("no usage of experts was recorded")
    first = usages[0]
    shape = (first.top_k, first.layers, len(first.counts[0]))
    if any((one.top_k, one.layers, len(one.counts[0])) != shape for one in usages):
        raise ValueError("the recordings are of different models")
    return Usage(
        tokens=sum(one.tokens for one in usages),
        top_k=first.top_k,
        layers=first.layers,
        counts=tuple(
            tuple(sum(counts) for counts in zip(*layers, strict=True))
            for layers in zip(*(one.counts for one in usages), strict=True)
        ),
    )
