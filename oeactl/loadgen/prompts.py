"""The prompts of one burst, made from a seed where they are sent: the same seed, the same prompts, anywhere.

Owns: random token ids, text put together from short notes, a shared prefix before either, a list of one's
own. Refuses: to know a tokenizer. A text's length is in characters.
"""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # CPython 3.8 cannot subscript it at run time
    Prompt = tuple[Any, int]


class Prompts:
    """``prompts[i]`` is (text, token ids or messages; its output length). No two of a burst begin alike.

    made: ``{"kind": "ids", "length", "low", "high"}`` (ids in [low, high)), ``{"kind": "text", "length",
    "notes", "tasks"}`` or ``{"kind": "listed", "prompts": [[prompt, output length or null], ...]}``; the
    first two may have ``prefix``: how much of the length all share.
    """

    def __init__(self, made: dict[str, Any], *, seed: int, output_len: int) -> None:
        self._made = made
        self._seed = seed
        self._output_len = output_len
        self._shared: Any = None
        if made.get("prefix"):
            rng = Random(f"{seed} prefix")
            self._shared = (
                self._ids(rng, made["prefix"]) if self._are_ids else self._text(rng, made["prefix"])
            )

    @property
    def _are_ids(self) -> bool:
        return bool(self._made["kind"] == "ids")

    def count(self) -> int | None:
        """How many there are; None: as many as wanted."""
        return len(self._made["prompts"]) if self._made["kind"] == "listed" else None

    def __getitem__(self, index: int) -> Prompt:
        if self._made["kind"] == "listed":
            prompt, output_len = self._made["prompts"][index]
            return prompt, output_len or self._output_len
        rng = Random(f"{self._seed} {index}")
        shared = self._shared
        own = self._made["length"] - len(shared or ())
        if self._are_ids:
            return (shared or []) + self._ids(rng, own), self._output_len
        return (shared or "") + self._text(rng, own), self._output_len

    def sha256(self, count: int) -> str:
        """Of the first ``count`` prompts as they are sent."""
        digest = hashlib.sha256()
        for index in range(count):
            digest.update(json.dumps(self[index], separators=(",", ":")).encode())
        return digest.hexdigest()

    def _ids(self, rng: Random, length: int) -> list[int]:
        low, span = self._made["low"], self._made["high"] - self._made["low"]
        draw = rng.random
        return [low + int(draw() * span) for _ in range(length)]

    def _text(self, rng: Random, length: int) -> str:
        """A mark that no other prompt has, notes in an order of its own, and a task at the end."""
        notes, tasks = self._made["notes"], self._made["tasks"]
        task = "\n\n" + tasks[int(rng.random() * len(tasks))]
        parts = [f"({int(rng.random() * (1 << 32)):08x}) "]
        room = length - len(parts[0]) - len(task)
        while room > 0:
            note = notes[int(rng.random() * len(notes))] + "\n"
            parts.append(note[:room])
            room -= len(note)
        whole: str = "".join(parts) + task
        return whole[:length] if length > len(task) else parts[0] + str(task.strip())
