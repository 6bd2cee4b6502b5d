"""The vocabulary of a comparison: what is fixed beforehand, how a trial failed, what the trials say.

Owns: those values and their words. Refuses: to compute them (``design.py``, ``verdicts.py``, ``stats.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from oeactl.core.caches import Policy
from oeactl.core.host import Value
from oeactl.core.load import Sweep

Analysed = Literal["paired", "regression"]
Leave = Literal["pristine", "patched"]
Says = Literal["improved", "regressed", "equivalent", "inconclusive", "void"]
FailureKind = Literal["not written", "not started", "not active", "lost under load"]


class Design(Value, frozen=True, kw_only=True):
    """What is fixed before the first trial, beside arms and trials. sweeps: one a pair, the same in all arms.

    api: what the light client asks by; None with another.
    margin: the ratio - 1 that matters. alpha: of every look; looks: after which pairs, () for a fixed number.
    warm_sweep: each arm is started and lightly loaded once before the first pair, so that caches are warm on
    both sides; None: it is not.
    launch_sha256: of the host's argv and environment, so that a resumed run is the same one. known_sd: of
    ln y over restarts of one arm, from past runs. running: a server ran before, and one will at the end.
    budget_s: what the number of pairs was made to fit, None where it was given. caches: kept, so that
    all starts are warm, or wiped before each, so that all are cold.
    experts: also see, after each level, which experts a small batch uses.
    """

    pairs: Annotated[int, msgspec.Meta(ge=1)]
    seed: int
    margin: float
    alpha: float
    sweeps: tuple[Sweep, ...]
    warm_sweep: Sweep | None = None
    analysis: Analysed = "paired"
    looks: tuple[int, ...] = ()
    primary: str = "mean over levels of ln output_tokens_per_s"
    api: str | None = None
    leave: Leave = "pristine"
    launch_sha256: str = ""
    known_sd: float | None = None
    running: bool = True
    budget_s: float | None = None
    caches: Policy = "keep"
    experts: bool = False


class LaunchDifference(Value, frozen=True, kw_only=True):
    """An argument or variable in which launches differ. values: one an arm, None where it has none."""

    name: str
    values: tuple[str | None, ...]


class Foreseen(Value, frozen=True, kw_only=True):
    """What is known before a run. trial_s: one trial takes, None unknown; trial_s_from: who says so.

    gpus: of the server, None unknown. on_host: recipes that are on the host now, and come off. launch: in
    what the arms' servers are begun differently, of all that hosts.yaml, arms and recipes say.
    """

    trial_s: float | None = None
    trial_s_from: str = ""
    gpus: int | None = None
    on_host: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    launch: tuple[LaunchDifference, ...] = ()


class Failure(Value, frozen=True, kw_only=True):
    """Why an arm could not be measured: a row like any other. first_error, tail: of the server's log."""

    kind: FailureKind
    what: str
    first_error: str | None = None
    tail: tuple[str, ...] = ()


_ERROR = re.compile(r"\b\w*(Error|Exception)\b|out of memory|\b[Kk]illed\b|Segmentation fault|SIG[A-Z]{3,}")


def first_error(lines: Sequence[str]) -> str | None:
    """The first line of a log that names an error, stripped; None where none does."""
    return next((line.strip() for line in lines if _ERROR.search(line)), None)


class Effect(Value, frozen=True, kw_only=True):
    """How many times faster an arm is. low, high, p: None where no interval can be had.

    confidence: of the interval (it is wider where several arms, levels or looks share the error).
    """

    ratio: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    confidence: float
    pairs: int


class LevelEffect(Value, frozen=True, kw_only=True):
    """One level by itself. p_adjusted: by Holm over the levels. shown: it is below alpha."""

    concurrency: int
    input_len: int
    output_len: int
    effect: Effect | None
    p_adjusted: float | None
    shown: bool


class Verdict(Value, frozen=True, kw_only=True):
    """What the trials say of one arm against the first.

    material: all of the interval lies beyond the margin. within_margin: both one-sided tests hold it.
    levels: the concurrencies that the effect is the mean of. trial_sd: of ln y over restarts, as seen here;
    smallest_effect: the ratio - 1 that this many pairs show four times out of five at that spread.
    reasons: why it is void, or what was left out.
    """

    arm: str
    against: str
    says: Says
    material: bool = False
    within_margin: bool = False
    effect: Effect | None = None
    levels: tuple[int, ...] = ()
    by_level: tuple[LevelEffect, ...] = ()
    trial_sd: float | None = None
    smallest_effect: float | None = None
    reasons: tuple[str, ...] = ()
