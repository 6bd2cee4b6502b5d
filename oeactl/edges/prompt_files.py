"""A user's own prompts: JSON lines, or a file in the form of ShareGPT.

Owns: reading them. A line is ``{"prompt": text or token ids}`` or ``{"messages": [...]}``, with an
``output_len`` if it has its own; ShareGPT is ``{"conversations": [{"from", "value"}, ...]}``, in a list or a
line each, of which the first human turn is taken. Refuses: anything else, by file and line.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from oeactl.core.host import Value
from oeactl.errors import UsageError


class PromptFile(Value, frozen=True, kw_only=True):
    """name: the file's own; prompts: each with its output length, None for the level's."""

    name: str
    sha256: str
    prompts: tuple[tuple[Any, int | None], ...]


def read_prompts(path: Path) -> PromptFile:
    """Read all prompts of ``path``. Raises UsageError."""
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as problem:
        raise UsageError(f"cannot be read: {problem.strerror}", where=str(path)) from problem
    except UnicodeDecodeError as problem:
        raise UsageError(f"not UTF-8: {problem}", where=str(path)) from problem
    prompts = _list(text, path) if text.lstrip().startswith("[") else _lines(text, path)
    if not prompts:
        raise UsageError("no prompt is in it", where=str(path))
    return PromptFile(name=path.name, sha256=hashlib.sha256(data).hexdigest(), prompts=tuple(prompts))


def _list(text: str, path: Path) -> list[tuple[Any, int | None]]:
    try:
        entries = json.loads(text)
    except ValueError as problem:
        raise UsageError(f"not JSON: {problem}", where=str(path)) from problem
    read = (_entry(entry, f"{path}: entry {number}") for number, entry in enumerate(entries, start=1))
    return [prompt for prompt in read if prompt is not None]


def _lines(text: str, path: Path) -> list[tuple[Any, int | None]]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError as problem:
            raise UsageError(f"not JSON: {problem}", where=f"{path}:{number}") from problem
        prompt = _entry(entry, f"{path}:{number}")
        if prompt is not None:
            found.append(prompt)
    return found


def _entry(entry: Any, where: str) -> tuple[Any, int | None] | None:
    """One entry of either form; None of a conversation in which no person speaks."""
    if not isinstance(entry, dict) or not ("conversations" in entry or "conversation" in entry):
        return _prompt(entry, where)
    turns = entry.get("conversations", entry.get("conversation"))
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise UsageError("its conversation is no list of turns", where=where)
    for turn in turns:
        said = turn.get("value")
        if turn.get("from") in ("human", "user") and isinstance(said, str) and said.strip():
            return said, None
    return None


def _prompt(entry: Any, where: str) -> tuple[Any, int | None]:
    hint = 'a line is {"prompt": "..."} or {"messages": [...]}, with "output_len": 128 if it has its own'
    if not isinstance(entry, dict):
        raise UsageError("not an object", where=where, hint=hint)
    length = entry.get("output_len", entry.get("max_tokens"))
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 1):
        raise UsageError(f"output_len {length!r} is not a number of tokens", where=where, hint=hint)
    prompt = entry.get("prompt")
    if isinstance(prompt, str) and prompt:
        return prompt, length
    ids = prompt if isinstance(prompt, list) else ()
    if ids and all(isinstance(one, int) and one >= 0 for one in ids):
        return prompt, length
    messages = entry.get("messages")
    if isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages):
        return messages, length
    raise UsageError("no prompt is in it", where=where, hint=hint)
