"""Do two builds answer alike? The same prompts, greedily, several times, alone and under load.

Engines are not deterministic: batch size and neighbours move last bits, and greedy decoding turns a moved
bit into another sentence. So a build is first compared with *itself*, pass against pass: that is the floor.
Another build changes answers only where its answers lie further from the first one's than those do from each
other.

Owns: the distances, the test, the verdict. Refuses: to say that an answer is worse (lm-eval and the like do),
and to call what it could not tell apart "the same".

The test, a condition (alone, under load) and a distance (tokens, probabilities). Prompt i has the answers of
P passes of one build and Q of the other. Its statistic is the energy distance between the two groups, the
mean distance across minus half the sum of the mean distances within (Szekely and Rizzo, 2013); the sum over
prompts is compared with what it is when, within each prompt, the P + Q answers are dealt anew into P and Q,
9,999 times, which is exact if the builds answer alike (Phipson and Smyth, 2010: p = (1 + as large) / (1 +
deals)). Because something may move all prompts of one pass together, passes must agree as well: each pass of
the other build must lie further from each pass of the first one than any two of those lie apart.

A restart may change answers by itself (autotuned kernels). Where the second build is of another server start,
what is dealt is whole starts, and one start of the first build cannot tell a change from a restart.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from math import comb, exp, log
from statistics import median
from typing import Literal

import msgspec

from oeactl.core.host import Value

Condition = Literal["alone", "under_load"]
Verdict = Literal["changes answers", "shifts probabilities", "within the floor", "differs, or a restart does"]

CONDITIONS: tuple[Condition, ...] = ("alone", "under_load")
#: Of all the tests of a comparison together (Bonferroni): a false alarm in a thousand comparisons.
ALPHA = 0.001
_DEALS = 9999
_SEED = 20251102
_TINY = 1e-12


class Answer(Value, frozen=True, kw_only=True):
    """What was generated. tokens: ids or texts. top: a position, token -> natural log-probability, the
    likeliest few; one a token.
    """

    tokens: tuple[str, ...]
    top: tuple[dict[str, float], ...]


class Pass(Value, frozen=True, kw_only=True):
    """All prompts once. order: in which they were sent; answers: in the order of the prompts."""

    condition: Condition
    order: tuple[int, ...]
    answers: tuple[Answer, ...]


class Pair(Value, frozen=True, kw_only=True):
    """Two answers to one prompt. first_divergence: the first position that differs, None where none does.

    equal_tokens: share of positions with the same token, of the longer answer. kl: mean of KL(one || other)
    over the positions whose context is the same, the first that differs included; other_kl: the other way.
    """

    first_divergence: int | None
    equal_tokens: float
    kl: float
    other_kl: float


class Agreement(Value, frozen=True, kw_only=True):
    """Pairs of answers to one prompt, averaged. first_divergence: the median of those that diverge.

    kl: nats; from the first group to the second, which within one build means either way.
    """

    pairs: int
    equal_answers: float
    equal_tokens: float
    first_divergence: float | None
    kl: float


class Judged(Value, frozen=True, kw_only=True):
    """One test. floor: the largest mean distance of two passes of the first build; nearest: the smallest of
    a pass of the first and one of the second. apart: p is below its share of alpha, and nearest > floor.
    """

    p: float
    floor: float
    nearest: float
    apart: bool


class ConditionCompared(Value, frozen=True, kw_only=True):
    """One condition. floor: first build against itself; itself: second against itself; against: across."""

    condition: Condition
    prompts: int
    floor: Agreement
    itself: Agreement
    against: Agreement
    tokens: Judged
    probabilities: Judged


def pair(one: Answer, other: Answer) -> Pair:
    """Set two answers side by side."""
    length = max(len(one.tokens), len(other.tokens))
    same = [a == b for a, b in zip(one.tokens, other.tokens, strict=False)]
    first = same.index(False) if False in same else (len(same) if len(same) < length else None)
    shared = list(zip(one.top, other.top, strict=False))[: length if first is None else first + 1]
    return Pair(
        first_divergence=first,
        equal_tokens=sum(same) / length if length else 1.0,
        kl=_mean([divergence(a, b) for a, b in shared]),
        other_kl=_mean([divergence(b, a) for a, b in shared]),
    )


def divergence(one: dict[str, float], other: dict[str, float]) -> float:
    """KL(one || other) in nats, at least, by the log-probabilities that were returned.

    Outcomes: each token that both name; those that only ``one`` names, together; everything else. The
    second has in ``other`` at most what is left there, and a token at most the least that was returned.
    Within that it is taken as close to ``one`` as can be. Joining outcomes never makes KL larger.
    """
    if one == other:
        return 0.0
    shared = one.keys() & other.keys()
    p, q = [exp(one[token]) for token in shared], [exp(other[token]) for token in shared]
    p_rest, q_rest = max(0.0, 1.0 - sum(p)), max(0.0, 1.0 - sum(q))
    alone = [exp(value) for token, value in one.items() if token not in shared]
    if alone and p_rest > _TINY:
        returned = [exp(value) for value in other.values()]
        most = min(len(alone) * min(returned, default=1.0), max(0.0, 1.0 - sum(returned)))
        p.append(min(sum(alone), p_rest))
        q.append(min(most, q_rest * p[-1] / p_rest))
        p_rest, q_rest = p_rest - p[-1], q_rest - q[-1]
    p.append(p_rest)
    q.append(q_rest)
    return max(0.0, sum(a * log(a / max(b, _TINY)) for a, b in zip(p, q, strict=True) if a > _TINY))


def compare(
    baseline: Sequence[Sequence[Pass]], candidate: Sequence[Pass], *, restarted: bool = False
) -> tuple[Verdict, tuple[ConditionCompared, ...]]:
    """Judge ``candidate`` against ``baseline``: the passes of the first build, a row a server start.

    restarted: the candidate is of a start of its own. Raises ValueError: under two passes of a condition.
    """
    by_start = restarted and len(baseline) > 1
    made = tuple(_condition(condition, baseline, candidate, by_start=by_start) for condition in CONDITIONS)
    apart = any(one.tokens.apart or one.probabilities.apart for one in made)
    if apart and restarted and not by_start:
        return "differs, or a restart does", made
    if any(one.tokens.apart for one in made):
        return "changes answers", made
    if any(one.probabilities.apart for one in made):
        return "shifts probabilities", made
    return "within the floor", made


def floor(passes: Sequence[Pass], condition: Condition) -> Agreement:
    """How far one build agrees with itself. Raises ValueError: fewer than two passes."""
    groups = [one.answers for one in passes if one.condition == condition]
    if len(groups) < 2:
        raise ValueError(f"fewer than two passes {condition.replace('_', ' ')}")
    return _agreement([pair(a[i], b[i]) for a, b in combinations(groups, 2) for i in range(len(a))])


def _condition(
    condition: Condition, baseline: Sequence[Sequence[Pass]], candidate: Sequence[Pass], *, by_start: bool
) -> ConditionCompared:
    rows = [[one.answers for one in start if one.condition == condition] for start in (*baseline, candidate)]
    ours, theirs = [one for row in rows[:-1] for one in row], rows[-1]
    if min(len(ours), len(theirs)) < 2:
        raise ValueError(f"fewer than two passes {condition.replace('_', ' ')}")
    groups, mine = [*ours, *theirs], len(ours)
    starts = [at for at, row in enumerate(rows) for _ in row]
    units = starts if by_start else list(range(len(groups)))
    prompts = len(ours[0])
    pairs = {
        (a, b): tuple(pair(groups[a][i], groups[b][i]) for i in range(prompts))
        for a, b in combinations(range(len(groups)), 2)
    }
    tokens = {key: [1.0 - one.equal_tokens for one in row] for key, row in pairs.items()}
    odds = {key: [(one.kl + one.other_kl) / 2 for one in row] for key, row in pairs.items()}

    def those(kind: str) -> list[Pair]:
        return [one for key, row in pairs.items() if _kind(key, mine) == kind for one in row]

    return ConditionCompared(
        condition=condition,
        prompts=prompts,
        floor=_agreement(those("ours")),
        itself=_agreement(those("theirs")),
        against=_agreement(those("across"), directed=True),
        tokens=_test(tokens, mine, units),
        probabilities=_test(odds, mine, units),
    )


def _kind(key: tuple[int, int], mine: int) -> str:
    return "ours" if key[1] < mine else ("theirs" if key[0] >= mine else "across")


def _agreement(pairs: Sequence[Pair], *, directed: bool = False) -> Agreement:
    diverging = [one.first_divergence for one in pairs if one.first_divergence is not None]
    return Agreement(
        pairs=len(pairs),
        equal_answers=1.0 - len(diverging) / len(pairs),
        equal_tokens=_mean([one.equal_tokens for one in pairs]),
        first_divergence=float(median(diverging)) if diverging else None,
        kl=_mean([one.kl if directed else (one.kl + one.other_kl) / 2 for one in pairs]),
    )


def _test(distances: dict[tuple[int, int], list[float]], mine: int, units: Sequence[int]) -> Judged:
    """distances: pair of passes -> distance a prompt; the first ``mine`` passes are the first build's.

    units: of each pass, what is dealt with it: a number of its own, or that of its server start.
    """
    import numpy as np

    names = sorted(set(units))
    deals = [_deal(units, taken) for taken in combinations(names, len(set(units[:mine])))]
    prompts = len(next(iter(distances.values())))
    energies = np.array(
        [[_energy(distances, i, first, second) for first, second in deals] for i in range(prompts)]
    )
    seen = energies[:, 0].sum()  # the first deal is the real one
    drawn = np.random.default_rng(_SEED).integers(len(deals), size=(_DEALS, prompts))
    as_large = int((energies[np.arange(prompts), drawn].sum(axis=1) >= seen - 1e-9).sum())
    means = {key: _mean(row) for key, row in distances.items()}
    largest = max(value for key, value in means.items() if _kind(key, mine) == "ours")
    nearest = min(value for key, value in means.items() if _kind(key, mine) == "across")
    p = (1 + as_large) / (1 + _DEALS)
    share = ALPHA / (2 * len(CONDITIONS))
    return Judged(p=p, floor=largest, nearest=nearest, apart=p < share and nearest > largest + 1e-9)


def _deal(units: Sequence[int], taken: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The passes that are taken for the first build's, and the others."""
    first = tuple(at for at, unit in enumerate(units) if unit in taken)
    return first, tuple(at for at, unit in enumerate(units) if unit not in taken)


