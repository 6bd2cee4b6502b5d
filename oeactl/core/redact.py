"""Keeping secrets out of what is shown or kept: server arguments, launch commands, log lines.

Owns: which names hold secrets and what replaces their values. Refuses: to touch what only looks alike
(tokenizer_path, max_total_tokens, bos_token_id stay).
"""

from __future__ import annotations

import re
from typing import Any

REDACTED = "[redacted]"

#: Not "tokens": an engine counts them (--max-total-tokens).
_SECRET_WORDS = frozenset(
    {"key", "keys", "apikey", "token", "secret", "secrets", "password", "passwd", "passphrase",
     "credential", "credentials", "authorization"}
)  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NAME = r"[A-Za-z0-9_-]*(?:key|token|secret|password|passwd|passphrase|credentials?)"
_VALUE = r"\"[^\"]*\"|'[^']*'|[^\s'\",;)}\]]+"
_IN_TEXT = (
    # --api-key VALUE, --hf-token=VALUE
    re.compile(rf"(--{_NAME}(?:\s+|=))({_VALUE})", re.IGNORECASE),
    # 'api_key': 'VALUE', "hf_token": "VALUE", api_key='VALUE'; never a number or None
    re.compile(rf"(['\"]?\b{_NAME}['\"]?\s*[:=]\s*)('[^']*'|\"[^\"]*\")", re.IGNORECASE),
    # HF_TOKEN=VALUE
    re.compile(r"(\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)=)(\S+)"),
    re.compile(r"(\bBearer\s+)(\S+)", re.IGNORECASE),
)


def is_secret_name(name: str) -> bool:
    """Whether a field, flag or variable of this name holds a secret: one of its words says so."""
    return any(word.lower() in _SECRET_WORDS for word in _WORDS.findall(name))


def redact(value: Any) -> Any:
    """``value`` (JSON-like) with the text below secret names replaced, and secrets within other texts.

    Numbers, booleans and None are never secrets: a count of tokens stays a count.
    """
    if isinstance(value, dict):
        return {
            name: _hidden(item) if isinstance(name, str) and is_secret_name(name) else redact(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return (
            type(value)(_argv(value))
            if all(isinstance(item, str) for item in value)
            else [*map(redact, value)]
        )
    return redact_text(value) if isinstance(value, str) else value


def redact_text(text: str) -> str:
    """A command line or a log line with the values of secret flags, variables and fields replaced."""
    for pattern in _IN_TEXT:
        text = pattern.sub(lambda match: match[1] + REDACTED, text)
    return text


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return REDACTED if value else value
    if isinstance(value, dict):
        return {name: _hidden(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return value


def _argv(words: list[str] | tuple[str, ...]) -> list[str]:
    """argv: the word after a secret flag is its value."""
    kept = []
    for before, word in zip(("", *words), words, strict=False):
        secret = before.startswith("-") and "=" not in before and is_secret_name(before)
        kept.append(REDACTED if secret and not word.startswith("-") else redact_text(word))
    return kept
