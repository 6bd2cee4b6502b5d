"""SGLang's endpoints, by its native API.

Owns: ports.Engine for SGLang 0.4.6 on. Refuses: to keep a secret that the server tells about itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from oeactl.core.host import Reply
from oeactl.core.quality import Answer
from oeactl.core.redact import redact
from oeactl.core.routing import RoutedRequest, why_unseen
from oeactl.edges.engines.answers import all_answers, native
from oeactl.edges.engines.requests import Loopback, decoded
from oeactl.errors import Unreachable
from oeactl.ports import Agent

FLUSH_TRIES = 10
FLUSH_EVERY_S = 1.0


class SglangEngine:
    """ports.Engine. url as seen on the host; api_key: the value, sent as a Bearer header only.

    timeout_s bounds each request.
    """

    def __init__(
        self, agent: Agent, *, url: str, api_key: str | None = None, timeout_s: float = 600.0
    ) -> None:
        self._http = Loopback(agent, url=url, api_key=api_key)
        self._where = f"{agent.name}:{url}"
        self._timeout_s = timeout_s

    def info(self) -> dict[str, Any]:
        """Server arguments, ``version``, ``internal_states``; secrets redacted. Raises Unreachable."""
        return self._object("/server_info", "/get_server_info")

    def model_info(self) -> dict[str, Any]:
        """Model path, served name, architectures. Raises Unreachable."""
        return self._object("/model_info", "/get_model_info")

    def complete(
        self,
        *,
        prompts: Sequence[Sequence[int]],
        output_len: int,
        concurrency: int,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Reply, ...]:
        """Generate greedily ``output_len`` tokens for each prompt of token ids; end-of-text is ignored.

        options: further fields of the request, such as ``return_logprob`` or ``return_routed_experts``.
        """
        sampling = {"max_new_tokens": output_len, "temperature": 0, "ignore_eos": True}
        bodies = [
            {"input_ids": list(prompt), "sampling_params": sampling, **(options or {})} for prompt in prompts
        ]
        return self._http.post("/generate", bodies, concurrency=concurrency, timeout_s=self._timeout_s)

    def flush_cache(self) -> bool:
        """Drop the prefix cache; True only when the server confirms it. It answers 400 while it is busy."""
        for attempt in range(FLUSH_TRIES):
            if attempt:
                time.sleep(FLUSH_EVERY_S)
            (reply,) = self._http.post("/flush_cache", [None], timeout_s=30.0)
            if reply.status == 200:
                return True
            if reply.status not in (400, 503):
                return False
        return False

    def routed_experts(
        self, *, prompts: Sequence[Sequence[int]], output_len: int
    ) -> tuple[RoutedRequest, ...] | str:
        """Generate for all prompts in one request, which the engine decodes as one batch."""
        cannot = why_unseen(self.info(), len(prompts))
        if cannot is not None:
            return cannot
        body = {
            "input_ids": [list(prompt) for prompt in prompts],
            "sampling_params": {"max_new_tokens": output_len, "temperature": 0, "ignore_eos": True},
            "return_routed_experts": True,
        }
        (reply,) = self._http.post("/generate", [body], timeout_s=self._timeout_s)
        answers = decoded(reply)
        if reply.status != 200 or not isinstance(answers, list) or len(answers) != len(prompts):
            return f"the batch was answered {reply.status} {reply.error}".strip()
        try:
            return tuple(
                RoutedRequest(
                    prompt_tokens=int(meta["prompt_tokens"]),
                    output_tokens=int(meta["completion_tokens"]),
                    experts=str(meta["routed_experts"]),
                )
                for meta in (answer["meta_info"] for answer in answers)
            )
        except (KeyError, TypeError, ValueError):
            return "the answers carry no routed experts"

    def answers(
        self, *, prompts: Sequence[str], output_len: int, top_logprobs: int, concurrency: int
    ) -> tuple[Answer, ...]:
        """Token ids and their log-probabilities, past end-of-text."""
        sampling = {"max_new_tokens": output_len, "temperature": 0, "ignore_eos": True}
        asked = {"sampling_params": sampling, "return_logprob": True, "top_logprobs_num": top_logprobs}
        bodies: list[dict[str, Any] | None] = [{"text": prompt, **asked} for prompt in prompts]
        replies = self._http.post("/generate", bodies, concurrency=concurrency, timeout_s=self._timeout_s)
        return all_answers(replies, native, self._where)

    def _object(self, *paths: str) -> dict[str, Any]:
        """The first of these endpoints that this release has."""
        reply = Reply(status=0)
        for path in paths:
            reply = self._http.get(path)
            if reply.status == 200:
                body = decoded(reply)
                if isinstance(body, dict):
                    found = redact(body)
                    assert isinstance(found, dict)
                    return found
            if reply.status != 404:
                break
        raise unanswered(reply, path, self._where)


def unanswered(reply: Reply, path: str, where: str) -> Unreachable:
    """Why an endpoint gave nothing usable."""
    if reply.status == 0:
        return Unreachable(f"the server does not answer: {reply.error}", where=where, hint="oeactl status")
    hint = (
        "name the variable that holds the key in server.api_key_env" if reply.status in (401, 403) else None
    )
    return Unreachable(f"{path} was answered {reply.status}", where=where, hint=hint)
