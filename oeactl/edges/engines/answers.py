"""Answers with log-probabilities, out of the forms in which servers give them.

Owns: SGLang's native form, OpenAI's for completions and for chat. Refuses: an answer without
log-probabilities, and numbers that are none; both are ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from oeactl.core.host import Reply
from oeactl.core.quality import Answer
from oeactl.edges.engines.requests import decoded
from oeactl.errors import UsageError, VoidMeasurement

_LOWEST = -1e4  # stands for the -inf that some servers send as null


def native(body: Any) -> Answer:
    """SGLang's ``/generate``: ``[logprob, id, text]`` a token. Raises ValueError."""
    meta = _mapping(_mapping(body).get("meta_info"))
    taken, tops = meta.get("output_token_logprobs"), meta.get("output_top_logprobs")
    if not taken or not tops:
        raise ValueError("no log-probabilities")
    return _answer(
        (str(_at(token, 1)) for token in taken),
        ([(str(_at(one, 1)), _at(one, 0)) for one in top] for top in tops),
    )


def completion(body: Any) -> Answer:
    """OpenAI's ``/v1/completions``, and servers that give chat's form there. Raises ValueError."""
    told = _choice(body)
    if "content" in told:
        return _chat(told)
    if not told.get("tokens") or not told.get("top_logprobs"):
        raise ValueError("no log-probabilities")
    return _answer(
        (str(token) for token in told["tokens"]),
        (list(_mapping(top).items()) for top in told["top_logprobs"]),
    )


def chat(body: Any) -> Answer:
    """OpenAI's ``/v1/chat/completions``. Raises ValueError."""
    return _chat(_choice(body))


def _chat(told: dict[str, Any]) -> Answer:
    content = told.get("content")
    if not content or not all(_mapping(token).get("top_logprobs") for token in content):
        raise ValueError("no log-probabilities")
    return _answer(
        (str(token.get("token")) for token in content),
        ([(str(one.get("token")), one.get("logprob")) for one in token["top_logprobs"]] for token in content),
    )


def _choice(body: Any) -> dict[str, Any]:
    choices = _mapping(body).get("choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError("no choices")
    told = _mapping(choices[0]).get("logprobs")
    if told is None:
        raise ValueError("no log-probabilities")
    return _mapping(told)


def _answer(tokens: Iterable[str], tops: Iterable[Iterable[tuple[str, Any]]]) -> Answer:
    """Texts of two tokens may be equal (bytes that are no text alone); the likelier one stands for both."""
    taken = tuple(tokens)
    found: list[dict[str, float]] = []
    for top in tops:
        odds: dict[str, float] = {}
        for token, value in top:
            odds[token] = max(_log(value), odds.get(token, -math.inf))
        found.append(odds)
    if len(found) != len(taken):
        raise ValueError(f"{len(taken)} tokens and {len(found)} rows of log-probabilities")
    return Answer(tokens=taken, top=tuple(found))


def _log(value: Any) -> float:
    if value is None:
        return _LOWEST
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value > 1e-3:
        raise ValueError(f"{value!r} is no log-probability")
    return max(_LOWEST, min(0.0, float(value)))


def _at(row: Any, index: int) -> Any:
    if not isinstance(row, list) or len(row) <= index:
        raise ValueError(f"{row!r} is no token with its log-probability")
    return row[index]


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not the form that was expected")
    return value


def all_answers(replies: Sequence[Reply], read: Callable[[Any], Answer], where: str) -> tuple[Answer, ...]:
    """Read every reply. Raises VoidMeasurement where one failed, UsageError without log-probabilities."""
    found = []
    for number, reply in enumerate(replies, start=1):
        if reply.status != 200:
            why = reply.error or f"HTTP {reply.status}: {reply.body[:200].decode('utf-8', 'replace')}"
            raise VoidMeasurement(f"answer {number} of {len(replies)} failed: {why}", where=where)
        try:
            found.append(read(decoded(reply)))
        except ValueError as problem:
            raise UsageError(
                f"answer {number} of {len(replies)} cannot be compared: {problem}",
                where=where,
                hint="quality needs a server that returns the log-probabilities of the likeliest tokens",
            ) from problem
    return tuple(found)
