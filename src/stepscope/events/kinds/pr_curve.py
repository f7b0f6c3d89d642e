"""Precision and recall over thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import DataClass, Metadata, Value
from stepscope.events.tensors import held_array, tensor
from stepscope.events.wire import varint

PLUGIN = "pr_curves"
ROWS = ("true_positives", "false_positives", "true_negatives", "false_negatives", "precision", "recall")
TINY = 1e-7
Curve = NDArray[np.float32]
"""float32 [6, thresholds], its rows as in ROWS, over thresholds evenly from 0 to 1."""


def value(tag: str, curve: Curve, *, description: str = "") -> Value:
    """Return the value that records a curve."""
    data = tensor(np.ascontiguousarray(curve, np.float32))
    content = b"\x10" + varint(curve.shape[1])  # PrCurvePluginData.num_thresholds
    metadata = Metadata.of(PLUGIN, content, data_class=int(DataClass.TENSOR), summary_description=description)
    return Value(tag, tensor=data, metadata=metadata)


def read(value: Value) -> Curve:
    """Return a curve.

    Raises:
        EventFileError: It is none.
    """
    if value.tensor is None:
        raise EventFileError("a precision-recall curve without a tensor", hint=UNUSUAL_SUMMARY)
    curve = held_array(value.tensor)
    if curve.dtype.kind not in "fiu":
        raise EventFileError(
            f"a precision-recall curve has numbers, found {curve.dtype}", hint=UNUSUAL_SUMMARY
        )
    if curve.ndim != 2 or curve.shape[0] != len(ROWS):
        raise EventFileError(
            f"a precision-recall curve has 6 rows, found shape {list(curve.shape)}", hint=UNUSUAL_SUMMARY
        )
    return np.asarray(curve, np.float32)


def curve_of(
    labels: NDArray[Any], predictions: NDArray[Any], thresholds: int, weights: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Count what a classifier gets right at each threshold.

    TensorBoard's algorithm (tensorboard/plugins/pr_curve/summary.py).

    Args:
        labels: True or 1 for what is positive.
        predictions: Probabilities from 0 to 1, of the same size.
        thresholds: How many, at least 2.
        weights: Of each example.
    """
    positive = np.asarray(labels, bool).reshape(-1).astype(np.float64)
    weight = np.ones_like(positive) if weights is None else np.broadcast_to(weights, labels.shape).reshape(-1)
    place = np.floor(np.asarray(predictions, np.float64).reshape(-1) * (thresholds - 1)).astype(np.int64)
    right = np.bincount(place, positive * weight, thresholds)[::-1].cumsum()[::-1]
    wrong = np.bincount(place, (1 - positive) * weight, thresholds)[::-1].cumsum()[::-1]
    rejected, missed = wrong[0] - wrong, right[0] - right
    precision, recall = right / np.maximum(TINY, right + wrong), right / np.maximum(TINY, right + missed)
    return np.stack([right, wrong, rejected, missed, precision, recall])
