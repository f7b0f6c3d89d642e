"""The share of saturated values of a layer, from histograms of its activations.

``ActivationHook`` records that share itself. Histograms of other writers (``tf.summary.histogram``,
``run.histogram``, ``SummaryWriter``) hold it too, if they are of a sigmoid or tanh: these alone end at 0 and
1, or at -1 and 1, and have values at the ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FAR = 0.01
"""Distance from an end of tanh from which on a value is saturated, as by default in ``ActivationHook``."""
EXACT = 1e-6
"""By how much rounding may bring an output beyond its end, and a sum off its value."""
_ACTIVATIONS = re.compile(r"(?:^|[/_.\-])activations?(?:[/_.\-]|$)|sigmoid|tanh", re.IGNORECASE)
_NO_LAYER = re.compile(
    r"softmax|attention|prob|gate|mask|pre[_\-]?activation|log[_\-]?sigmoid"
    r"|weight|kernel|bias|grad|update|moment|variable|param",
    re.IGNORECASE,
)
"""Names of values that may well be 0 or 1, or is no activation."""
_AFFIX = re.compile(
    r"^activations?/|(?:[/_.\-](?:histograms?|activations?|outputs?))+(?:_\d+)?$", re.IGNORECASE
)


class Shares(NamedTuple):
    """Bounds of the share of saturated values, one per histogram; NaN for one without values.

    A bucket may reach across the limit, and then it is unknown on which side its values lie.
    """

    least: Floats
    most: Floats


def layer_of(tag: str) -> str | None:
    """Return the layer whose activations a tag of histograms holds by its name; None for any other."""
    if not _ACTIVATIONS.search(tag) or _NO_LAYER.search(tag):
        return None
    layer = _AFFIX.sub("", _AFFIX.sub("", tag))
    return layer or tag


def saturated(
    tag: str, histograms: Sequence[Floats], moments: Sequence[tuple[float, float] | None] = ()
) -> Shares | None:
    """Return bounds of the share of saturated values in each of a layer's histograms.

    Args:
        tag: Their tag.
        histograms: [buckets, 3] of left edge, right edge and count, in order.
        moments: Sum and sum of squares of the values of each, None if unknown; by default unknown of all.

    Returns:
        None if they need not be of a sigmoid or tanh.
    """
    filled = [_within(tag, rows[rows[:, 2] > 0]) for rows in histograms]
    every = [rows for rows in filled if len(rows) and np.isfinite(rows).all()]
    if not every:
        return None
    low, high = min(rows[0, 0] for rows in every), max(rows[-1, 1] for rows in every)
    ends = _ends(tag, float(low), float(high))
    if ends is None:
        return None
    known = moments or [None] * len(filled)
    bounds = [
        _bounds(rows, ends, sums) if len(rows) and np.isfinite(rows).all() else (np.nan, np.nan)
        for rows, sums in zip(filled, known, strict=True)
    ]
    least, most = np.array(bounds).T
    return Shares(least, most)


def _within(tag: str, rows: Floats) -> Floats:
    """Return the buckets of a function that ends at 1 by its name, cut off there.

    A bucket that begins at 1 (as those of ``buckets="fixed"`` do) then holds nothing but ones.
    """
    if not re.search("sigmoid|tanh", tag, re.IGNORECASE):
        return rows
    cut: Floats = rows.copy()
    cut[rows[:, 0] == 1, 1] = 1
    cut[rows[:, 1] == -1, 0] = -1
    return cut


def _bounds(rows: Floats, ends: tuple[float, float], sums: tuple[float, float] | None) -> tuple[float, float]:
    """Return the least and the greatest share of saturated values that a histogram allows.

    Sums tell more than wide buckets: (value - bottom) * (top - value) is 0 at both ends, and at least that
    of the limit for every value that is not saturated. So its sum bounds the number of these.
    """
    bottom, top = ends
    far, rounding = FAR * (top - bottom) / 2, EXACT * (top - bottom)
    left, right, count = rows.T
    sure = (right <= bottom + far + rounding) | (left >= top - far - rounding)
    unsure = ~sure & ((left < bottom + far - rounding) | (right > top - far + rounding))
    total, surely, possibly = (float(counts.sum()) for counts in (count, count[sure], count[unsure]))
    inside = possibly
    if sums is not None and _fit(rows, sums):
        area = (bottom + top) * sums[0] - sums[1] - total * bottom * top
        inner = ~sure & ~unsure
        edges = np.clip(rows[inner, :2], bottom, top)
        area -= float((count[inner] * ((edges - bottom) * (top - edges)).min(1)).sum())
        inside = (area + EXACT * total) / (far * (top - bottom - far))
    return (surely + max(0.0, possibly - max(0.0, inside))) / total, (surely + possibly) / total


def _fit(rows: Floats, sums: tuple[float, float]) -> bool:
    """Return whether sums are those of the values: some writers leave them at 0."""
    left, right, count = rows.T
    squares = rows[:, :2] ** 2
    lower = np.where((left < 0) & (right > 0), 0, squares.min(1))
    bounds = ((left @ count, right @ count), (lower @ count, squares.max(1) @ count))
    slack = EXACT * float(count.sum())
    return all(low - slack <= value <= high + slack for (low, high), value in zip(bounds, sums, strict=True))


def _ends(tag: str, low: float, high: float) -> tuple[float, float] | None:
    """Return the limits of the function whose values these are, None if that is not known.

    A ReLU has zeros and need not reach 1: without a name, both ends of tanh or the upper one of a sigmoid
    must have been reached, and never passed.
    """
    far = FAR / 2
    if low >= -EXACT and high <= 1 + EXACT and ("sigmoid" in tag.lower() or high >= 1 - far):
        return 0.0, 1.0
    within = -1 - EXACT <= low < 0 and high <= 1 + EXACT
    if within and ("tanh" in tag.lower() or (low <= -1 + FAR and high >= 1 - FAR)):
        return -1.0, 1.0
    return None
