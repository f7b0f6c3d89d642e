import random

import pytest

from stepscope.capture.budget import Account, Budget


def with_normal(budget, seconds=0.1, steps=10):
    for _ in range(steps):
        budget.normal(seconds)
    return budget


def test_stolen_time_is_what_steps_took_longer_than_usual_ones():
    account = Account(steps=[0.3, 0.2], after=[0.12, 0.1], calls_s=0.01)
    assert account.captured_s(0.1) == pytest.approx(0.31)
    assert account.after_s(0.1) == pytest.approx(0.02)


def test_chance_evens_out_but_stalls_count_at_least():
    assert Account(steps=[0.12, 0.09]).captured_s(0.1) == pytest.approx(0.01)
    assert Account(steps=[0.05, 0.05], start_s=0.02, stop_s=0.01).captured_s(0.1) == pytest.approx(0.03)
    assert Account(after=[0.09, 0.09]).after_s(0.1) == pytest.approx(-0.02)


def test_stalls_between_steps_come_on_top():
    """In a loop over data both lie between steps; then no step has them in its duration."""
    account = Account(steps=[0.2], calls_s=0.03, start_s=0.02, stop_s=0.01)
    assert account.captured_s(0.1) == pytest.approx(0.13)


def test_without_a_usual_step_only_what_was_measured_counts():
    account = Account(steps=[5.0], after=[5.0], start_s=0.2, stop_s=0.1)
    assert account.captured_s(None) == pytest.approx(0.3)
    assert account.after_s(None) == 0.0


def test_the_usual_step_is_the_mean_of_undisturbed_ones_without_the_rare_long_ones():
    budget = Budget(0.01, 0.0)
    assert budget.usual_s is None
    for seconds in (0.1, 0.1, 0.2, 9.0, 0.1):
        budget.normal(seconds)
    assert budget.usual_s == pytest.approx((0.1 + 0.1 + 0.2 + 0.3 + 0.1) / 5)


def test_steps_in_which_a_capture_is_written_down_are_not_usual_ones():
    budget = with_normal(Budget(0.01, 0.0))
    budget.settle(Account())
    for seconds in (0.3, 0.2, 0.1):
        budget.normal(seconds)
    assert budget.usual_s == pytest.approx(0.1)
    assert budget.after_s == pytest.approx(0.3)


def test_a_speed_that_wanders_books_nothing_over_many_captures():
    """Steps whose time varies by a fifth, and captures that cost what their stops take."""
    draw, budget = random.Random(0), Budget(0.01, 0.0)
    for _ in range(300):
        for _ in range(64):
            budget.normal(draw.lognormvariate(-2.3, 0.2))
        after = [draw.lognormvariate(-2.3, 0.2) for _ in range(30)]
        budget.settle(Account(after=after, stop_s=0.01, calls_s=0.01))
    assert budget.captured_s == pytest.approx(3.0)
    assert abs(budget.after_s) < 0.01 * 300 * 30 * 0.1, "a hundredth of the time in which it was measured"


def test_the_first_capture_is_always_allowed_and_the_next_when_time_has_paid_for_both():
    budget = with_normal(Budget(0.01, 100.0))
    assert budget.allows(100.0)
    assert budget.settle(Account(steps=[0.6, 0.6], stop_s=0.2)) == pytest.approx(1.0)
    assert budget.expected_s == pytest.approx(0.5)
    assert not budget.allows(100.0 + 149)
    assert budget.allows(100.0 + 151)
    assert budget.ratio(200.0) == pytest.approx(0.01)


def test_the_total_stays_below_the_limit_over_a_long_run():
    """Captures as often as the budget allows, each of a cost that varies, in simulated time."""
    budget, now, costs = with_normal(Budget(0.01, 0.0)), 0.0, [0.9, 0.2, 0.5, 0.4]
    for turn in range(200):
        while not budget.allows(now):
            now += 0.1
        cost = costs[turn % 4]
        budget.settle(Account(steps=[0.1 + cost]))
        now += 0.1 + cost
    assert now > 9000
    assert 0.009 < budget.ratio(now) <= 0.0101
