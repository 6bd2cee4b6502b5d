"""What paired trials allow one to say: intervals, corrections, equivalence, power.

Owns: the formulas; each is checked by simulation in the tests (docs/statistics.md has the figures). All work
on natural logarithms of ratios, and on arrays whose last axis is the pairs. Refuses: to call anything
significant that it could not compute: too few values, no spread and NaN give None.

numpy and scipy are imported when a formula is used, so that nobody else waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite, log1p, sqrt
from typing import TYPE_CHECKING

from oeactl.core.host import Value

if TYPE_CHECKING:
    import numpy as np

ALPHA = 0.05
POWER = 0.8
#: Looking after every pair from the third on, up to this many, keeps the error of all looks together at 5 %.
LOOK_ALPHAS = {6: 0.019, 10: 0.012}
FIRST_LOOK = 3
#: Logarithms that differ by less did not vary: the same number came out each time.
_SAME = 1e-12


class Estimate(Value, frozen=True, kw_only=True):
    """A mean log-ratio with its Student interval. p: two-sided, against no difference.

    trial_sd: of ln y over restarts of one arm, as these values show it.
    """

    mean: float
    low: float
    high: float
    p: float
    trial_sd: float
    se: float
    df: int
    alpha: float

    def shift(self, by: float) -> float:
        """The t statistic against a difference of ``by``."""
        return (self.mean - by) / self.se


def paired(differences: Sequence[float], alpha: float = ALPHA) -> Estimate | None:
    """Student t on one log-ratio a pair; None with fewer than two, without spread, or with a NaN in them."""
    import numpy as np

    values = np.asarray(differences, dtype=float)
    if values.size < 2 or not np.isfinite(values).all():
        return None
    mean, se = paired_fit(values)
    return _estimate(
        float(mean), float(se), values.size - 1, alpha, trial_sd=float(values.std(ddof=1)) / sqrt(2)
    )


def regression(
    logs: Sequence[float], is_b: Sequence[bool], alpha: float = ALPHA, order: Sequence[float] | None = None
) -> Estimate | None:
    """The effect of B in ln y ~ 1 + B + restart order; None where there are too few restarts to tell.

    logs: ln of one figure a restart. order: its place in the run, from the first restart on if not given.
    """
    import numpy as np

    values = np.asarray(logs, dtype=float)
    flags = np.asarray(is_b, dtype=float)
    place = np.arange(values.size, dtype=float) if order is None else np.asarray(order, dtype=float)
    df = values.size - 3
    if df < 1 or not np.isfinite(values).all() or flags.min() == flags.max():
        return None
    mean, se = regression_fit(values, flags, place)
    return _estimate(float(mean), float(se), df, alpha, trial_sd=float(se) * sqrt(values.size) / 2)


def paired_fit(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its standard error over the last axis."""
    import numpy as np

    return values.mean(-1), values.std(-1, ddof=1) / np.sqrt(values.shape[-1])


def regression_fit(values: np.ndarray, flags: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficient of ``flags`` and its standard error, least squares over the last axis of ``values``."""
    import numpy as np

    design = np.stack([np.ones(len(flags)), flags, place - place.mean()], axis=1)
    inverse = np.linalg.pinv(design)
    coefficients = values @ inverse.T
    left = values - coefficients @ design.T
    variance = (left**2).sum(-1) / (values.shape[-1] - 3)
    return coefficients[..., 1], np.sqrt(variance * (inverse @ inverse.T)[1, 1])


def critical(df: int, alpha: float) -> float:
    """How many standard errors the interval of confidence 1 - alpha reaches to each side."""
    from scipy import stats

    return float(stats.t.ppf(1 - alpha / 2, df))


def p_values(mean: np.ndarray, se: np.ndarray, df: int) -> np.ndarray:
    """Two-sided p of each mean; 1 where there is no spread to judge it by."""
    import numpy as np
    from scipy import stats

    known = np.isfinite(mean) & (se > _SAME)
    t = np.divide(mean, se, out=np.zeros_like(mean), where=known)
    return np.where(known, 2 * stats.t.sf(np.abs(t), df), 1.0)


def holm(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """p values of a family, adjusted by Holm's step-down over the last axis. A NaN counts as 1."""
    import numpy as np

    values = np.nan_to_num(np.asarray(p, dtype=float), nan=1.0)
    order = values.argsort(-1)
    ranks = np.arange(values.shape[-1], 0, -1)
    stepped = np.maximum.accumulate(np.take_along_axis(values, order, -1) * ranks, -1)
    adjusted = np.empty_like(stepped)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), -1)
    return adjusted


def equivalent(estimate: Estimate, margin: float) -> float:
    """p of two one-sided tests for a ratio within 1/(1 + margin) .. 1 + margin; small means it is."""
    from scipy import stats

    bound = log1p(margin)
    return float(
        max(
            stats.t.sf(estimate.shift(-bound), estimate.df),
            stats.t.cdf(estimate.shift(bound), estimate.df),
        )
    )


def power(effect: float, *, trial_sd: float, pairs: int, alpha: float = ALPHA) -> float:
    """How often ``pairs`` pairs show a true log-ratio ``effect``.

    trial_sd: of ln y over restarts of one arm.
    """
    from scipy import stats

    df = pairs - 1
    ncp = abs(effect) / (trial_sd * sqrt(2 / pairs))
    reach = critical(df, alpha)
    return float(stats.nct.sf(reach, df, ncp) + stats.nct.cdf(-reach, df, ncp))


def smallest_effect(
    *, trial_sd: float, pairs: int, alpha: float = ALPHA, wanted: float = POWER
) -> float | None:
    """The smallest ratio above 1, as ratio - 1, that such a plan shows with power ``wanted``.

    None for fewer than two pairs, or a spread that is not known to be above 0.
    """
    if pairs < 2 or not trial_sd > 0 or not isfinite(trial_sd):
        return None
    low, high = 0.0, trial_sd
    while power(high, trial_sd=trial_sd, pairs=pairs, alpha=alpha) < wanted:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if power(middle, trial_sd=trial_sd, pairs=pairs, alpha=alpha) < wanted:
            low = middle
        else:
            high = middle
    return exp(high) - 1


def look_alpha(pairs: int) -> float | None:
    """The alpha of each look of a plan that looks after every pair from the third to ``pairs``, or None."""
    fitting = [most for most in LOOK_ALPHAS if FIRST_LOOK < pairs <= most]
    return LOOK_ALPHAS[min(fitting)] if fitting else None


def _estimate(mean: float, se: float, df: int, alpha: float, *, trial_sd: float) -> Estimate | None:
    from scipy import stats

    if not se > _SAME:
        return None
    half = critical(df, alpha) * se
    return Estimate(
        mean=mean,
        low=mean - half,
        high=mean + half,
        p=float(2 * stats.t.sf(abs(mean / se), df)),
        trial_sd=trial_sd,
        se=se,
        df=df,
        alpha=alpha,
    )
