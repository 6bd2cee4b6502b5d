"""What the end-to-end tests ask a live SGLang: greedy text, routed experts, log-probabilities, under load.

Owns: requests by the native API over loopback. Refuses: to judge.
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


def prompts(count: int, length: int, seed: int) -> list[list[int]]:
    """Token ids within the small vocabulary, all different."""
    return [[10 + (seed + 131 * i + 17 * j * j + 3 * j) % 480 for j in range(length)] for i in range(count)]


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


def changes(before: Sequence[Logprobs], after: Sequence[Logprobs]) -> tuple[float, float]:
    """By how much log-probabilities differ: the most of any in a prompt, the least of any decoded token."""
    pairs = list(zip(before, after, strict=True))
    prompts = [abs(x - y) for one, other in pairs for x, y in zip(one.prompt, other.prompt, strict=True)]
    return max(prompts), min(abs(one.decoded - other.decoded) for one, other in pairs)


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
