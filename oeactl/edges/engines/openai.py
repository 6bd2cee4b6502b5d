"""Any server with OpenAI's completions.

Owns: ports.Engine for such a server. Refuses: to claim what this API cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oeactl.core.host import Reply
from oeactl.core.quality import Answer
from oeactl.core.redact import redact
from oeactl.core.routing import RoutedRequest
from oeactl.edges.engines.answers import all_answers, chat, completion
from oeactl.edges.engines.requests import Loopback, decoded
from oeactl.edges.engines.sglang import unanswered
from oeactl.ports import Agent

_NOT_SERVED = (400, 404, 405, 422, 501)


class OpenAIEngine:
    """ports.Engine. model: the served name, None for the first that /v1/models lists."""

    def __init__(
        self,
        agent: Agent,
        *,
        url: str,
        model: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        self._http = Loopback(agent, url=url, api_key=api_key)
        self._where = f"{agent.name}:{url}"
        self._model = model
        self._timeout_s = timeout_s
        self._chat = False

    def info(self) -> dict[str, Any]:
        """``{"models": …}`` and, where there is a /version, that; secrets redacted. Raises Unreachable."""
        reply = self._http.get("/v1/models")
        body = decoded(reply)
        if reply.status != 200 or not isinstance(body, dict):
            raise unanswered(reply, "/v1/models", self._where)
        told = self._http.get("/version")
        version = decoded(told) if told.status == 200 else None
        found = redact({"models": body.get("data", []), **(version if isinstance(version, dict) else {})})
        assert isinstance(found, dict)
        return found

    def model_info(self) -> dict[str, Any]:
        """What /v1/models says of the served model."""
        models = self.info()["models"]
        named = [one for one in models if self._model in (None, one.get("id"))]
        return dict(named[0]) if named else {}

    def complete(
        self, *, prompts: Sequence[Sequence[int]], output_len: int, concurrency: int
    ) -> tuple[Reply, ...]:
        """Complete each prompt of token ids greedily, past end-of-text where the server knows how."""
        model = self._named()
        bodies = [
            {
                "model": model,
                "prompt": list(prompt),
                "max_tokens": output_len,
                "temperature": 0,
                "ignore_eos": True,
            }
            for prompt in prompts
        ]
        return self._patient("/v1/completions", bodies, concurrency)

    def flush_cache(self) -> bool | None:
        """By vLLM's own endpoint, which it has in development mode alone; None where there is none."""
        (reply,) = self._http.post("/reset_prefix_cache", [None], timeout_s=30.0)
        return None if reply.status in (404, 405) else reply.status == 200

    def routed_experts(
        self, *, prompts: Sequence[Sequence[int]], output_len: int
    ) -> tuple[RoutedRequest, ...] | str:
        """This API does not tell."""
        return "the OpenAI API does not tell which experts were used"

    def answers(
        self, *, prompts: Sequence[str], output_len: int, top_logprobs: int, concurrency: int
    ) -> tuple[Answer, ...]:
        """Texts of tokens and their log-probabilities: by completions, else (no such endpoint, or none with
        log-probabilities) by chat.
        """
        asked = {"model": self._named(), "temperature": 0, "ignore_eos": True, "max_tokens": output_len}
        plain = [{**asked, "logprobs": top_logprobs, "prompt": prompt} for prompt in prompts]
        completions: tuple[Reply, ...] = ()
        if not self._chat:
            completions = self._patient("/v1/completions", plain, concurrency)
            if not all(_unfit(reply) for reply in completions):
                return all_answers(completions, completion, self._where)
        turned = {**asked, "logprobs": True, "top_logprobs": top_logprobs}
        bodies = [{**turned, "messages": [{"role": "user", "content": prompt}]} for prompt in prompts]
        replies = self._patient("/v1/chat/completions", bodies, concurrency)
        if not self._chat and all(reply.status in _NOT_SERVED for reply in replies):
            return all_answers(completions, completion, self._where)
        self._chat = True
        return all_answers(replies, chat, self._where)

    def _named(self) -> str | None:
        """The served name, asked for once."""
        if self._model is None:
            self._model = self.model_info().get("id")
        return self._model

    def _patient(self, path: str, bodies: list[dict[str, Any]], concurrency: int) -> tuple[Reply, ...]:
        """POST all; where all are refused once more without ``ignore_eos``, which OpenAI does not have."""
        replies = self._http.post(path, bodies, concurrency=concurrency, timeout_s=self._timeout_s)
        if replies and all(reply.status in (400, 422) for reply in replies):
            for body in bodies:
                body.pop("ignore_eos", None)
            replies = self._http.post(path, bodies, concurrency=concurrency, timeout_s=self._timeout_s)
        return replies


def _unfit(reply: Reply) -> bool:
    """Whether completions are not served here, or without log-probabilities: chat may be."""
    if reply.status != 200:
        return reply.status in _NOT_SERVED
    try:
        completion(decoded(reply))
    except ValueError:
        return True
    return False
