"""slower-steps: steps take longer for good."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stepscope.health.facts import Facts
from stepscope.health.looks import FactRule, Seen
from stepscope.health.rule import thresholds
from stepscope.health.series import Stream
from stepscope.text import number

BLOCKS = 16
"""Stretches of a run that are compared."""
FEWEST = 4 * BLOCKS
"""Points for a lower quartile in each."""


class SlowerSteps(FactRule):
    """Compares lower quartiles: single long steps, and other work that comes and goes, do not count."""

    id = "slower-steps"
    title = "Steps became slower"
    severity = "medium"
    formula = (
        "the lower quartiles of step times in all later sixteenths of the run exceed ratio * those in all "
        "earlier ones, at least two on either side, and more than lost_s seconds were lost"
    )
    source = "ours; quartiles because other work on a machine lengthens some steps and not all"
    window = "once two sixteenths of the run were slower"
    chance = "none from noise; other work that stays on the machine is reported, too"
    fewest = "64 step times"
    roles = ("step_time",)
    defaults = thresholds(ratio=1.5, lost_s=10)
    action = (
        "compare a step before this one with a later one: stepscope diff of two captures; usual causes are "
        "inputs that grew, lists that grow with each step, a graph that is recompiled, a processor that "
        "throttles, and other work on the machine"
    )

    def see(self, facts: Facts, stream: Stream) -> Seen | None:
        steps, means = facts.curve
        if len(means) < FEWEST:
            return None
        self.judged()
        edges = np.linspace(0, len(means), BLOCKS + 1).astype(int)
        low = np.array([np.quantile(means[a:b], 0.25) for a, b in pairwise(edges.tolist())])
        # The first block holds what only the first steps do: compilation, caches, loaders that start.
        fastest = np.minimum.accumulate(low[::-1])[::-1]
        slowest = np.maximum.accumulate(low[1:])
        ratios = fastest[3:-1] / np.maximum(slowest[1:-2], 1e-12)
        cut = int(ratios.argmax()) + 3
        before, after = float(np.median(low[1:cut])), float(np.median(low[cut:]))
        lost_s = (after - before) * facts.count * (BLOCKS - cut) / BLOCKS
        if ratios[cut - 3] <= self.limits["ratio"] or lost_s <= self.limits["lost_s"]:
            return None
        middle = (before + after) / 2
        # The beginning is dated within the block before the first one that is slow as a whole.
        begin, end = int(edges[cut - 1]), int(edges[cut])
        fast = np.flatnonzero(means[begin:end] < middle)
        since = begin + int(fast[-1]) + 1 if len(fast) else begin
        text = f"a step took {number(1e3 * before)} ms before, and {number(1e3 * after)} ms since"
        values = {"before_ms": 1e3 * before, "after_ms": 1e3 * after, "lost_s": lost_s}
        return Seen(text, values, int(steps[min(since, len(steps) - 1)]))
