import pytest

from stepscope.capture.schedule import SlowSteps
from stepscope.errors import UsageError


def found(seconds, factor=3.0):
    slow = SlowSteps(factor)
    return [step for step, each in enumerate(seconds) if slow.found(each)]


def test_tells_a_step_that_took_several_times_the_median():
    assert found([0.1] * 20 + [0.31] + [0.1] * 10) == [20]
    assert found([0.1] * 20 + [0.29] + [0.1] * 10) == []


def test_does_not_judge_before_it_knows_what_is_usual():
    assert found([9.0] + [0.1] * 14) == []


def test_tells_a_training_that_has_become_slow_once():
    assert found([0.1] * 32 + [0.5] * 60) == [32]


def test_never_where_it_was_not_asked_for():
    assert found([0.1] * 20 + [9.0], factor=None) == []


@pytest.mark.parametrize("factor", [1, 0.5, float("inf"), "3"])
def test_a_factor_that_cannot_be_right_is_refused(factor):
    with pytest.raises(UsageError):
        SlowSteps(factor)


def test_it_says_for_how_many_steps_its_limit_holds():
    slow = SlowSteps(3)
    assert slow.rest == (16, float("inf"))
    for _ in range(10):
        assert not slow.found(0.01)
    assert slow.rest == (6, float("inf"))
    for _ in range(6):
        assert not slow.found(0.01)
    assert slow.rest == (16, pytest.approx(0.03))
    assert SlowSteps(None).rest[0] > 1 << 40
