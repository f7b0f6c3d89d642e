"""Precision-recall curves: the part that says something, and the area under it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Curve = npt.NDArray[np.float32]
"""float32 [6, thresholds]: true and false positives, true and false negatives, precision, recall."""


def meaningful(curve: Curve) -> Curve:
    """Return a curve without the thresholds at its end that nothing reaches: there precision has no value.

    TensorBoard leaves out the same (tensorboard/plugins/pr_curve/pr_curves_plugin.py).
    """
    reached = np.flatnonzero(curve[0] + curve[1] > 0)
    return curve[:, : int(reached[-1]) + 1 if len(reached) else 1]


def average_precision(curve: Curve) -> float | None:
    """Return the area under precision over recall, each rise of recall times the precision reached there.

    That is average precision as in ``sklearn.metrics.average_precision_score``, on the thresholds recorded.
    Straight lines between the points would promise too much (Davis and Goadrich 2006).

    Returns:
        0 to 1; None if there is nothing positive to find.
    """
    shown = meaningful(np.asarray(curve, np.float64))
    if shown[0, 0] + shown[3, 0] <= 0:
        return None
    precision, recall = shown[4], shown[5]
    rises = recall - np.append(recall[1:], 0.0)
    return float(np.clip(np.sum(rises * precision), 0, 1))
