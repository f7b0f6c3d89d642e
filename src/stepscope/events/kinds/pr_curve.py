"""Precision and recall over thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import Value
from stepscope.events.tensors import numbers, tensor
from stepscope.events.wire import Message, encode, message, wire

PLUGIN = "pr_curves"
ROWS = ("true_positives", "false_positives", "true_negatives", "false_negatives", "precision", "recall")
TINY = 1e-7
AT_ONCE = 1 << 16
"""Examples."""
Curve = NDArray[np.float32]
"""float32 [6, thresholds], its rows as in ROWS, over thresholds evenly from 0 to 1."""


@message
class Content(Message):
    """PrCurvePluginData."""

    num_thresholds: int = wire(2, "uint32")


def value(tag: str, curve: Curve, *, description: str = "") -> Value:
    """Return the value that records a curve."""
    data = tensor(np.ascontiguousarray(curve, np.float32))
    return Value.of(tag, PLUGIN, data, encode(Content(curve.shape[1])), description=description)


def read(value: Value) -> Curve:
    """Return a curve.

    Raises:
        EventFileError: It is not one.
    """
    curve = numbers(value.tensor, "a precision-recall curve")
    if curve.ndim != 2 or curve.shape[0] != len(ROWS):
        raise EventFileError(
            f"a precision-recall curve has 6 rows, found shape {list(curve.shape)}", hint=UNUSUAL_SUMMARY
        )
    return np.asarray(curve, np.float32)


def curve_of(
    labels: NDArray[Any], predictions: NDArray[Any], thresholds: int, weights: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Count a classifier's hits and misses at each threshold.

    TensorBoard's algorithm (tensorboard/plugins/pr_curve/summary.py).

    Args:
        labels: True or 1 for positive examples.
        predictions: Probabilities from 0 to 1, of the same size.
        thresholds: How many, at least 2.
        weights: Of each example.
    """
    truth, guess = np.asarray(labels).reshape(-1), np.asarray(predictions).reshape(-1)
    weight = None if weights is None else np.broadcast_to(weights, labels.shape).reshape(-1)
    counts = np.zeros((2, thresholds))
    for start in range(0, truth.size, AT_ONCE):  # pieces stay in the cache, and hold up no other thread
        some = slice(start, start + AT_ONCE)
        positive = truth[some].astype(bool).astype(np.float64)
        weighed = np.ones_like(positive) if weight is None else weight[some]
        place = np.floor(guess[some].astype(np.float64) * (thresholds - 1)).astype(np.int64)
        counts[0] += np.bincount(place, positive * weighed, thresholds)
        counts[1] += np.bincount(place, (1 - positive) * weighed, thresholds)
    right, wrong = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    rejected, missed = wrong[0] - wrong, right[0] - right
    precision, recall = right / np.maximum(TINY, right + wrong), right / np.maximum(TINY, right + missed)
    return np.stack([right, wrong, rejected, missed, precision, recall])
