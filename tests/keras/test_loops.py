"""The gradients of a training by ``fit`` are those by hand, at their own steps."""

import keras
import pytest
from support import loops

pytestmark = [
    pytest.mark.skipif(keras.__version__.startswith("2."), reason="its losses have no keras.ops"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*shuffle=True.*was passed"),
]


def test_what_is_recorded_is_what_the_optimizer_used(tmp_path):
    loops.keras(tmp_path)
    assert loops.check(tmp_path) == dict.fromkeys(loops.STATISTICS, "exact")