def _energy(
    distances: dict[tuple[int, int], list[float]], prompt: int, first: Sequence[int], second: Sequence[int]
) -> float:
    across = [distances[min(a, b), max(a, b)][prompt] for a in first for b in second]
    within = [
        _mean([distances[key][prompt] for key in combinations(sorted(group), 2)]) for group in (first, second)
    ]
    return _mean(across) - sum(within) / 2


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def order_of(prompts: int, number: int) -> tuple[int, ...]:
    """The order of pass ``number`` under load: every pass gives each prompt other neighbours."""
    order = list(range(prompts))
    random.Random(_SEED + number).shuffle(order)
    return tuple(order)


def least_changed(ours: int, theirs: int) -> int:
    """How many answers must change, on a build that repeats itself exactly, for the change to be told.

    ours, theirs: what is dealt, passes or starts of each build; not one of each. A prompt that changed for
    good is as extreme as it is in its real deal and, of two equal sides, in the mirror image only.
    """
    chance = (2 if ours == theirs else 1) / comb(ours + theirs, ours)
    share = ALPHA / (2 * len(CONDITIONS))
    count = 1
    while chance**count >= share:
        count += 1
    return count


def encode(passes: Sequence[Pass]) -> bytes:
    """Passes as compact JSON, in one order of keys."""
    return msgspec.json.encode(list(passes), order="deterministic")


def decode(data: bytes) -> tuple[Pass, ...]:
    """Read passes back. Raises ValueError."""
    return msgspec.json.decode(data, type=tuple[Pass, ...])
