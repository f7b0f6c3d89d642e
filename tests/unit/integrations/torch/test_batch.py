from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.integrations.torch.batch import examples


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        (np.zeros((4, 2)), 4),
        ((np.zeros((4, 2)), np.zeros(4)), 4),
        ({"name": "x", "ids": np.zeros((3, 7))}, 3),
        ([["a", "b"], {"x": (np.zeros((5, 1)),)}], 5),
        (np.zeros(()), 0),
        (SimpleNamespace(x=1), 0),
        (None, 0),
        ([], 0),
    ],
)
def test_examples_of_a_batch(batch, count):
    assert examples(batch) == count
