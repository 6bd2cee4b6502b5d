"""Any server with OpenAI's completions.

Owns: ports.Engine for such a server. Refuses: to claim what this API cannot tell: a flush is
never confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oeactl.core.host import Reply
from oeactl.core.redact import redact
from oeactl.core.routing import RoutedRequest
from oeactl.edges.engines.requests import Loopback, decoded
from oeactl.edges.engines.sglang import unanswered
from oeactl.ports import Agent


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
        model = self._model or self.model_info().get("id")
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
        replies = self._http.post(
            "/v1/completions", bodies, concurrency=concurrency, timeout_s=self._timeout_s
        )
        if replies and all(reply.status == 422 for reply in replies):
            for body in bodies:
                del body["ignore_eos"]
            replies = self._http.post(
                "/v1/completions", bodies, concurrency=concurrency, timeout_s=self._timeout_s
            )
        return replies

    def flush_cache(self) -> bool:
        """There is no such endpoint."""
        return False

    def routed_experts(
        self, *, prompts: Sequence[Sequence[int]], output_len: int
    ) -> tuple[RoutedRequest, ...] | str:
        """This API does not tell."""
        return "the OpenAI API does not tell which experts were used"
