"""Steps from callbacks, on a clock that only the test moves."""

import pytest
from support.clock import Time

from stepscope.integrations.stepper import Stepper
from stepscope.record import Run


@pytest.fixture
def time():
    return Time(50.0)


@pytest.fixture
def run(tmp_path, time):
    with Run(tmp_path / "run", _clock=time.clock) as run:
        yield run


def last(run):
    return run.last_step.step, run.last_step.seconds, run.last_step.waited


def test_the_wait_lies_between_asking_and_the_step(run, time):
    stepper = Stepper(run)
    stepper.asking()
    time.now += 2
    stepper.begin(7)
    assert stepper.running
    time.now += 3
    stepper.end()
    assert last(run) == (7, 5.0, 2.0)
    assert not stepper.running


def test_where_it_is_known_when_the_data_came_the_rest_is_work(run, time):
    stepper = Stepper(run)
    stepper.asking()
    time.now += 2
    stepper.got()
    time.now += 1  # to the device
    stepper.begin()
    time.now += 3
    stepper.end()
    assert last(run) == (0, 6.0, 2.0)


def test_a_step_of_several_batches_waits_for_each(run, time):
    stepper = Stepper(run)
    for _ in range(3):
        stepper.asking()
        time.now += 2
        stepper.got()
        if not stepper.running:
            stepper.begin()
        time.now += 5
    stepper.end()
    assert last(run) == (0, 21.0, 6.0)


def test_without_asking_the_wait_is_not_known(run, time):
    stepper = Stepper(run)
    stepper.begin()
    time.now += 3
    stepper.end()
    assert last(run) == (0, 3.0, None)
    stepper.got()  # nobody asked
    stepper.begin()
    time.now += 1
    stepper.end()
    assert last(run) == (1, 1.0, None)


def test_an_abandoned_step_has_no_time(run, time):
    stepper = Stepper(run)
    stepper.begin(3)
    stepper.abandon()
    stepper.end()
    assert run.last_step is None
    stepper.begin()
    time.now += 1
    stepper.end()
    assert last(run) == (4, 1.0, None)


def test_a_step_that_somebody_else_began_is_left_alone(run, time):
    stepper = Stepper(run)
    stepper.begin()
    run.step_counter.begin(time.now)
    time.now += 1
    stepper.end()
    assert run.last_step is None


def test_loops_of_the_users_own_are_part_of_the_frameworks_steps(run, time, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    stepper = Stepper(run)
    stepper.begin()
    with pytest.warns(RuntimeWarning, match=r"steps a framework numbers \(step 0\): .* not counted"):
        assert [run.current_step for _ in run.steps(range(3))] == [0, 0, 0]
    time.now += 1
    stepper.end()
    list(run.steps(range(3)))  # an evaluation between two steps
    assert (run.last_step.step, run.total_steps) == (0, None)
    stepper.abandon()  # the training is over
    assert [run.current_step for _ in run.steps(range(3))] == [1, 2, 3]


def test_a_clock_around_the_loader_says_which_part_of_the_time_was_the_wait(run, time):
    stepper = Stepper(run)
    stepper.fetched(4)  # nobody asks: it is of an evaluation
    stepper.asking()
    stepper.fetched(4)
    stepper.asking()
    time.now += 5
    stepper.fetched(1)
    stepper.fetched(2)
    stepper.begin()
    time.now += 3
    stepper.end()
    assert last(run) == (0, 8.0, 3.0)
    stepper.asking()
    time.now += 1
    stepper.begin()
    stepper.end()
    assert last(run) == (1, 1.0, 1.0)
