"""Forecast of a loss: a power law with an offset, fitted to the recorded data, with a band."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.text import number

Floats = NDArray[np.float64]
MIN_POINTS = 200
"""Points that a forecast needs."""
SEEN = 0.2
"""Share of the steps that must be done."""
BINS = 40
SKIPPED = 0.02
"""Share of all steps at the beginning that are not part of the law: warm-up."""
EXPONENTS = np.geomspace(0.02, 3.0, 2000)
CHANGED = 1.1
"""Factor within which a learning rate is constant."""
SIGMAS = 2.0
TRIED = (0.0, 0.35, 0.7)
"""Places at which earlier forecasts are tried: as far back as the requested one looks ahead, and nearer."""
FEWEST_BINS = 9
FAILS = 3.0
"""Half band widths by which an earlier forecast may miss; beyond it the law does not hold."""
SAFE = 2.0
"""Factor of the largest of few misses."""
AHEAD = 6
"""Bins with which an earlier forecast is compared."""
FELL = 0.03
"""Share of its first level by which a loss must have fallen."""
PLACES = 24
"""Number of steps at which the band is given."""
SHOWN = 2
"""Earlier runs that a sentence names."""


@dataclass(frozen=True)
class Forecast:
    """The forecast of a loss at a step, if it goes on as before.

    Attributes:
        step: That it is forecast for.
        value: The middle of the band.
        half: Half the width of the band of about 95 %.
        exponent: c of the law.
        curve: Steps from the newest point to the last, the middle of the band there, and half its width.
        reached: Earlier runs that came as low as the forecast, with the step at which each did.
    """

    step: int
    value: float
    half: float
    exponent: float
    curve: tuple[tuple[float, float, float], ...] = ()
    reached: tuple[tuple[str, int], ...] = ()

    def text(self, tag: str) -> str:
        """Return it as a sentence."""
        end = f"{tag} will end at {rounded(self.value, self.half)} at step {self.step:,}, by a power law"
        had = [f"{name} had reached this at step {step:,}" for name, step in self.reached[:SHOWN]]
        return "; ".join([end, *had])


def rounded(value: float, half: float) -> str:
    """Return a value with its uncertainty, both to two digits of the latter."""
    if not half > 0:
        return number(value)
    digits = 1 - math.floor(math.log10(half))
    if abs(digits) > 12 or abs(value) >= 1e9:
        return f"{number(value)} ± {number(float(f'{half:.2g}'))}"
    return f"{round(value, digits):.{max(digits, 0)}f} ± {round(half, digits):.{max(digits, 0)}f}"


def forecast(steps: Floats, values: Floats, until: int, rates: Floats | None = None) -> Forecast | None:
    """Fit ``L(t) = a + b t^-c`` and return the loss at a step; None if the law does not hold.

    The loss is averaged in bins of equal width in log t, so that early and late steps count alike. For each
    exponent of a grid a and b come by least squares. The band is the range of forecasts of all exponents that
    the data cannot tell from the best one (profile likelihood, F(1, n - 3) below 4), and twice the standard
    error of a bin. A law that is fitted to the first 70 % of the bins has to hold for the others. Sources:
    Hestness et al. 2017 (arXiv 1712.00409), Kaplan et al. 2020 (arXiv 2001.08361).

    Args:
        steps: Of each point, ascending, from 0.
        values: The loss.
        until: The last step.
        rates: Learning rates of the run; the law is that of a constant one after the warm-up.
    """
    good = np.isfinite(values)
    t, y = steps[good].astype(np.float64) + 1, values[good]
    begin = max(SKIPPED * until, 10.0)
    y, t = y[t > begin], t[t > begin]
    if len(t) < MIN_POINTS or t[-1] < SEEN * until or t[-1] >= until or not is_constant(rates):
        return None
    times, means, errors = binned(t, y)
    if len(times) < 12 or not means[0] - means[-1] > FELL * abs(means[0]):
        return None
    least = 0.0 if (y >= 0).all() else -math.inf
    wider = misses(times, means, errors, (until + 1.0) / t[-1], least)
    if wider is None:
        return None
    fitted = fit(times, means, errors, until + 1.0, least)
    if fitted is None:
        return None
    value, half, exponent = fitted
    places = np.linspace(t[-1], until + 1.0, PLACES)
    band = [(at - 1, fit(times, means, errors, at, least)) for at in places.tolist()]
    # What earlier forecasts missed by counts as far as the way is long.
    far = math.log((until + 1.0) / t[-1])
    curve = tuple(
        (at, bounds[0], bounds[1] * (1 + (wider - 1) * math.log((at + 1) / t[-1]) / far))
        for at, bounds in band
        if bounds is not None
    )
    half *= wider
    return Forecast(until, value, half, exponent, curve)


def misses(times: Floats, means: Floats, errors: Floats, far: float, least: float) -> float | None:
    """Return the factor by which to widen the band, from forecasts of known values; None if they fail.

    Losses of trainings are not power laws: a forecast as far ahead as the one that is asked for, made where
    the run was then, says by how much the law errs. At each of the places of ``TRIED`` the bins before it
    forecast those that came up to ``far`` times later, or as late as there are.
    """
    worst, count = 0.0, 0
    for share in TRIED:
        part = max(int((times <= times[-1] / far ** (1 - share)).sum()), FEWEST_BINS)
        if part > len(times) - 2:
            continue
        later = np.unique(np.linspace(part, len(times) - 1, AHEAD).astype(int)).tolist()
        fits = [fit(times[:part], means[:part], errors[:part], times[at], least) for at in later]
        apart = [
            abs(one[0] - means[at]) / (one[1] + SIGMAS * errors[at])
            for one, at in zip(fits, later, strict=True)
            if one is not None
        ]
        if 2 * len(apart) <= len(later):
            return None
        count, worst = count + 1, max(worst, *apart)
    return max(1.0, SAFE * float(worst)) if count and worst <= FAILS else None


def is_constant(rates: Floats | None) -> bool:
    """Return whether a learning rate is constant after the first tenth of its points; True without any."""
    if rates is None or not len(rates):
        return True
    later = rates[len(rates) // 10 :]
    later = later[np.isfinite(later)]
    return bool(len(later) and later.min() > 0 and later.max() <= CHANGED * later.min())


def binned(times: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean times, means and their standard errors in bins of equal width in the logarithm of time."""
    edges = np.geomspace(times[0], times[-1] + 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, BINS - 1)
    count = np.bincount(place, minlength=BINS).astype(np.float64)
    filled = count >= 4
    safe = np.maximum(count, 1)
    middle = np.bincount(place, times, BINS) / safe
    mean = np.bincount(place, values, BINS) / safe
    square = np.bincount(place, (values - mean[place]) ** 2, BINS) / np.maximum(count - 1, 1)
    error = np.sqrt(square / safe)
    return middle[filled], mean[filled], np.maximum(error[filled], 1e-9 * np.abs(mean[filled]) + 1e-300)


