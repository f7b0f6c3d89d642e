"""The share of saturated values of a layer, from histograms of its activations.

``ActivationHook`` records that share itself. Histograms of other writers (``tf.summary.histogram``,
``run.histogram``, ``SummaryWriter``) hold it too, if they are of a sigmoid or tanh: these alone end at 0 and
1, or at -1 and 1, and have values at the ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FAR = 0.01
"""Distance from an end of tanh from which on a value is saturated, as by default in ``ActivationHook``."""
COARSE = 0.1
"""Widest bucket at an end of a sigmoid that is counted as a whole, as wide as TensorFlow 1's buckets are
there; with wider ones nothing is said."""
EXACT = 1e-6
"""By how much rounding may bring an output beyond its end."""
_ACTIVATIONS = re.compile(r"(?:^|[/_.\-])activations?(?:[/_.\-]|$)|sigmoid|tanh", re.IGNORECASE)
_NO_LAYER = re.compile(r"softmax|attention|prob|gate|mask|weights?/|gradients?/|updates?/", re.IGNORECASE)
"""Names of what may well be 0 or 1, or is no activation."""
_AFFIX = re.compile(
    r"^activations?/|(?:[/_.\-](?:histograms?|activations?|outputs?))+(?:_\d+)?$", re.IGNORECASE
)


def layer_of(tag: str) -> str | None:
    """Return the layer whose activations a tag of histograms holds by its name; None for any other."""
    if not _ACTIVATIONS.search(tag) or _NO_LAYER.search(tag):
        return None
    layer = _AFFIX.sub("", _AFFIX.sub("", tag))
    return layer or tag


def saturated(tag: str, histograms: Sequence[Floats]) -> Floats | None:
    """Return the share of saturated values in each of a layer's histograms.

    Args:
        tag: Their tag.
        histograms: [buckets, 3] of left edge, right edge and count, in order.

    Returns:
        NaN for one without values; None if they need not be of a sigmoid or tanh, or are too coarse.
    """
    filled = [rows[rows[:, 2] > 0] for rows in histograms]
    every = [rows for rows in filled if len(rows) and np.isfinite(rows).all()]
    if not every:
        return None
    low, high = min(rows[0, 0] for rows in every), max(rows[-1, 1] for rows in every)
    ends = _ends(tag, float(low), float(high))
    if ends is None:
        return None
    bottom, top = ends
    far = FAR * (top - bottom) / 2
    shares = []
    for rows in filled:
        if not len(rows) or not np.isfinite(rows).all():
            shares.append(np.nan)
            continue
        outer = (rows[:, 0] <= bottom + far) | (rows[:, 1] >= top - far)
        if (rows[outer, 1] - rows[outer, 0] > COARSE * (top - bottom)).any():
            return None
        shares.append(float(rows[outer, 2].sum() / rows[:, 2].sum()))
    return np.array(shares)


def _ends(tag: str, low: float, high: float) -> tuple[float, float] | None:
    """Return where the function ends whose values these are, None if that is not known.

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
