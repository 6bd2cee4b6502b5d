"""Requests to a server, sent on its host by the agent.

Owns: one message of many requests. Refuses: to interpret an answer; no answer is a Reply of status 0.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from oeactl.core.host import Reply
from oeactl.ports import Agent

MARGIN_S = 30.0


class Loopback:
    """A server as its own host reaches it. api_key: the value; it travels in the message, in no argv."""

    def __init__(self, agent: Agent, *, url: str, api_key: str | None = None) -> None:
        self._agent = agent
        self._url = url
        self._api_key = api_key

    def get(self, path: str, *, timeout_s: float = 30.0) -> Reply:
        return self._send([{"method": "GET", "path": path, "timeout_s": timeout_s}], 1, timeout_s)[0]

    def post(
        self,
        path: str,
        bodies: Sequence[dict[str, Any] | None],
        *,
        concurrency: int = 1,
        timeout_s: float = 600.0,
    ) -> tuple[Reply, ...]:
        """POST each body as JSON, ``concurrency`` at a time; replies in the order of the bodies."""
        requests = [
            {"method": "POST", "path": path, "body": _encoded(body), "timeout_s": timeout_s}
            for body in bodies
        ]
        rounds = -(-len(bodies) // max(1, concurrency))
        return self._send(requests, concurrency, timeout_s * rounds)

    def _send(self, requests: list[dict[str, Any]], concurrency: int, limit_s: float) -> tuple[Reply, ...]:
        answers = self._agent.ask(
            "http",
            timeout_s=limit_s + MARGIN_S,
            url=self._url,
            requests=requests,
            concurrency=concurrency,
            api_key=self._api_key,
        )
        return msgspec.convert(answers, tuple[Reply, ...])


def _encoded(body: dict[str, Any] | None) -> str | None:
    return None if body is None else base64.b64encode(json.dumps(body).encode()).decode("ascii")


def decoded(reply: Reply) -> Any:
    """The body as JSON; None where there is none."""
    try:
        return json.loads(reply.body)
    except ValueError:
        return None
