"""Are the answers text at all? A look at samples of what was measured, for the gate of that name.

Broken routing has run 55 % faster in public, with all the right lengths and counts; it said one block over
and over. An honest model may repeat itself too once it is made to go on past its natural end, so only the
beginning of an answer is looked at, and only many such answers are a failure.

Owns: the thresholds. Refuses: to call an answer wrong, bad, or worse (``oeactl quality`` compares two).
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from oeactl.core.host import Value

#: Of each answer only so many characters are looked at: past its natural end a model may well repeat itself.
_HEAD = 800
_SHORTEST = 100
#: zlib makes a third to two thirds of prose, code and lists; of a block of a line, over and over, a tenth.
_REPEATED = 0.17
_INVALID = 0.05
#: Of the samples: above this it is garbage, above that worth a word.
_MANY = 0.5
_SOME = 0.1


class Looked(Value, frozen=True, kw_only=True):
    """What became of it. reason: one line, always."""

    outcome: Literal["pass", "fail", "not_measured"]
    reason: str
    warning: bool = False


def look(texts: Sequence[str]) -> Looked:
    """Look at answers to prompts that were all different. An empty text among them counts as invalid."""
    heads = [text[:_HEAD] for text in texts]
    if not any(len(head) >= _SHORTEST for head in heads):
        if heads and not any(heads):
            return Looked(outcome="fail", reason=f"none of {len(heads)} sampled answers has any text")
        return Looked(outcome="not_measured", reason="the sampled answers are too short to tell")
    faults = {
        "repeat one block": sum(_repeats(head) for head in heads),
        "are not valid text": sum(_invalid(head) for head in heads),
        "are one and the same": _same(heads),
    }
    worst, count = max(faults.items(), key=lambda fault: fault[1])
    share = count / len(heads)
    said = f"{count} of {len(heads)} sampled answers {worst}"
    if share > _MANY:
        first = next((head for head in heads if _repeats(head) or _invalid(head)), heads[0])
        return Looked(outcome="fail", reason=f"{said}, such as {first[:40]!a}")
    if share > _SOME:
        return Looked(outcome="pass", reason=said, warning=True)
    return Looked(outcome="pass", reason=f"{len(heads)} sampled answers look like text")


def compressed(text: str) -> float:
    """How much of it zlib leaves: 0 is one letter for ever, 1 is noise."""
    data = text.encode()
    return len(zlib.compress(data, 9)) / len(data) if data else 1.0


def _repeats(head: str) -> bool:
    return len(head) >= _SHORTEST and compressed(head) < _REPEATED


def _invalid(head: str) -> bool:
    """Empty, or full of replacement, control, unassigned and private characters."""
    if not head:
        return True
    odd = sum(_is_odd(letter) for letter in head)
    return odd / len(head) > _INVALID


def _is_odd(letter: str) -> bool:
    if letter in "\n\r\t":
        return False
    return letter == "�" or unicodedata.category(letter) in ("Cc", "Cn", "Co", "Cs")


def _same(heads: Sequence[str]) -> int:
    """How many share their beginning with another, where it is long enough to mean something."""
    counts = Counter(head for head in heads if len(head) >= _SHORTEST)
    most = max(counts.values(), default=0)
    return most if most > 1 else 0
