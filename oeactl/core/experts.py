"""How many distinct experts a decode step reads, before and after OEA, and what that is worth.

Decode reads the weights of every expert that any token of the batch activates, so the time of an MoE layer
follows the number of *distinct* experts, T, while the batch is small (arXiv:2511.02237, section 3).

Owns: the formulas. Uniform routing is an upper bound of T: real routing is skewed, and then both numbers are
smaller; shares that were recorded beat it. Refuses: to predict throughput where a measured baseline
contradicts the arithmetic, and I/O.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import comb, isfinite
from typing import Annotated

import msgspec

from oeactl.core.host import Value
from oeactl.errors import UsageError

Positive = Annotated[int, msgspec.Meta(ge=1)]
_NEVER = 1e-15
UNIFORM = "uniform routing"
_RANGE = re.compile(r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?")


def expected_distinct(experts: int, per_token: int, batch: int) -> float:
    """E[T] = N(1 - (1 - k/N)^B): distinct experts when each of B tokens draws k of N, all sets alike.

    An expert is missed by one token with probability 1 - k/N, by all B independent ones with that to the B.
    """
    return experts * (1.0 - (1.0 - per_token / experts) ** batch)


def expected_kept(experts: int, top_k: int, k0: int, batch: int) -> float:
    """Distinct experts that OEA leaves of such a batch: E[max(U, k)], U the union of each token's k0.

    Tokens fill up from the baseline set U alone, so nothing is added to it, unless it is smaller than
    ``top_k``: then the engine still names ``top_k`` experts, the surplus with weight 0 (and reads them).
    E[max(U, k)] = E[U] + Σ_{u<k} (k - u)·P(U = u); P by the chain over tokens, where from u experts a
    token adds j with the hypergeometric probability C(N-u, j)·C(u, k0-j) / C(N, k0). Exact.
    """
    if k0 >= top_k:
        return expected_distinct(experts, top_k, batch)
    small = {0: 1.0}
    draws = comb(experts, k0)
    for _ in range(batch):
        small = _one_token_more(small, experts, top_k, k0, draws)
        if sum(small.values()) < _NEVER:
            break
    lacking = sum((top_k - size) * chance for size, chance in small.items())
    return expected_distinct(experts, k0, batch) + lacking


def _one_token_more(
    small: dict[int, float], experts: int, top_k: int, k0: int, draws: int
) -> dict[int, float]:
    """P(U = u) for u < top_k after one token more."""
    after: dict[int, float] = {}
    for size, chance in small.items():
        for added in range(max(0, k0 - size), min(k0, top_k - 1 - size) + 1):
            ways = comb(experts - size, added) * comb(size, k0 - added)
            after[size + added] = after.get(size + added, 0.0) + chance * ways / draws
    return after


def distinct_by_shares(shares: Sequence[float], batch: int, *, of: float = 1.0) -> float:
    """Distinct experts of B independent tokens when expert e is among a token's k with probability shares[e].

    E[T] = Σ_e 1 - (1 - p_e)^B, exact whatever the experts of one token have to do with each other (the
    expectation is linear). of: the part of the k that a token keeps, k0/k; p_e is taken to be that part of
    itself, as if rank and expert were independent, because a recording does not tell the ranks.
    """
    return sum(1.0 - (1.0 - share * of) ** batch for share in shares)


class Hardware(Value, frozen=True, kw_only=True):
    """What a model's experts weigh and what reads them. An expert is ``matrices`` of hidden x expert_hidden.

    bits_per_weight: with the scales of the quantization. bandwidth: of one GPU's memory, by its data sheet.
    The experts lie spread evenly over the GPUs, so that all read at once (tensor or expert parallel).
    """

    name: str
    source: str
    gpus: Positive
    bandwidth_bytes_per_s: float
    experts: Positive
    top_k: Positive
    moe_layers: Positive
    hidden: Positive
    expert_hidden: Positive
    bits_per_weight: float
    matrices: Positive = 3

    @property
    def expert_bytes(self) -> float:
        return self.matrices * self.hidden * self.expert_hidden * self.bits_per_weight / 8

    @property
    def layer_bytes(self) -> float:
        return self.expert_bytes * self.experts

    def moe_s(self, distinct: float) -> float:
        """Seconds that reading T distinct experts in each layer takes, at the full bandwidth of all GPUs."""
        return distinct * self.expert_bytes * self.moe_layers / (self.gpus * self.bandwidth_bytes_per_s)

    def arithmetic(self) -> tuple[str, ...]:
        """How the figures come about, a line a step."""
        total_s = self.moe_s(self.experts)
        return (
            f"one expert   {self.matrices} x {self.hidden} x {self.expert_hidden} weights x "
            f"{self.bits_per_weight:g} bits / 8 = {self.expert_bytes / 1e6:.1f} MB",
            f"one layer    {self.experts} experts x {self.expert_bytes / 1e6:.1f} MB = "
            f"{self.layer_bytes / 1e9:.2f} GB",
            f"all experts  {self.moe_layers} layers x {self.layer_bytes / 1e9:.2f} GB / ({self.gpus} GPUs x "
            f"{self.bandwidth_bytes_per_s / 1e12:.3g} TB/s) = {total_s * 1e3:.1f} ms a step",
        )


class Predicted(Value, frozen=True, kw_only=True):
    """One batch size. distinct: as the engine routes. kept: what OEA leaves, one a k0 asked for.

    moe_ms, moe_ms_kept: time that a step reads experts. tokens_per_s: allowed at the measured baseline;
    the step gets shorter by what is no longer read, and nothing else changes.
    """

    batch: int
    distinct: float
    kept: tuple[float, ...]
    moe_ms: float | None = None
    moe_ms_kept: tuple[float, ...] = ()
    tokens_per_s: tuple[float, ...] = ()


class Prediction(Value, frozen=True, kw_only=True):
    """source: UNIFORM, or the run whose recorded shares were used."""

    experts: int
    top_k: int
    k0: tuple[int, ...]
    source: str
    rows: tuple[Predicted, ...]
    hardware: Hardware | None = None
    baseline_tokens_per_s: float | None = None


def predict(
    *,
    experts: int,
    top_k: int,
    k0: Sequence[int],
    batches: Sequence[int],
    shares: Sequence[Sequence[float]] = (),
    source: str = UNIFORM,
    hardware: Hardware | None = None,
    baseline_tokens_per_s: float | None = None,
) -> Prediction:
    """Predict each batch size. shares: a row a layer, else uniform. Raises UsageError: impossible figures."""
    if not 1 <= top_k <= experts:
        raise UsageError(f"{top_k} of {experts} experts a token cannot be", hint="--experts 256 --top-k 8")
    for value in k0:
        if not 1 <= value <= top_k:
            raise UsageError(f"k0 = {value} is not between 1 and top_k = {top_k}", hint=f"--k0 1..{top_k}")
    if baseline_tokens_per_s is not None and (hardware is None or len(batches) != 1):
        raise UsageError(
            "--baseline is what was measured at one batch size on one hardware",
            hint="--hardware NAME --batch 64 --baseline 1200",
        )
    if baseline_tokens_per_s is not None and not isfinite(baseline_tokens_per_s):
        raise UsageError(f"{baseline_tokens_per_s} is no rate", where="--baseline")
    rows = [_row(experts, top_k, k0, batch, shares) for batch in batches]
    if hardware is not None:
        rows = [_timed(row, hardware, baseline_tokens_per_s) for row in rows]
    return Prediction(
        experts=experts,
        top_k=top_k,
        k0=tuple(k0),
        source=source,
        rows=tuple(rows),
        hardware=hardware,
        baseline_tokens_per_s=baseline_tokens_per_s,
    )


def _row(
    experts: int, top_k: int, k0: Sequence[int], batch: int, shares: Sequence[Sequence[float]]
) -> Predicted:
    if not shares:
        kept = tuple(expected_kept(experts, top_k, value, batch) for value in k0)
        return Predicted(batch=batch, distinct=expected_distinct(experts, top_k, batch), kept=kept)

    def mean(of: float) -> float:
        layers = [max(top_k, distinct_by_shares(layer, batch, of=of)) for layer in shares]
        return sum(layers) / len(layers)

    return Predicted(batch=batch, distinct=mean(1.0), kept=tuple(mean(value / top_k) for value in k0))


def _timed(row: Predicted, hardware: Hardware, baseline: float | None) -> Predicted:
    before = hardware.moe_s(row.distinct)
    after = [hardware.moe_s(kept) for kept in row.kept]
    allowed: tuple[float, ...] = ()
    if baseline is not None:
        step_s = row.batch / baseline
        if before >= step_s:
            raise UsageError(
                f"{baseline:g} tok/s at batch {row.batch} is a step of {step_s * 1e3:.1f} ms, and reading "
                f"{row.distinct:.0f} experts a layer alone takes {before * 1e3:.1f} ms",
                where="--baseline",
                hint="another batch, other hardware, or routing so skewed that --from RUN is needed",
            )
        allowed = tuple(row.batch / (step_s - before + each) for each in after)
    return msgspec.structs.replace(
        row,
        moe_ms=before * 1e3,
        moe_ms_kept=tuple(each * 1e3 for each in after),
        tokens_per_s=allowed,
    )


def parse_counts(text: str, option: str, *, doubling: bool = False) -> tuple[int, ...]:
    """Read ``1..8`` or ``16,64,256``, ascending. doubling: a range goes 1, 2, 4 … and ends at its end.

    Raises UsageError.
    """
    found: set[int] = set()
    for piece in (part.strip() for part in text.split(",")):
        match = _RANGE.fullmatch(piece)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise UsageError(
                f"'{piece}' is neither a number from 1 on nor a range", where=option, hint=f"{option} 1..8"
            )
        found.add(last)
        while first < last:
            found.add(first)
            first = first * 2 if doubling else first + 1
    return tuple(sorted(found))
