"""What the gradient noise scale says of the batch, against the formulas by hand."""

import numpy as np
import pytest

from stepscope.analyze.health.batch_size import batch_size


@pytest.mark.parametrize(
    ("noise", "ranks", "fewer", "more"),
    [
        (8.0, 8, 0.25, 0.5),  # at the critical batch: 1.5 of 2, 3 of 2
        (800.0, 8, 1 - 51 / 101, 1.02 / 1.01 - 1),  # far below it: half the steps for nothing
        (0.08, 8, 1 - 1.005 / 1.01, 201 / 101 - 1),  # far above it: twice the samples for nothing
    ],
)
def test_twice_the_batch(noise, ranks, fewer, more):
    found = batch_size(np.full(30, noise), ranks)
    assert found.fewer_steps == pytest.approx(fewer)
    assert found.more_samples == pytest.approx(more)


def test_it_is_a_sentence():
    assert batch_size(np.full(30, 80.0), 8).text.endswith(
        "twice the batch would take 45% fewer steps and cost 9% more samples"
    )


@pytest.mark.parametrize(
    ("scales", "ranks"),
    [(np.full(19, 8.0), 8), (np.full(30, np.nan), 8), (np.full(30, 8.0), 1), (np.full(30, 8.0), None)],
)
def test_too_little_says_nothing(scales, ranks):
    assert batch_size(scales, ranks) is None