def fit(
    times: Floats, means: Floats, errors: Floats, at: float, least: float = -math.inf
) -> tuple[float, float, float] | None:
    """Return the value at a time, half the band, and the exponent; None if the loss does not fall."""
    weight = errors**-2 / (errors**-2).sum()
    shape = (times / at) ** -EXPONENTS[:, None]
    middle, level = shape @ weight, float(means @ weight)
    spread = (shape - middle[:, None]) * weight
    slope = (spread @ (means - level)) / (spread * (shape - middle[:, None])).sum(axis=1)
    offset = level - slope * middle
    limit = np.where(slope > 0, offset + slope, np.nan)
    apart = (offset[:, None] + slope[:, None] * shape - means) / errors
    limit = np.where(offset >= least, limit, np.nan)
    misfit = np.where(np.isfinite(limit), (apart * apart).sum(axis=1), np.inf)
    best = int(np.argmin(misfit))
    free = len(times) - 3
    if not np.isfinite(misfit[best]) or free < 1:
        return None
    # Noise of the bins beyond their own standard errors, as of points that depend on each other, counts too.
    scale = max(misfit[best] / free, 1.0)
    like = limit[misfit <= misfit[best] + 4 * scale]
    value = (float(like.min()) + float(like.max())) / 2
    half = (float(like.max()) - float(like.min())) / 2 + SIGMAS * float(np.sqrt(scale)) * float(errors[-1])
    return value, half, float(EXPONENTS[best])
