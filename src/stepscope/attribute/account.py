"""The time of each step by purpose: an account that adds up to the step."""

from __future__ import annotations

from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Times
from stepscope.attribute.step_tree import StepTree
from stepscope.trace.model import Trace


def account(trace: Trace, tree: StepTree) -> Times:
    """Return i8[windows, purposes], in ns; each row adds up to its window.

    Time in which nothing was recorded on any lane has no known purpose.
    """
    spent = tree.summed(attribution(trace).purpose[tree.row], len(Purpose))
    spent[:, Purpose.UNKNOWN] += tree.nothing_ns
    return spent
