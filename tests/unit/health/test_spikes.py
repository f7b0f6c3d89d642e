"""What is no multiple of anything is not a spike."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.health import Monitor


@pytest.mark.parametrize(("level", "told"), [(0.1, True), (0.0, False)])
def test_a_gradient_after_gradients_of_zero_is_no_spike(level, told):
    """Steps that a loss scale skips, and losses that are met, have gradients of 0."""
    steps = np.arange(400)
    norm = np.abs(0.1 + 0.01 * np.random.default_rng(0).normal(size=400))
    norm[280:] *= level / 0.1
    norm[300] = 40.0
    monitor = Monitor()
    monitor.take("gradients/norm", steps, norm, 1e9 + steps)
    monitor.finish()
    found = {finding.rule for finding in monitor.verdict.findings}
    assert ("gradient-spike" in found) == told
