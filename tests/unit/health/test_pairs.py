"""Two series joined by their steps."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.health import Monitor
from stepscope.health.pairs import matched


@pytest.mark.parametrize(
    ("first", "second", "pairs", "done"),
    [
        ([1, 2, 3], [1, 2, 3], [(0, 0), (1, 1), (2, 2)], (3, 3)),
        ([1, 3, 4], [2, 3, 5], [(1, 1)], (3, 2)),
        ([5], [1, 2, 3], [], (0, 3)),
        ([1, 2, 3], [2], [(1, 0)], (2, 1)),
        ([1, 2, 1, 2], [1, 2, 2], [(0, 0), (1, 1), (3, 2)], (4, 3)),  # in recorded order
        ([], [1], [], (0, 0)),
    ],
)
def test_rows_of_equal_steps_are_joined_in_recorded_order(first, second, pairs, done):
    rows, others, at, to = matched(first, second)
    assert list(zip(rows.tolist(), others.tolist(), strict=True)) == pairs
    assert (at, to) == done


@pytest.mark.parametrize("portion", [7, 50, 300])
def test_waits_and_times_that_come_apart_are_joined(portion):
    """Every third step has no wait, and waits come a portion later."""
    monitor, steps = Monitor(), np.arange(300)
    times, waits = np.full(300, 0.1), np.full(300, 0.06)
    some = steps[steps % 3 > 0]
    for begin in range(0, 300 + portion, portion):
        rows = steps[begin : begin + portion]
        monitor.take("speed/step_time", rows, times[rows], 1e9 + rows)
        late = some[(some >= begin - portion) & (some < begin)]
        monitor.take("speed/data_wait", late, waits[late], 1e9 + late)
        monitor.advance(1e9 + begin - portion)
    monitor.finish()
    [found] = [each for each in monitor.verdict.findings if each.rule == "data-wait"]
    assert found.values["wait_ratio"] == pytest.approx(0.6)
    assert found.step == some[10 + 100 - 1]
