"""Speed, on a clock that only the tests move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.record.hooks import progress
from stepscope.record.hooks.progress import percentile


def train(run, time, seconds, *, examples=0, tokens=0):
    """Steps of so many seconds each."""
    for took in seconds:
        with run.step():
            time.pass_(took)
            run.count(examples, tokens)


def found(run):
    run.drain()
    return {
        tag: points
        for tag in [*progress.PERCENTILES.values(), *TAGS]
        if (points := run.writers[-1].series(tag))
    }


TAGS = [
    "speed/steps_per_second", "speed/examples_per_second", "speed/tokens_per_second",
    "speed/step_time_max_ms", "speed/data_wait_ratio", "global_step/sec",
]  # fmt: skip


def test_a_window_is_recorded_at_its_last_step(fake, time):
    run = fake(hooks=[ss.StepCounterHook(10)])
    train(run, time, [0.5] * 19 + [1.5], examples=4, tokens=100)
    series = found(run)
    assert series["speed/steps_per_second"] == [(9, 2.0), (19, pytest.approx(10 / 6))]
    assert series["speed/examples_per_second"] == [(9, 8.0), (19, pytest.approx(40 / 6))]
    assert series["speed/tokens_per_second"][0] == (9, 200.0)
    assert series["speed/step_time_p50_ms"] == [(9, 500.0), (19, 500.0)]
    assert series["speed/step_time_max_ms"] == [(9, 500.0), (19, 1500.0)]
    assert series["speed/step_time_p95_ms"][1] == (19, pytest.approx(np.percentile([500] * 9 + [1500], 95)))
    assert "global_step/sec" not in series


def test_what_is_not_counted_is_not_recorded(fake, time):
    run = fake(hooks=[ss.StepCounterHook(2)])
    train(run, time, [1, 1])
    assert set(found(run)) == {
        "speed/steps_per_second",
        "speed/step_time_max_ms",
        *progress.PERCENTILES.values(),
    }


def test_a_window_in_which_nothing_was_counted_any_more_has_none(fake, time):
    run = fake(hooks=[ss.StepCounterHook(2)])
    train(run, time, [1, 1], examples=1)
    train(run, time, [1, 1])
    assert found(run)["speed/examples_per_second"] == [(1, 1.0), (3, 0.0)]


def test_the_share_of_waiting_for_data(fake, time):
    def slow():
        for _ in range(4):
            time.pass_(0.3)
            yield None

    run = fake(hooks=[ss.StepCounterHook(4)])
    for _ in run.steps(slow()):
        time.pass_(0.7)
    assert found(run)["speed/data_wait_ratio"] == [(3, pytest.approx(0.3))]


def test_what_lies_between_steps_counts_as_time_that_passed(fake, time):
    run = fake(hooks=[ss.StepCounterHook(2)])
    time.pass_(100)  # before the first step: not part of any window
    train(run, time, [1])
    time.pass_(8)
    train(run, time, [1])
    series = found(run)
    assert series["speed/steps_per_second"] == [(1, pytest.approx(0.2))]
    assert series["speed/step_time_max_ms"] == [(1, 1000.0)]


def test_after_a_resume_windows_end_where_they_would_have(fake, time):
    run = fake(start_step=37, hooks=[ss.StepCounterHook(10)])
    train(run, time, [1] * 15)
    assert [step for step, _ in found(run)["speed/steps_per_second"]] == [39, 49]


def test_windows_of_seconds(fake, time):
    run = fake(hooks=[ss.StepCounterHook(every_secs=5)])
    train(run, time, [1] * 12)
    assert [step for step, _ in found(run)["speed/steps_per_second"]] == [4, 9]


def test_tensorflows_tag(fake, time):
    run = fake(hooks=[ss.StepCounterHook(2, tensorflow_tag=True)])
    train(run, time, [0.25] * 2)
    assert found(run)["global_step/sec"] == [(1, 4.0)]


def test_a_run_shorter_than_a_window_has_its_speed_at_the_end(real, read):
    with real(hooks=[ss.StepCounterHook(100)]) as run:
        list(run.steps(range(3)))
    [(step, rate)] = read(run)["speed/steps_per_second"]
    assert step == 2
    assert rate > 0


def test_a_later_window_that_does_not_fill_is_not_recorded(real, read):
    with real(hooks=[ss.StepCounterHook(2)]) as run:
        list(run.steps(range(5)))
    assert [step for step, _ in read(run)["speed/steps_per_second"]] == [1, 3]


def test_of_a_long_window_a_sample_is_kept_and_the_extreme(fake, time, monkeypatch):
    monkeypatch.setattr(progress, "MAX_TIMES", 50)
    hook = ss.StepCounterHook(1000)
    run = fake(hooks=[hook])
    train(run, time, [9.0] + [1.0 + number / 1000 for number in range(998)])
    assert len(hook._times) == 50
    train(run, time, [1.0])
    series = found(run)
    assert series["speed/step_time_max_ms"] == [(999, 9000.0)]
    assert 1200 < series["speed/step_time_p50_ms"][0][1] < 1800


def test_both_intervals_are_refused():
    with pytest.raises(UsageError, match="got both"):
        ss.StepCounterHook(10, 5.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_numpys(numbers, percent):
    assert percentile(sorted(numbers), percent) == pytest.approx(np.percentile(numbers, percent), rel=1e-9)
