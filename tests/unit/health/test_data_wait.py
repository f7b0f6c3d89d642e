"""Since when a run waits for its data: the best split of the shares."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.health.rules.data_wait import onset


@pytest.mark.parametrize(
    ("ratios", "limit", "at"),
    [
        ([0, 0, 0, 1, 1], 0.5, 3),
        ([1, 0, 0, 0, 1, 1, 1], 0.5, 4),
        ([1, 1, 1], 0.5, 0),
        ([0.6], 0.5, 0),
    ],
)
def test_the_onset_is_the_best_split(ratios, limit, at):
    assert onset(np.array(ratios, float), limit) == at


def test_the_onset_of_a_fall():
    assert onset(np.array([1.0, 1, 1, 0, 0]), 0.5, rises=False) == 3
    assert onset(np.array([0.5, 0.5, 0, 0]), 0.5, rises=False) == 0  # it was never above
