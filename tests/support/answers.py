"""Answers made up: alike in kind, and other every time."""

from __future__ import annotations

from random import Random

from oeactl.core.notes import NOTES

_SENTENCES = [one for note in NOTES for one in note.split(". ")]
_SOUNDS = ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "wu")


def prose(count: int, *, seed: int, mixed: bool = False) -> tuple[str, ...]:
    """Sentences of the notes, with names in them that only occur there; mixed: their words in any order."""
    rng = Random(seed)
    return tuple(_one(rng, mixed=mixed)[:800] for _ in range(count))


def _one(rng: Random, *, mixed: bool) -> str:
    words = " ".join(rng.choices(_SENTENCES, k=12)).split()
    words = ["".join(rng.choices(_SOUNDS, k=3)) if rng.random() < 0.2 else word for word in words]
    if mixed:
        rng.shuffle(words)
    return " ".join(words)
