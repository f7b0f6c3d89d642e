from stepscope.record.steps import Steps


def test_numbers_count_on_and_times_are_in_milliseconds():
    steps = Steps(next=5)
    assert steps.current is None
    assert steps.begin(1.0, 0.25) == 5
    assert steps.end(3.0) == (5, 2.0, 0.25)
    assert steps.begin(3.0) == 6
    assert steps.current == 6
    assert steps.end(3.5) == steps.last == (6, 0.5, None)
    assert (steps.done, steps.running) == (2, False)


def test_an_abandoned_step_has_no_time():
    steps = Steps()
    steps.begin(0.0)
    steps.abandon()
    assert (steps.running, steps.done, steps.last) == (False, 0, None)
