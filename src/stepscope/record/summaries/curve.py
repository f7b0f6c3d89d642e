"""Precision-recall curves."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepscope.events.kinds import pr_curve
from stepscope.events.messages import Value
from stepscope.record.problems import shown
from stepscope.record.summaries.snapshot import snapshot
from stepscope.record.summary_encoder import Prepared, refused

THRESHOLDS = 200


def prepare(
    labels: Any, predictions: Any, thresholds: int = THRESHOLDS, weights: Any = None, description: str = ""
) -> Prepared:
    """Return the curve of a classifier of two classes.

    Args:
        labels: Booleans, or 0 and 1.
        predictions: Probabilities, as many.
        thresholds: How many, at least 2.
        weights: Of each example.
        description: Markdown.

    Raises:
        RefusalError: They do not fit.
    """
    if isinstance(thresholds, bool) or not isinstance(thresholds, int) or not 2 <= thresholds <= 1 << 20:
        raise refused(f"num_thresholds={shown(thresholds)}", "an integer from 2 on")
    truth, guess = snapshot(labels, "labels"), snapshot(predictions, "probabilities")
    weight = None if weights is None else snapshot(weights, "weights")
    if truth.size != guess.size or not truth.size:
        raise refused(f"{truth.size} labels and {guess.size} predictions", "pass one of each per example")
    if weight is not None and weight.size not in (1, truth.size):
        raise refused(f"{weight.size} weights for {truth.size} examples", "pass one per example")

    def make(tag: str) -> list[Value]:
        probability = guess.fetch().reshape(-1).astype(np.float64)
        if not ((probability >= 0) & (probability <= 1)).all():
            raise refused("predictions beyond 0 to 1, or NaN", "pass probabilities, not logits")
        weighed = None if weight is None else weight.fetch().reshape(-1)
        curve = pr_curve.curve_of(truth.fetch().reshape(-1), probability, thresholds, weighed)
        return [pr_curve.value(tag, curve.astype(np.float32), description=description)]

    return Prepared(make, truth.nbytes + guess.nbytes + (weight.nbytes if weight else 0))


def prepare_counts(rows: Any, description: str = "") -> Prepared:
    """Return a curve that the caller has computed: six rows as in ``pr_curve.ROWS``."""
    held = snapshot(rows, "the six rows of a curve")
    if len(held.shape) != 2 or held.shape[0] != 6 or not held.shape[1]:
        raise refused(f"a curve of shape {held.shape}", "pass [6, thresholds]")
    return Prepared(
        lambda tag: [pr_curve.value(tag, held.fetch().astype(np.float32), description=description)],
        held.nbytes,
    )
