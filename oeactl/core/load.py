"""What is asked of a server under load, and what came back: levels, sweeps, measurements.

Owns: the defaults of a sweep, the text form of ``--concurrency``, the seeds. Refuses: to send anything, and
to judge (gates.py). Lengths are tokens a request; a level is a closed loop of ``concurrency`` in flight.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from oeactl.core.host import Value
from oeactl.errors import UsageError

CONCURRENCIES = (1, 4, 8, 16, 32, 64, 128)
INPUT_LEN = 512
OUTPUT_LEN = 256
SEED = 42

_REQUESTS_PER_STREAM = 10
_REQUESTS_AT_LEAST = 16
_WARMUP_PER_STREAM = 2
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})\.\.([0-9]{1,9})(?:([x+])([0-9]{1,9}))?")
_LEVELS_AT_MOST = 64
_DECIMAL = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_ARRIVALS_S = 30.0
MOST_IN_FLIGHT = 1024

#: random-ids: of exactly the length asked; the others are text, whose length only the server can count.
#: other: what another client sent, which nobody here knows.
DatasetKind = Literal["random-ids", "natural", "shared-prefix", "file", "other"]

Positive = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Rate = Annotated[float, msgspec.Meta(gt=0)]


class Point(Value, frozen=True, kw_only=True):
    """One load level. The two seeds name prompts that no other level of the sweep shares.

    rate: arrivals a second, at random times (Poisson), never more than ``concurrency`` in flight; None: a
    closed loop. duration_s: no request begins after so long, and ``requests`` is no bound then.
    warmup_requests, seed, warmup_seed: None of a level that was imported.
    """

    concurrency: Positive
    input_len: Positive
    output_len: Positive
    requests: Positive
    warmup_requests: Positive | None
    seed: Count | None
    warmup_seed: Count | None
    rate: Rate | None = None
    duration_s: Rate | None = None


class Targets(Value, frozen=True, kw_only=True):
    """What a request may take, in milliseconds; None: no matter."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


class Cell(Value, frozen=True, kw_only=True):
    """A cell of a matrix that was left out. limit: what has no room for it; the tokens it needs and has."""

    concurrency: Positive
    input_len: Positive
    output_len: Positive
    limit: str
    needed_tokens: int
    available_tokens: int

    @property
    def described(self) -> str:
        """'context 32768 at 64: needs 2,113,536 tokens, the KV cache has 480,000 (1,633,536 short)'."""
        short = self.needed_tokens - self.available_tokens
        return (
            f"context {self.input_len} at {self.concurrency}: needs {self.needed_tokens:,} tokens, "
            f"{self.limit} has {self.available_tokens:,} ({short:,} short)"
        )


class Sweep(Value, frozen=True, kw_only=True):
    """Levels in the order in which they are measured; the order is a choice, so it is recorded.

    seed: what all the points' seeds were drawn from. dataset: how the client makes its prompts.
    dataset_file, dataset_sha256: name and content of the file they are in, for dataset ``file``.
    targets: for goodput. until_saturated: ends before the last level where more streams bring nothing.
    matrix: the levels at several contexts; skipped: those of them that the server has no room for.
    """

    points: tuple[Point, ...]
    seed: Count | None
    dataset: DatasetKind = "random-ids"
    dataset_file: str | None = None
    dataset_sha256: str | None = None
    targets: Targets | None = None
    until_saturated: bool = False
    matrix: bool = False
    skipped: tuple[Cell, ...] = ()


class Distribution(Value, frozen=True, kw_only=True):
    """Milliseconds over requests (for itl: over gaps). A percentile the client does not report is None."""

    mean: float
    median: float
    std: float
    p99: float
    p90: float | None = None
    p95: float | None = None


class Measurement(Value, frozen=True, kw_only=True):
    """What one measured level came to, by the driver's own account; None is not measured, never 0.

    Tokens are the server's count, except input_tokens with a driver that only knows what it sent.
    output_tokens_per_s: output tokens of completed requests over duration_s. achieved_concurrency: the
    mean number in flight over duration_s. tpot_ms is None where the level has one token a request; e2e_ms
    where an imported file has none.
    """

    requested: int
    completed: int
    failed: int
    input_tokens: int
    output_tokens: int
    output_tokens_retokenized: int | None
    cached_input_tokens: int | None
    duration_s: float
    requests_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float
    achieved_concurrency: float | None
    accept_length: float | None
    e2e_ms: Distribution | None
    ttft_ms: Distribution
    tpot_ms: Distribution | None
    itl_ms: Distribution | None


class ClientLoad(Value, frozen=True, kw_only=True):
    """How the client itself fared. busiest_core: CPU over wall time of its busiest process.

    lag_mean_ms, lag_p99_ms, lag_max_ms: how late it may have seen an event, over events; None where the
    client does not tell.
    """

    processes: Positive
    cpu_s: float
    busiest_core: float
    lag_mean_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None


class PerRequest(Value, frozen=True, kw_only=True):
    """Raw rows of one level, all of one length, in the order sent. Times in seconds.

    errors: empty text where there was none. itls_s: one tuple a request. sampled: whose generated_texts were
    kept, None for all. asked_lens: output lengths where they differ. sent_s: after the first one; e2es_s: to
    the last token. None: the driver cannot tell.
    """

    input_lens: tuple[int, ...]
    output_lens: tuple[int, ...]
    ttfts_s: tuple[float, ...]
    itls_s: tuple[tuple[float, ...], ...]
    errors: tuple[str, ...]
    generated_texts: tuple[str, ...]
    cached_tokens: tuple[int, ...] | None = None
    sampled: tuple[int, ...] | None = None
    asked_lens: tuple[int, ...] | None = None
    sent_s: tuple[float, ...] | None = None
    e2es_s: tuple[float, ...] | None = None


