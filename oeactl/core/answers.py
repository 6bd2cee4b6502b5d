"""Are the answers text at all? A look at samples of what was measured, for the gate of that name.

Broken routing has run 55 % faster in public, with all the right lengths and counts; it said one block over
and over. An honest model may repeat itself too once it is made to go on past its natural end, so only the
beginning of an answer is looked at, and only many such answers are a failure.

What no single look can tell, two arms can: answers that are new in another way than the first arm's own are
to one another. Each is compressed with the first arm's other answers for a dictionary; garbage needs more
bytes a letter than they do themselves, one block over and over fewer. AUC is the chance that an answer of
this arm needs more than one of the first: 0.5 where nothing shifted, whatever the texts.

Owns: the thresholds. Refuses: to call an answer wrong, bad, or worse (``oeactl quality`` compares two).
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from oeactl.core.host import Value
from oeactl.core.load import PerRequest

#: Of each answer only so many characters are looked at: past its natural end a model may well repeat itself.
_HEAD = 800
_SHORTEST = 100
#: zlib makes a third to two thirds of prose, code and lists; of a block of a line, over and over, a tenth.
_REPEATED = 0.17
_INVALID = 0.05
#: Of the samples: above this it is garbage, above that worth a word.
_MANY = 0.5
_SOME = 0.1


#: Of like answers the AUC is 0.5 with a standard error of 0.07 at 32 samples and 0.10 at 16. Words in any
#: order come to 0.9 to 1 at 32 samples of 800 letters, random letters to 1 and one block to 0 at a hundred.
_LEAST_SAMPLES = 16
_SHIFTED = 0.4
_MOVED = 0.25
_WINDOW = 32768


class Looked(Value, frozen=True, kw_only=True):
    """What became of it. reason: one line, always."""

    outcome: Literal["pass", "fail", "not_measured"]
    reason: str
    warning: bool = False


def sampled(rows: PerRequest) -> tuple[str, ...]:
    """The answers of one level that were kept, of requests that went well."""
    kept = range(len(rows.generated_texts)) if rows.sampled is None else rows.sampled
    return tuple(rows.generated_texts[index] for index in kept if not rows.errors[index])


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


def shift(first: Sequence[str], now: Sequence[str]) -> Looked:
    """Compare answers with those of the first arm, to prompts of the same kind. O(n) compressions."""
    base, texts = _enough(first), _enough(now)
    if min(len(base), len(texts)) < _LEAST_SAMPLES:
        return Looked(
            outcome="not_measured", reason="too few sampled answers that are long enough to compare"
        )
    auc = _auc(_news(base, base), _news(texts, base))
    way = "newer" if auc > 0.5 else "less new"
    said = f"{max(auc, 1 - auc):.0%} of the pairs have the answer of this arm {way} than one of the first arm"
    if abs(auc - 0.5) > _SHIFTED:
        return Looked(outcome="fail", reason=f"{said}, such as {texts[0][:40]!a}")
    return Looked(outcome="pass", reason=said, warning=abs(auc - 0.5) > _MOVED)


def _enough(texts: Sequence[str]) -> list[str]:
    return [text[:_HEAD] for text in texts if len(text) >= _SHORTEST]


def _news(texts: Sequence[str], base: Sequence[str]) -> list[float]:
    """Bytes a letter that each text needs beyond ``base``; the one of its own place is left out of it."""
    found = []
    for index, text in enumerate(texts):
        known = "\n".join(one for place, one in enumerate(base) if place != index).encode()[-_WINDOW:]
        press = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, known)
        found.append(len(press.compress(text.encode()) + press.flush()) / len(text))
    return found


def _auc(one: Sequence[float], other: Sequence[float]) -> float:
    """The chance that a value of ``other`` is above one of ``one``, ties by half."""
    won = sum((b > a) + 0.5 * (b == a) for a in one for b in other)
    return won / (len(one) * len(other))


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
