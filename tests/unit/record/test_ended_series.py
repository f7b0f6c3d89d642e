import numpy as np
import pytest

import stepscope as ss


def ended(directory):
    return ss.open(directory, cache=False).run(".").info.ended_series


@pytest.mark.parametrize("flushed", [True, False])
def test_a_series_that_ends_while_the_training_goes_on_is_a_fact_of_the_run(tmp_path, flushed):
    with ss.Run(tmp_path) as run:
        for step in run.steps(range(200)):
            run.scalar("train/loss", 1.0)
            if step < 100:
                run.scalar("train/warmup", 1.0)
            if step % 20 == 0:
                run.scalar("eval/loss", 1.0)
            if flushed and step % 40 == 0:
                run.flush()
    assert ended(tmp_path) == {"train/warmup": 99}
    [problem] = [each for each in ss.open(tmp_path, cache=False).run(".").problems if each.kind == "ended"]
    assert problem.text == "series ended while the training went on: train/warmup at step 99"


def test_series_that_go_on_are_too_short_or_are_numbered_otherwise_have_not_ended(tmp_path):
    with ss.Run(tmp_path) as run:
        for step in run.steps(range(400)):
            run.scalar("train/loss", 1.0)
            if step % 10 == 0:
                run.scalar("by epoch", 1.0, step=step // 10)
            if step < 5:
                run.scalar("short", 1.0)
            if step < 100:
                run.scalar("gradients/layer/norm", 1.0)  # its hook states what it misses
            if step % 50 == 0:
                run.flush()
    assert ended(tmp_path) == {}


def test_a_series_that_comes_back_has_not_ended(tmp_path):
    with ss.Run(tmp_path) as run:
        for step in run.steps(range(300)):
            if not 50 <= step < 250:
                run.scalar("train/loss", 1.0)
    assert ended(tmp_path) == {}


def test_without_steps_nothing_is_judged(tmp_path):
    with ss.Run(tmp_path) as run:
        for step in range(100):
            run.scalar("a", 1.0, step)
        for step in range(1000):
            run.scalar("b", 1.0, step)
    assert ended(tmp_path) == {}


def test_first_and_last_steps_of_points_of_one_portion():
    from stepscope.record.ended_series import EndedSeries

    series = EndedSeries(["a", "b"])
    steps = np.repeat(np.arange(20), 2)
    series.take(np.tile(np.array([0, 1], np.int32), 20), steps, 19)
    series.take(np.zeros(100, np.int32), np.arange(20, 120), 119)
    assert series.ended(119) == {"b": 19}
    assert series.ended(24) == {}