def parse_concurrency(text: str) -> tuple[int, ...]:
    """Read ``64,128,256`` or ``8..512x2`` or ``8..64+8``: distinct positive integers in the order wanted.

    A range has its first and, where a step meets it, its last level; without a step it doubles. Raises
    UsageError.
    """
    levels: list[int] = []
    for piece in (part.strip() for part in text.split(",")):
        found = _RANGE.fullmatch(piece)
        for level in _ranged(piece, found) if found else (_single(piece),):
            if level in levels:
                raise _bad_levels(f"level {level} is given twice")
            levels.append(level)
    if len(levels) > _LEVELS_AT_MOST:
        raise _bad_levels(f"{len(levels)} levels are more than a sweep takes, {_LEVELS_AT_MOST}")
    return tuple(levels)


def _single(piece: str) -> int:
    if not _NUMBER.fullmatch(piece):
        raise _bad_levels(f"'{piece}' is not a level of concurrency" if piece else "an empty level")
    if int(piece) == 0:
        raise _bad_levels("a concurrency of 0 sends nothing")
    return int(piece)


def _ranged(piece: str, found: re.Match[str]) -> tuple[int, ...]:
    first, last, step = int(found[1]), int(found[2]), int(found[4] or 2)
    grows = found[3] != "+"
    if first == 0:
        raise _bad_levels("a concurrency of 0 sends nothing")
    if last < first or step < (2 if grows else 1):
        raise _bad_levels(f"'{piece}' goes nowhere")
    levels: list[int] = []
    level = first
    while level <= last and len(levels) <= _LEVELS_AT_MOST:
        levels.append(level)
        level = level * step if grows else level + step
    return tuple(levels)


def make_point(
    concurrency: int, *, input_len: int, output_len: int, seed: int, requests: int | None = None
) -> Point:
    """Describe one level: 10 requests a stream (at least 16) after a warm-up of 2 a stream.

    The seeds depend on the level and not on its neighbours, so the same level of two runs with the same
    seed has the same prompts. Raises UsageError where the load could not reach ``concurrency``.
    """
    if concurrency < 1 or input_len < 1 or output_len < 1:
        raise UsageError("concurrency, input and output length must each be at least 1")
    wanted = max(_REQUESTS_AT_LEAST, _REQUESTS_PER_STREAM * concurrency) if requests is None else requests
    if wanted < concurrency:
        raise UsageError(
            f"{wanted} requests cannot keep {concurrency} in flight",
            hint=f"give at least {_REQUESTS_PER_STREAM * concurrency} requests at this level",
        )
    shape = f"{seed} {concurrency} {input_len} {output_len}"
    return Point(
        concurrency=concurrency,
        input_len=input_len,
        output_len=output_len,
        requests=wanted,
        warmup_requests=_WARMUP_PER_STREAM * concurrency,
        seed=_draw(f"measured {shape}"),
        warmup_seed=_draw(f"warm-up {shape}"),
    )


def parse_rates(text: str) -> tuple[float, ...]:
    """Read ``2,4.5,8``: arrivals a second, each once. Raises UsageError."""
    rates: list[float] = []
    for piece in (part.strip() for part in text.split(",")):
        if not _DECIMAL.fullmatch(piece) or float(piece) == 0 or float(piece) in rates:
            raise UsageError(f"'{piece}' is no rate", where="--rate", hint="arrivals a second: --rate 2,4,8")
        rates.append(float(piece))
    return tuple(rates)


def by_rate(sweep: Sweep, rates: Sequence[float], *, requests: int | None = None) -> Sweep:
    """The sweep's one level at each rate: half a minute of arrivals, at least 16, unless ``requests``.

    Its concurrency is the most that may be in flight. Raises UsageError where there are several levels.
    """
    if len(sweep.points) != 1:
        raise UsageError("--rate goes with one --concurrency, the most in flight", where="--concurrency")
    only = sweep.points[0]
    points = tuple(
        msgspec.structs.replace(
            only,
            rate=rate,
            requests=requests or max(_REQUESTS_AT_LEAST, round(_ARRIVALS_S * rate)),
            warmup_requests=max(_REQUESTS_AT_LEAST, round(_ARRIVALS_S * rate) // 4),
            seed=_draw(f"measured {only.seed} {rate}"),
            warmup_seed=_draw(f"warm-up {only.seed} {rate}"),
        )
        for rate in rates
    )
    return msgspec.structs.replace(sweep, points=points)


def make_sweep(
    concurrencies: Sequence[int] = CONCURRENCIES,
    *,
    input_len: int = INPUT_LEN,
    output_len: int = OUTPUT_LEN,
    seed: int = SEED,
    requests: int | None = None,
    targets: Targets | None = None,
    until_saturated: bool = False,
) -> Sweep:
    """Make the levels of one sweep, in the order given. Raises UsageError."""
    if not concurrencies:
        raise _bad_levels("no level is given")
    return Sweep(
        points=tuple(
            make_point(level, input_len=input_len, output_len=output_len, seed=seed, requests=requests)
            for level in concurrencies
        ),
        seed=seed,
        targets=targets,
        until_saturated=until_saturated,
    )


def _draw(text: str) -> int:
    """A seed from a name: 31 bits, which every client's generator takes."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def _bad_levels(what: str) -> UsageError:
    return UsageError(
        what, where="--concurrency", hint="levels are positive integers: 64,128,256, or 8..512x2, or 8..64+8"
    )
