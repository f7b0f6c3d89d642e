import random

import pytest

from stepscope.capture.budget import CaptureAccount, CaptureBudget


def with_normal(budget, seconds=0.1, steps=10):
    for _ in range(steps):
        budget.normal(seconds)
    return budget


def test_stolen_time_is_what_steps_took_longer_than_usual_ones():
    account = CaptureAccount(steps=[0.3, 0.2], writing=[0.15], after=[0.12, 0.1], calls_s=0.01)
    assert account.captured_s(0.1) == pytest.approx(0.31)
    assert account.writing_s(0.1) == pytest.approx(0.05)
    assert account.after_s(0.1) == pytest.approx(0.02)
    assert account.disturbed == 5


def test_chance_evens_out_but_stalls_count_at_least():
    assert CaptureAccount(steps=[0.12, 0.09]).captured_s(0.1) == pytest.approx(0.01)
    assert CaptureAccount(steps=[0.05, 0.05], start_s=0.02, stop_s=0.01).captured_s(0.1) == pytest.approx(
        0.03
    )
    assert CaptureAccount(after=[0.09, 0.09]).after_s(0.1) == pytest.approx(-0.02)


def test_stalls_between_steps_come_on_top():
    """In a loop over data both lie between steps; then no step has them in its duration."""
    account = CaptureAccount(steps=[0.2], calls_s=0.03, start_s=0.02, stop_s=0.01)
    assert account.captured_s(0.1) == pytest.approx(0.13)


def test_without_a_usual_step_only_what_was_measured_counts():
    account = CaptureAccount(steps=[5.0], after=[5.0], start_s=0.2, stop_s=0.1)
    assert account.captured_s(None) == pytest.approx(0.3)
    assert account.after_s(None) == account.writing_s(None) == 0.0


def test_the_usual_step_is_the_mean_of_undisturbed_ones_without_the_rare_long_ones():
    budget = CaptureBudget(0.01, 0.0)
    assert budget.usual_s is None
    for seconds in (0.1, 0.1, 0.2, 9.0, 0.1):
        budget.normal(seconds)
    assert budget.usual_s == pytest.approx((0.1 + 0.1 + 0.2 + 0.3 + 0.1) / 5)


def test_steps_in_which_a_capture_is_written_down_are_not_usual_ones():
    budget = with_normal(CaptureBudget(0.01, 0.0))
    budget.settle(CaptureAccount())
    for seconds in (0.3, 0.2, 0.1):
        budget.normal(seconds)
    assert budget.usual_s == pytest.approx(0.1)
    assert budget.after_s == pytest.approx(0.3)


def test_a_speed_that_wanders_books_nothing_over_many_captures():
    """Steps whose time varies by a fifth, and captures that cost what their stops take."""
    draw, budget = random.Random(0), CaptureBudget(0.01, 0.0)
    for _ in range(300):
        for _ in range(64):
            budget.normal(draw.lognormvariate(-2.3, 0.2))
        after = [draw.lognormvariate(-2.3, 0.2) for _ in range(30)]
        budget.settle(CaptureAccount(writing=after[:2], after=after[2:], stop_s=0.01, calls_s=0.01))
    assert budget.captured_s == pytest.approx(3.0)
    assert abs(budget.writing_s) < 0.01 * 300 * 2 * 0.1 * 4
    assert abs(budget.after_s) < 0.01 * 300 * 30 * 0.1, "a hundredth of the time in which it was measured"


def test_the_first_capture_is_always_allowed_and_the_next_when_time_has_paid_for_both():
    budget = with_normal(CaptureBudget(0.01, 100.0))
    assert budget.allows(100.0)
    assert budget.settle(CaptureAccount(steps=[0.6, 0.6], stop_s=0.2)) == pytest.approx(1.0)
    assert budget.expected_s == pytest.approx(0.5)
    with_normal(budget, steps=4)
    assert not budget.allows(100.0 + 149)
    assert budget.allows(100.0 + 151)
    assert budget.ratio(200.0) == pytest.approx(0.01)


def test_the_total_stays_below_the_limit_over_a_long_run():
    """Captures as often as the budget allows, each of a cost that varies, in simulated time."""
    budget, now, costs = with_normal(CaptureBudget(0.01, 0.0)), 0.0, [0.9, 0.2, 0.5, 0.4]
    for turn in range(200):
        while not budget.allows(now):
            now += 0.1
            budget.normal(0.1)
        cost = costs[turn % 4]
        budget.settle(CaptureAccount(steps=[0.1 + cost]))
        now += 0.1 + cost
    assert now > 9000
    assert 0.009 < budget.ratio(now) <= 0.0101


