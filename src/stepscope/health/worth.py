"""Whether a cost in time is worth a finding: one judgement for all that is reported as lost."""

from __future__ import annotations

from stepscope.health.finding import Severity

WORTH = 0.03
"""Share of the time from which on a loss is worth a word: advice is given for it, a rank is named."""
MEDIUM, HIGH = 0.1, 0.2
"""Shares of the time from which on a loss of time is medium, and is high."""

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


def severity_of(share: float, *, medium: float = MEDIUM, high: float = HIGH) -> Severity:
    """Return the severity of a loss of time, the same for health and for advice.

    Args:
        share: Of the time of the steps, of a loss that is worth a finding.
        medium: The share from which on it is medium ...
        high: ... and high.
    """
    return "high" if share >= high else "medium" if share >= medium else "low"
