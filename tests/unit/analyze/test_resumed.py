"""An attempt that goes on with less than the one before had."""

import numpy as np
import pytest

from stepscope.analyze.health.judge import AttemptSeries
from stepscope.analyze.health.resumed import discontinuities
from stepscope.health.changes import RecordedSeries

STEPS = np.arange(500)


def attempt(number, begin, loss, rate):
    steps = STEPS + begin
    series = {"train/loss": loss, "train/lr": np.broadcast_to(rate, 500), "val/loss": np.full(500, 9.0)}
    return AttemptSeries(
        number, [RecordedSeries(tag, steps, values, 1e9 + steps) for tag, values in series.items()]
    )


def loss(start, to, over=80.0, seed=0):
    return to + (start - to) * np.exp(-STEPS / over) + np.random.default_rng(seed).normal(0, 0.02, 500)


FIRST = attempt(1, 0, loss(3.0, 0.4), 0.1 * np.exp(-STEPS / 300))
RATE = 0.1 * np.exp(-500 / 300)
CASES = {
    "all restored": (400, loss(0.42, 0.38), 0.1 * np.exp(-400 / 300), ""),
    "weights lost": (400, loss(2.9, 0.4), 0.1 * np.exp(-400 / 300), "the weights were not restored"),
    "moments lost": (500, loss(1.0, 0.4), RATE, "the optimizer's state may not have been restored"),
    "schedule lost": (500, loss(0.4, 0.38), 0.1, "the schedule was not restored"),
    "schedule lost, which lifts the loss": (500, loss(1.0, 0.4), 0.1, "the schedule was not restored"),
    "from the beginning again": (0, loss(3.0, 0.4), 0.1, ""),
    "a little noise": (500, loss(0.43, 0.4, seed=3), RATE, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_not_restored_is_named(name):
    begin, values, rate, expected = CASES[name]
    found = list(discontinuities(FIRST, attempt(2, begin, values, rate)))
    assert [each.summary.rpartition(": ")[2] for each in found] == ([expected] if expected else [])
    assert all(each.since == begin and each.rule == "attempt-discontinuous" for each in found)