def test_what_writing_takes_is_not_made_up_for_by_chance_while_the_profile_is_analysed():
    budget = with_normal(CaptureBudget(0.01, 0.0))
    budget.settle(CaptureAccount(writing=[0.3], after=[0.05] * 10))
    assert (budget.writing_s, budget.after_s) == (pytest.approx(0.2), pytest.approx(-0.5))
    assert budget.stolen_s == pytest.approx(0.2)
    assert budget.expected_s == pytest.approx(0.2)


def test_a_capture_is_booked_again_by_the_steps_on_both_sides():
    """A machine that becomes slower: what the steps before say is too much."""
    budget = with_normal(CaptureBudget(0.01, 0.0), 0.1, steps=4)
    assert budget.settle(CaptureAccount(steps=[0.2, 0.2], after=[0.15, 0.15])) == pytest.approx(0.3)
    with_normal(budget, 0.1, steps=2)  # in which the capture is written down
    with_normal(budget, 0.2, steps=3)
    assert budget.stolen_s == pytest.approx(0.3)
    with_normal(budget, 0.2, steps=1)
    assert budget.usual_s == pytest.approx(0.15)
    assert (budget.captured_s, budget.after_s) == (pytest.approx(0.1), pytest.approx(0.0, abs=1e-9))
    with_normal(budget, 9.0, steps=30)
    assert budget.stolen_s == pytest.approx(0.1), "once"


def test_the_next_capture_books_the_one_before_by_what_there_is():
    budget = with_normal(CaptureBudget(0.01, 0.0), 0.1, steps=4)
    budget.settle(CaptureAccount(steps=[0.2] * 9))
    with_normal(budget, 0.1, steps=2)
    with_normal(budget, 0.2, steps=4)
    budget.settle(CaptureAccount())
    assert budget.captured_s == pytest.approx(9 * 0.05)


def test_near_the_limit_a_capture_waits_until_the_one_before_is_booked_for_good():
    budget = with_normal(CaptureBudget(0.01, 0.0))
    budget.settle(CaptureAccount(steps=[1.1], stop_s=1.0))  # a second, and as much is expected of the next
    with_normal(budget, steps=2)
    assert [budget.allows(now) for now in (199.0, 201.0, 399.0, 401.0)] == [False, False, False, True]
    with_normal(budget, steps=1)
    assert [budget.allows(now) for now in (199.0, 201.0)] == [False, True]


def test_an_account_that_is_low_by_chance_does_not_let_more_captures_through():
    """True cost beside the booked one, in simulated time: steps that wander slowly, by far more than that."""
    draw, now, speed, true = random.Random(1), 0.0, 1.0, 0.0
    budget = CaptureBudget(0.01, 0.0)

    def step():
        nonlocal now, speed
        speed = max(0.5, 1 + 0.97 * (speed - 1) + draw.gauss(0, 0.02))
        seconds = 0.02 * speed * draw.lognormvariate(0, 0.05)
        now += seconds
        return seconds

    while now < 600:
        for _ in range(5):
            budget.normal(step())
        if budget.allows(now):
            steps = [step() + 0.003 for _ in range(3)]
            writing = [step() + 0.005]
            true += 3 * 0.003 + 0.005
            now += 3 * 0.003 + 0.005
            budget.settle(CaptureAccount(steps=steps, writing=writing, after=[step() for _ in range(25)]))
    assert 0.004 < true / now <= 0.011
    assert budget.ratio(now) <= 0.0105


def test_what_the_user_asked_for_is_booked_and_neither_held_nor_paid_for():
    budget = with_normal(CaptureBudget(0.01, 0.0))
    assert budget.settle(CaptureAccount(steps=[5.1], stop_s=1.0), held=False) == pytest.approx(5.0)
    assert budget.stolen_s == pytest.approx(5.0)
    assert budget.allows(1.0)  # the first that is held
    budget.settle(CaptureAccount(steps=[0.6]))
    assert not budget.allows(90.0)
    with_normal(budget)
    assert budget.allows(1000.0)
    assert budget.ratio(1000.0) == pytest.approx(0.0055)
