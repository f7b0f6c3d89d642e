"""How findings write numbers, and in which order they are shown."""

from dataclasses import replace

from stepscope.health.finding import Finding, as_shown
from stepscope.record.card import by_cost

FINDING = Finding("", "high", "", "", "", "", None, None, 0, 7, 0.0)


def test_what_one_step_made_nan_is_told_in_the_order_of_the_computation():
    def found(rule, wall, step=7, **more):
        return replace(FINDING, rule=rule, wall=wall, step=step, severity="high", **more)

    spike = found("loss-spike", 2.0)
    gradient, loss = found("nonfinite-gradient", 1.0), found("nonfinite-loss", 1.5)
    activation, later = found("nonfinite-activation", 3.0), found("nonfinite-activation", 4.0, step=8)
    mild = replace(spike, severity="low", wall=0.0)
    shown = as_shown([mild, later, loss, spike, activation, gradient])
    assert shown == [activation, gradient, loss, later, spike, mild]
    assert as_shown([replace(loss, closed_step=9), spike]) == [spike, replace(loss, closed_step=9)]


def test_what_is_not_finite_leads_whatever_began_before_it():
    stuck = replace(FINDING, rule="loss-not-decreasing", wall=1.0, step=119)
    loss = replace(FINDING, rule="nonfinite-loss", wall=5.0, step=240)
    worse = replace(FINDING, rule="exploding-gradient", wall=2.0, step=200)
    assert as_shown([stuck, worse, loss]) == [loss, stuck, worse]
    over = replace(loss, closed_step=300)
    assert as_shown([over, stuck]) == [stuck, over]
    beside = replace(loss, severity="medium")
    assert as_shown([beside, stuck]) == [stuck, beside]
    assert by_cost(as_shown([stuck, worse, loss])) == [loss, stuck, worse]


def test_a_finding_that_came_back_is_on_the_card_once():
    waits = replace(FINDING, rule="data-wait", severity="medium", step=9, closed_step=200)
    again = replace(waits, severity="low", step=300, closed_step=None)
    other = replace(waits, tag="speed/other")
    assert by_cost([again, other, waits]) == [other, waits]
    assert by_cost([again, replace(again, severity="medium", closed_step=310)])[0].severity == "medium"
