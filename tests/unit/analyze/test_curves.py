"""The area under a precision-recall curve, against scikit-learn's."""

import numpy as np
import pytest

from stepscope.analyze.curves import average_precision, meaningful
from stepscope.events.kinds.pr_curve import curve_of


def test_the_area_is_average_precision():
    from sklearn.metrics import average_precision_score

    random = np.random.default_rng(0)
    labels = random.random(3000) < 0.3
    thresholds = 1001
    predictions = np.floor(np.clip(0.3 * labels + random.random(3000) * 0.7, 0, 1) * 1000) / 1000
    curve = curve_of(labels, predictions, thresholds).astype("f4")
    assert average_precision(curve) == pytest.approx(average_precision_score(labels, predictions), abs=2e-3)


def test_thresholds_that_nothing_reaches_are_left_out():
    curve = curve_of(np.array([1, 0]), np.array([0.5, 0.2]), 11).astype("f4")
    assert meaningful(curve).shape == (6, 6)
    assert average_precision(curve) == pytest.approx(1)


def test_without_anything_positive_there_is_no_area():
    assert average_precision(curve_of(np.array([0, 0]), np.array([0.5, 0.2]), 11).astype("f4")) is None
