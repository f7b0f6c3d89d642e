"""Evaluations, each with the training loss since the one before."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.evaluations import Evaluated
from stepscope.health.series import stream_of
from stepscope.names.meanings import Meanings


class Noted(Evaluated):
    """Notes what it is asked to judge."""

    id = title = formula = source = window = action = "noted"

    def __init__(self):
        super().__init__()
        self.noted = []

    def evaluation(self, at, value, train):
        self.noted.append((at.step, at.first_step, value, train))

    def forget(self, stream):
        self.noted.append("begins again")


TRAIN, OTHER = stream_of("train/loss"), stream_of("train/z", meanings=Meanings({"train/z": "loss"}))
EVAL = stream_of("eval/loss")


def points(stream, steps, values):
    steps = np.asarray(steps)
    return Chunk(stream, steps, np.asarray(values, float), steps + (0.5 if stream is EVAL else 0.0))


@pytest.mark.parametrize("portion", [1, 3, 10])
def test_an_evaluation_is_judged_with_the_mean_training_loss_since_the_last(portion):
    rule = Noted()
    losses = np.array([4.0, 2.0, np.nan, 8.0, 1.0, 3.0, 5.0, 7.0, 2.0, 2.0])
    evaluations = {0: 9.0, 3: 8.0, 4: np.inf, 7: 7.0}
    for begin in range(0, 10, portion):
        rows = np.arange(begin, min(begin + portion, 10))
        there = [step for step in evaluations if step in rows]
        chunks = [points(TRAIN, rows, losses[rows]), points(OTHER, rows, losses[rows] + 100)]
        if there:
            chunks.append(points(EVAL, there, [evaluations[step] for step in there]))
        rule.take(StreamBatch(chunks))
    assert rule.noted == [(0, 0, 9.0, 4.0), (3, 0, 8.0, 5.0), (7, 4, 7.0, 5.0)]
    assert rule.missing != "not recorded: a training loss"


def test_without_new_training_losses_the_last_mean_stands():
    rule = Noted()
    rule.take(StreamBatch([points(EVAL, [0], [9.0])]))
    assert rule.noted == []
    assert rule.missing == "not recorded: a training loss"
    rule.take(StreamBatch([points(TRAIN, [1, 2], [4.0, 2.0]), points(EVAL, [2], [8.0])]))
    rule.take(StreamBatch([points(EVAL, [3], [7.0])]))
    assert rule.noted == [(2, 0, 8.0, 3.0), (3, 2, 7.0, 3.0)]


def test_training_alone_lacks_an_evaluation():
    rule = Noted()
    rule.take(StreamBatch([points(TRAIN, [1, 2], [4.0, 2.0])]))
    assert rule.missing == "not recorded: an evaluation loss, as eval/loss"


def test_another_stage_begins_again():
    rule = Noted()
    stage, eight = stream_of("curriculum/stage"), np.arange(8)
    for begin in (0, 8):
        batch = StreamBatch(
            [
                points(stage, [begin], [begin]),
                points(TRAIN, begin + eight, [1.0] * 8),
                points(EVAL, [begin + 3, begin + 7], [2.0, 3.0]),
            ]
        )
        rule.context.take(batch)
        rule.take(batch)
    assert rule.noted == [
        (3, 3, 2.0, 1.0),
        (7, 3, 3.0, 1.0),
        "begins again",
        (11, 7, 2.0, 1.0),
        (15, 11, 3.0, 1.0),
    ]
