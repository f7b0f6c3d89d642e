"""How findings write numbers, and in which order they are shown."""

from __future__ import annotations

from dataclasses import replace

from stepscope.health.finding import Finding, as_shown

FINDING = Finding("", "high", "", "", "", "", None, None, 0, 7, 0.0)


def test_what_one_step_made_nan_is_told_in_the_order_of_the_computation():
    def found(rule, wall, step=7, **more):
        return replace(FINDING, rule=rule, wall=wall, step=step, severity="high", **more)

    spike = found("loss-spike", 2.0)
    gradient, loss = found("nonfinite-gradient", 1.0), found("nonfinite-loss", 1.5)
    activation, later = found("nonfinite-activation", 3.0), found("nonfinite-activation", 4.0, step=8)
    mild = replace(spike, severity="low", wall=0.0)
    shown = as_shown([mild, later, loss, spike, activation, gradient])
    assert shown == [activation, gradient, loss, spike, later, mild]
    assert as_shown([replace(loss, closed_step=9), spike]) == [spike, replace(loss, closed_step=9)]
