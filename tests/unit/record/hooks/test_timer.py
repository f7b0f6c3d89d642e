"""When a timer is due; on a clock that only the tests move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import UsageError
from stepscope.kernels.steps import Rest
from stepscope.record.hooks.timer import Timer


def due(timer, steps):
    return [step for step in steps if timer.due(step)]


def test_by_steps_it_is_due_at_the_first_and_at_multiples():
    assert due(Timer(10), range(35)) == [0, 10, 20, 30]
    assert due(Timer(10, first=False), range(35)) == [10, 20, 30]
    assert due(Timer(1), range(4)) == [0, 1, 2, 3]


def test_steps_done_are_counted_from_one():
    timer = Timer(3, first=False)
    timer.start(0)
    assert due(timer, range(1, 10)) == [3, 6, 9]


def test_after_a_resume_the_rhythm_is_the_same():
    assert due(Timer(10), range(37, 61)) == [37, 40, 50, 60]
    timer = Timer(10, first=False)
    timer.start(37)
    assert due(timer, range(38, 61)) == [40, 50, 60]
    timer = Timer(10, first=False)
    timer.start(40)
    assert due(timer, range(41, 61)) == [50, 60]


def test_steps_in_leaps_are_due_at_the_first_beyond_a_multiple():
    assert due(Timer(10, first=False), range(7, 60, 7)) == [14, 21, 35, 42, 56]


def test_steps_that_begin_anew_are_due():
    timer = Timer(10)
    assert due(timer, range(28)) == [0, 10, 20]
    assert due(timer, range(12)) == [0, 10]


def test_a_step_is_due_once():
    timer = Timer(10)
    assert due(timer, [0, 0, 10, 10, 11]) == [0, 10]
    timer = Timer(every_secs=1, now=iter(range(100)).__next__)
    assert due(timer, [0, 0, 0, 1, 1]) == [0, 1]


@given(st.integers(0, 10_000), st.integers(1, 300), st.booleans())
def test_ranks_that_began_at_different_steps_agree(start, every, first):
    """What is due does not depend on when one began to ask, the first step aside."""
    found = due(Timer(every, first=first), range(start, start + 3 * every))
    wanted = [step for step in range(start, start + 3 * every) if step % every == 0]
    if first:
        wanted = sorted({start, *wanted})
    assert found == [step for step in wanted if step > 0 or first]


def test_by_seconds_it_is_due_so_long_after_it_was_due_last(time):
    timer = Timer(every_secs=10, now=lambda: time.steady)
    found = []
    for step in range(60):
        if timer.due(step):
            found.append(step)
        time.pass_(1)
    assert found == [0, 10, 20, 30, 40, 50]


def test_a_long_pause_makes_it_due_once(time):
    timer = Timer(every_secs=10, now=lambda: time.steady)
    timer.due(0)
    time.pass_(95)
    assert timer.due(1)
    assert not timer.due(2)
    time.pass_(9)
    assert not timer.due(3)
    time.pass_(1)
    assert timer.due(4)


def test_seconds_count_from_the_start_where_the_first_step_is_not_due(time):
    timer = Timer(every_secs=10, first=False)
    timer.start(0, lambda: time.steady)
    assert not timer.due(0)
    time.pass_(10)
    assert timer.due(1)
    asked = Timer(every_secs=10, first=False, now=lambda: time.steady)
    assert not asked.due(0)
    time.pass_(10)
    assert asked.due(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either every_n_steps or every_secs, got neither"),
        ({"every_n_steps": 1, "every_secs": 1}, "got both"),
        ({"every_n_steps": 0}, "every_n_steps must be 1 or more"),
        ({"every_n_steps": 1.5}, "every_n_steps must be an integer"),
        ({"every_secs": 0}, "every_secs must be a number of seconds above 0"),
        ({"every_secs": float("nan")}, "every_secs must be"),
    ],
)
def test_arguments_that_cannot_be_right(arguments, message):
    with pytest.raises(UsageError, match=message):
        Timer(**arguments)


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=80),
    st.integers(1, 90),
    st.booleans(),
    st.sampled_from([0, 1]),
    st.integers(1, 70),
)
def test_a_hook_that_rests_as_it_says_misses_nothing(numbers, every, first, ahead, longest):
    """Whatever the numbers of the steps do; likewise by seconds, with the numbers as times."""
    for by_secs in (False, True):
        options = {"every_secs": every} if by_secs else {"every_n_steps": every}
        moments = sorted(numbers) if by_secs else [0] * len(numbers)
        steps = range(len(numbers)) if by_secs else numbers
        time = [0.0]
        asked, rested = (Timer(**options, first=first, now=lambda time=time: time[0]) for _ in range(2))
        asked.start(0)
        rested.start(0)
        rest, found, wanted = Rest(), [], []
        for moment, step in zip(moments, steps, strict=True):
            time[0] = float(moment)
            wanted.append(asked.due(step + ahead))
            if rest.on and rest.left > 0 and rest.low <= step < rest.high and moment < rest.when:
                rest.left -= 1
                found.append(False)
            else:
                rest.on = False
                found.append(rested.due(step + ahead))
                rested.rest(rest, ahead, longest)
        assert found == wanted
