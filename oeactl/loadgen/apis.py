"""What the events of a stream mean: tokens and when they came, text, errors, the server's own counts.

Owns: OpenAI's completions and chat completions, SGLang's native ``/generate``; the bodies that ask for them.
Refuses: to count tokens itself. A chunk is not a token; where the server gives no count there is none.
"""

from __future__ import annotations

import json
from typing import Any

LONGEST_TEXT = 1 << 20
DELTA_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "function_call", "refusal")


class Stream:
    """One answer as it unfolds. times, counts: when something new was seen, and how much of it.

    tokens, prompt_tokens, cached_tokens, verify_steps: the server's counts, None until it gives one.
    done: the stream said that it is over; finish: why, by the server; error: what went wrong, else empty.
    keep_text: whether the text is wanted.
    """

    path = ""

    def __init__(self, *, keep_text: bool = True) -> None:
        self._keep_text = keep_text
        self.times: list[float] = []
        self.counts: list[int] = []
        self.tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.verify_steps: int | None = None
        self.done = False
        self.finish: str | None = None
        self.error = ""
        self._texts: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def take(self, at: float, event: bytes, is_error: bool = False) -> None:
        """One event's data. The first error stays."""
        if event == b"[DONE]":
            self.done = True
            return
        try:
            body = _object(event)
        except ValueError:
            self._wrong(f"an event is not JSON: {event[:80]!r}")
            return
        if not isinstance(body, dict):
            self._wrong(f"an event is not an object: {event[:80]!r}")
        elif is_error or body.get("error") or body.get("object") == "error":
            self._wrong(_message(body))
        else:
            try:
                self._read(at, body)
            except (AttributeError, TypeError):
                self._wrong(f"an event is malformed: {event[:80]!r}")

    def close(self) -> None:
        """The body ended: what is missing is an error."""
        if self.error:
            return
        if not self.done and self.finish is None:
            self.error = "the stream ended before it was done"
        elif self.tokens is None:
            self.error = "the server gave no token count (usage)"
        elif not self.times:
            self.error = "no token came" if not self.tokens else f"no text came for {self.tokens} tokens"

    def _read(self, at: float, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def _wrong(self, what: str) -> None:
        self.error = self.error or what

    def _seen(self, at: float, count: int) -> None:
        """``count`` new ones. What came with one look came at one time."""
        if self.times and self.times[-1] == at:
            self.counts[-1] += count
        else:
            self.times.append(at)
            self.counts.append(count)

    def _keep(self, text: str) -> None:
        if self._keep_text and self._length < LONGEST_TEXT:
            self._texts.append(text)
            self._length += len(text)

    def _count(self, usage: Any) -> None:
        """OpenAI's ``usage``; null while the stream goes on."""
        if not isinstance(usage, dict):
            return
        self.tokens = _number(usage.get("completion_tokens"), self.tokens)
        self.prompt_tokens = _number(usage.get("prompt_tokens"), self.prompt_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self.cached_tokens = _number(details.get("cached_tokens"), self.cached_tokens)


class Generate(Stream):
    """SGLang's native stream: text cumulative or piece by piece, counts in every event."""

    path = "/generate"

    def _read(self, at: float, body: dict[str, Any]) -> None:
        meta = body.get("meta_info")
        if not isinstance(meta, dict):
            self._wrong("an event has no meta_info")
            return
        count = meta.get("completion_tokens")
        if isinstance(count, int):
            if count > (self.tokens or 0):
                self._seen(at, count - (self.tokens or 0))
            self.tokens = count
        if self._keep_text:
            self._grow(body.get("text"))
        reason = meta.get("finish_reason")
        if reason:
            self._finished(meta, reason)

    def _finished(self, meta: dict[str, Any], reason: Any) -> None:
        """The last event: its other counts, and whether it ended well."""
        self.prompt_tokens = _number(meta.get("prompt_tokens"), self.prompt_tokens)
        self.cached_tokens = _number(meta.get("cached_tokens"), self.cached_tokens)
        self.verify_steps = _number(meta.get("spec_verify_ct"), self.verify_steps)
        if isinstance(reason, dict) and reason.get("type") == "abort":
            self._wrong(f"aborted: {str(reason.get('message', ''))[:300]}")
        else:
            self.finish = str(reason.get("type") if isinstance(reason, dict) else reason)

    def _grow(self, text: Any) -> None:
        if not isinstance(text, str) or not text:
            return
        before = self._texts[0] if len(self._texts) == 1 else ""
        if before and text.startswith(before):
            self._texts, self._length = [text[:LONGEST_TEXT]], len(text)
        else:
            self._keep(text)


class Completions(Stream):
    """OpenAI's completions: pieces of text, the count at the end."""

    path = "/v1/completions"

    def _read(self, at: float, body: dict[str, Any]) -> None:
        if body.get("usage"):
            self._count(body["usage"])
        for choice in body.get("choices") or ():
            text = choice.get("text")
            if text:
                self._seen(at, 1)
                self._keep(text)
            self._finished(choice)

    def _finished(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if reason in ("abort", "error"):
            self._wrong(f"the server ended it: {reason}")
        elif reason:
            self.finish = str(reason)


class Chat(Completions):
    """OpenAI's chat: a delta that says only the role is no token; reasoning and tool calls are."""

    path = "/v1/chat/completions"

    def _read(self, at: float, body: dict[str, Any]) -> None:
        self._count(body.get("usage"))
        for choice in body.get("choices") or ():
            delta = choice.get("delta") or {}
            said = [delta[name] for name in DELTA_FIELDS if delta.get(name)]
            if said:
                self._seen(at, 1)
                self._keep("".join(piece for piece in said if isinstance(piece, str)))
            self._finished(choice)


APIS: dict[str, type[Stream]] = {"generate": Generate, "completions": Completions, "chat": Chat}


def body_of(order: dict[str, Any], prompt: Any, output_len: int) -> bytes:
    """The request of one prompt: a text, a list of token ids, or (chat alone) a list of messages."""
    api, ignore_eos = order["api"], order["ignore_eos"]
    if api == "generate":
        sampling: dict[str, Any] = {"max_new_tokens": output_len, "temperature": 0}
        if ignore_eos:
            sampling["ignore_eos"] = True
        key = "text" if isinstance(prompt, str) else "input_ids"
        return json.dumps({key: prompt, "sampling_params": sampling, "stream": True}).encode()
    body: dict[str, Any] = {
        "model": order["model"],
        "max_tokens": output_len,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if ignore_eos:
        body["ignore_eos"] = True
    if api == "chat":
        body["messages"] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    else:
        body["prompt"] = prompt
    return json.dumps(body).encode()


_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # undocumented, and there since 2.7


def _object(event: bytes) -> Any:
    """The JSON of an event; ``json.loads`` without what it does besides, where that is not needed."""
    text = event.decode()
    try:
        body, end = _scan(text, 0)
    except StopIteration:
        return json.loads(text)
    return body if end == len(text) else json.loads(text)


def _number(value: Any, before: int | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else before


def _message(body: dict[str, Any]) -> str:
    error = body.get("error", body)
    if isinstance(error, dict):
        error = error.get("message") or error.get("text") or error
    return str(error)[:600] or "an error event"
