"""What the end-to-end tests ask a live SGLang: greedy text, routed experts, log-probabilities, under load.

The requests go by the native API over loopback. Two checks compare what a server answered before and after.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from oeactl.core.routing import RoutedRequest, summarise

Prompt = Sequence[int]
LAYERS = 3
LENGTHS = (2, 3, 20, 200)
ROUNDING = 1e-5
"""In float32 log-probabilities change by at most 2e-6 with what else is in a prefill batch.

Seen in 12 comparisons of 16 prompts.
"""


def prompts(count: int, length: int, seed: int) -> list[list[int]]:
    """Token ids within the small vocabulary, all different."""
    return [[10 + (seed + 131 * i + 17 * j * j + 3 * j) % 480 for j in range(length)] for i in range(count)]


SIXTEEN = prompts(16, 24, seed=5)


def generate(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def sampling(length: int) -> dict[str, Any]:
    return {"temperature": 0, "max_new_tokens": length, "ignore_eos": True}


def batch(url: str, asked: Sequence[Prompt], length: int, **more: Any) -> list[dict[str, Any]]:
    """One request of many prompts, which the engine then decodes as one batch."""
    body = {"input_ids": [list(p) for p in asked], "sampling_params": sampling(length), **more}
    answer: list[dict[str, Any]] = generate(url, body)
    return answer


def texts(url: str, asked: Sequence[Prompt], length: int) -> list[str]:
    return [one["text"] for one in batch(url, asked, length)]


def distinct_experts(url: str, asked: Sequence[Prompt], length: int, *, layers: int) -> float:
    """Distinct experts a decode step, averaged over steps and MoE layers."""
    told = [one["meta_info"] for one in batch(url, asked, length, return_routed_experts=True)]
    routed = [
        RoutedRequest(
            prompt_tokens=one["prompt_tokens"],
            output_tokens=one["completion_tokens"],
            experts=one["routed_experts"],
        )
        for one in told
    ]
    seen, _ = summarise(routed, layers=layers, experts=None)
    assert seen.distinct_mean is not None, seen.reason
    return seen.distinct_mean


@dataclass(frozen=True)
class Logprobs:
    """Of one prompt: its tokens and the first generated one, from prefill; the second one, from decode."""

    prompt: tuple[float, ...]
    decoded: float


def logprobs(url: str, asked: Sequence[Prompt], *, concurrency: int) -> list[Logprobs]:
    """The log-probabilities of each prompt, that many prompts at a time."""

    def one(prompt: Prompt) -> Logprobs:
        answer = generate(
            url,
            {
                "input_ids": list(prompt),
                "sampling_params": sampling(4),
                "return_logprob": True,
                "logprob_start_len": 0,
            },
        )
        given, generated = (answer["meta_info"][f"{part}_token_logprobs"] for part in ("input", "output"))
        prefilled = (*given[1:], generated[0])  # nothing predicts the first token of a prompt
        return Logprobs(prompt=tuple(value for value, *_ in prefilled), decoded=generated[1][0])

    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(one, asked))


@contextmanager
def decode_load(url: str, *, streams: int) -> Iterator[None]:
    """Keep ``streams`` long generations running all the while."""
    over = threading.Event()

    def stream(at: int) -> None:
        while not over.is_set():
            generate(url, {"input_ids": prompts(1, 9, 7 * at)[0], "sampling_params": sampling(48)})

    with ThreadPoolExecutor(streams) as pool:
        running = [pool.submit(stream, at) for at in range(streams)]
        try:
            yield
        finally:
            over.set()
        for one in running:
            one.result()


@dataclass(frozen=True)
class Seen:
    """What a server answers: greedy texts, distinct experts a decode step, log-probabilities under load."""

    texts: list[str]
    experts: float
    alone: list[Logprobs]
    together: list[Logprobs]


def see(url: str) -> Seen:
    """Ask all of it. alone: one prompt at a time, together: all at once, both beside six streams."""
    mixed = [prompt for length in LENGTHS for prompt in prompts(4, length, seed=length)]
    all_texts = texts(url, SIXTEEN, 24)
    experts = distinct_experts(url, SIXTEEN, 24, layers=LAYERS)
    with decode_load(url, streams=6):
        alone = logprobs(url, mixed, concurrency=1)
        together = logprobs(url, mixed, concurrency=16)
    return Seen(texts=all_texts, experts=experts, alone=alone, together=together)


def check_only_decode_changed(before: Seen, during: Seen) -> None:
    """With k0=2: other texts by fewer experts, every decoded token changed, and no prompt."""
    assert during.texts != before.texts
    assert during.experts < before.experts / 2
    for one, other in paired(before, during):
        assert farthest(one.prompt, other.prompt) < ROUNDING, "a prompt's log-probabilities changed"
        change = abs(one.decoded - other.decoded)  # 9e-3 was the least seen
        assert change > 100 * ROUNDING, "a decoded token's log-probability did not change"


def check_same(before: Seen, after: Seen) -> None:
    """The same texts by as many experts, and log-probabilities that differ by rounding alone."""
    assert (after.texts, after.experts) == (before.texts, before.experts)
    for one, other in paired(before, after):
        assert farthest((*one.prompt, one.decoded), (*other.prompt, other.decoded)) < ROUNDING


def paired(before: Seen, after: Seen) -> Iterator[tuple[Logprobs, Logprobs]]:
    yield from zip(before.alone, after.alone, strict=True)
    yield from zip(before.together, after.together, strict=True)


def farthest(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in zip(one, other, strict=True))
