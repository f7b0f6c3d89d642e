"""Whether a cost in time is worth a finding: one judgement for all that is reported as lost."""

from __future__ import annotations

RESOLUTION_S = 1e-6
"""The time that measuring a step takes: readings of the clock and the calls around them.

Nothing shorter can be told from it, whatever share of a step it is: a loop over ``range`` waits 40 ns for its
next number.
"""


def is_worth(cost_s: float, whole_s: float, *, ratio: float, steps: float = 1) -> bool:
    """Return whether a cost is a share of the run's time that matters, and more than measuring it takes.

    Args:
        cost_s: Possible saving, of all the steps together.
        whole_s: The time in which it arose.
        ratio: Least share of that time.
        steps: How many steps there were.
    """
    return cost_s >= ratio * whole_s and cost_s > steps * RESOLUTION_S
