"""Precision and recall against counting at each threshold."""

import numpy as np
import pytest

from stepscope.events.kinds.pr_curve import ROWS, curve_of


@pytest.mark.parametrize("weighed", [False, True])
def test_a_curve_counts_what_is_right_and_wrong_at_each_threshold(weighed):
    generator = np.random.default_rng(0)
    labels, predictions = generator.integers(0, 2, 200), generator.random(200)
    weights = generator.integers(1, 4, 200).astype(float) if weighed else None
    weight = np.ones(200) if weights is None else weights
    curve = dict(zip(ROWS, curve_of(labels, predictions, 5, weights), strict=True))
    for at, threshold in enumerate((0, 0.25, 0.5, 0.75, 1)):
        chosen, positive = predictions >= threshold, labels == 1
        right, wrong = weight[chosen & positive].sum(), weight[chosen & ~positive].sum()
        assert curve["true_positives"][at] == right
        assert curve["false_positives"][at] == wrong
        assert curve["true_negatives"][at] == weight[~chosen & ~positive].sum()
        assert curve["false_negatives"][at] == weight[~chosen & positive].sum()
        assert curve["precision"][at] == pytest.approx(right / (right + wrong) if right + wrong else 0)
        assert curve["recall"][at] == pytest.approx(right / weight[positive].sum())
