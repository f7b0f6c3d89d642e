"""Recording some of what is logged."""

import threading

import numpy as np
import pytest
from support.clock import Time

import stepscope as ss
from stepscope.errors import UsageError


def steps_of(run, tag="x"):
    run.close()
    with ss.open(run.log_dir, cache=False) as log:
        stored = log.run(".")
        if tag in stored.tags():
            return stored.columns(tag)[0].step.tolist()
        return [step for series in stored.record(tag) for step in series.step.tolist()]


def test_every_n_steps_for_all_kinds(run):
    for _ in range(10):
        with run.step(), run.record_if(every_n_steps=4):
            run.scalar("x", 1.0)
            run.scalars({"y": 1.0})
            run.text("t", "x")
    run.flush()
    assert steps_of(run) == steps_of(run, "y") == steps_of(run, "t") == [0, 4, 8]


def test_outside_of_the_block_everything_is_recorded(run):
    usual = run.__dict__.get("scalar")
    with run.record_if(False):
        run.scalar("x", 1.0, 0)
        run.text("t", "x", 0)
    run.scalar("x", 1.0, 1)
    run.text("t", "x", 1)
    assert run.__dict__.get("scalar") == usual
    assert steps_of(run) == steps_of(run, "t") == [1]


def test_as_a_condition_it_spares_the_work(run):
    made = 0
    for step in range(9):
        with run.step():
            if run.record_if(every_n_steps=3):
                made += 1
                run.scalar("x", float(step))
    assert made == 3
    assert steps_of(run) == [0, 3, 6]


def test_the_innermost_counts_as_with_tf_summary(run):
    with run.record_if(False):
        run.scalar("x", 1.0, 0)
        with run.record_if(True):
            run.scalar("x", 1.0, 1)
        run.scalar("x", 1.0, 2)
    assert steps_of(run) == [1]


def test_conditions_with_and_without_the_step(run):
    asked = iter([False, False, False, False, True, False])
    for step in range(6):
        with run.record_if(lambda step: step % 2 == 0):
            run.scalar("x", 1.0, step)
        with run.record_if(lambda: next(asked)):
            run.scalar("y", 1.0, step)
    assert steps_of(run) == [0, 2, 4]
    assert steps_of(run, "y") == [4]


def test_every_seconds_keeps_its_time_over_rounds_of_a_loop(tmp_path):
    time = Time(100.0)
    with ss.Run(tmp_path, _clock=time.clock) as run:
        for step in range(10):
            time.now += 1.0
            with run.record_if(every_secs=3):
                run.scalar("x", 1.0, step)
                run.scalar("together", 1.0, step)
    assert steps_of(run) == steps_of(run, "together") == [0, 3, 6, 9]


def test_by_chance_without_touching_the_programs_seed(run):
    import random

    random.seed(7)
    before = random.getstate()
    for step in range(400):
        with run.record_if(probability=0.25):
            run.scalar("x", 1.0, step)
            run.scalar("y", 1.0, step)
    assert random.getstate() == before
    found = steps_of(run)
    assert 50 < len(found) < 160
    assert steps_of(run, "y") == found


def test_without_steps_each_so_many_calls(run):
    for value in range(7):
        with run.record_if(every_n_steps=3):
            run.scalar("x", float(value))
    run.close()
    with ss.open(run.log_dir, cache=False) as log:
        assert log.run(".").columns("x")[0].value.tolist() == [0.0, 3.0, 6.0]


def test_other_threads_are_not_meant(run):
    within, done = threading.Event(), threading.Event()

    def other():
        within.wait(10)
        run.scalar("x", 1.0, 5)
        run.text("t", "x", 5)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with run.record_if(False):
        within.set()
        done.wait(10)
    thread.join()
    assert steps_of(run) == steps_of(run, "t") == [5]


def test_a_condition_that_fails_is_told_and_records(run, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with (
        run.record_if(lambda: 1 / 0),
        pytest.warns(RuntimeWarning, match="record_if raised ZeroDivisionError"),
    ):
        run.scalar("x", 1.0, 0)
    assert run.problems == {"record_if": 1}
    assert steps_of(run) == [0]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"every_n_steps": 0}, {"every_secs": -1}, {"probability": 2}, {"every_n_steps": 5, "every_secs": 1}],
)
def test_what_makes_no_sense_is_refused(wrong, run):
    with pytest.raises(UsageError):
        run.record_if(**wrong)


def test_it_is_not_a_loss(run):
    with run.record_if(False):
        run.image("i", np.zeros((2, 2, 3)))
    assert run.problems == {}
