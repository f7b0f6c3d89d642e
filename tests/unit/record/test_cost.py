import pytest

from stepscope.kernels.points import Points
from stepscope.record.clock import Clock
from stepscope.record.cost import UNSEEN, Cost


def account(now: float, cpu: float) -> Cost:
    cost = Cost(Points(), Clock(steady=lambda: now))
    cost.restart(now, cpu)
    return cost


def test_shares_are_of_the_time_since_the_last_report():
    cost = account(100.0, 1.0)
    assert not cost.due(104.9)
    assert cost.due(105.0)
    cost.seconds, cost.steps = 0.01, 20
    assert cost.report(105.0, 1.05) == {
        "stepscope/overhead_us_per_step": pytest.approx(500.0 * UNSEEN),
        "stepscope/overhead_ratio": pytest.approx(0.002 * UNSEEN),
        "stepscope/writer_cpu_ratio": 0.01 * (1.05 - 1.0) / 0.05,
    } | {"stepscope/writer_cpu_ratio": (1.05 - 1.0) / 5.0}
    cost.seconds += 0.001
    assert cost.report(110.0, 1.05) == {
        "stepscope/overhead_ratio": pytest.approx((0.011 - 0.01) / 5.0 * UNSEEN),
        "stepscope/writer_cpu_ratio": 0.0,
    }


def test_without_steps_there_is_no_cost_per_step():
    assert "stepscope/overhead_us_per_step" not in account(0.0, 0.0).report(5.0, 0.0)


def test_a_moment_after_a_report_says_nothing():
    cost = account(0.0, 0.0)
    assert cost.report(0.1, 0.0)
    assert cost.report(0.2, 0.0) == {}
    assert cost.report(0.7, 0.0)
