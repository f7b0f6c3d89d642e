"""step-outliers: single steps take much longer than the others."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.health.batch import Chunk
from stepscope.health.ring import Floats, median, spread
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, Told, Windowed, finite, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

EVERY = 50
SKIPPED = 10
"""First steps: compilation, caches, loaders that start."""


class StepOutliers(PerStream):
    """Adds up the cost of single long steps; short delays from other work on the machine do not count."""

    id = "step-outliers"
    title = "Step-time outliers"
    severity = "low"
    formula = (
        "t > ratio * median and t > median + max(z * 1.4826 MAD, least_s), for at least count of the last "
        "window steps; their excess > cost * the time of the window, > cost * that of the run, and > lost_s "
        "in all; two checks in a row"
    )
    source = (
        "SageMaker Debugger StepOutlier (3 sigma, 10 outliers), trainpulse (3 * the median); by cost to "
        "the run: ours"
    )
    window = "within 300 steps, from the 210th on, once lost_s seconds are lost"
    chance = "none from delays below least_s; from longer ones, whenever they cost a tenth of a run"
    fewest = "210 steps"
    roles = ("step_time",)
    defaults = thresholds(ratio=2, z=3, least_s=0.02, count=10, cost=0.1, lost_s=1, window=200, checks=2)
    action = (
        "compare a long step with a short one in a profile; usual causes are checkpoints, evaluation "
        "inside the step, garbage collection, recompilation (shapes that change), other work on the machine"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Window(self)


class _Window(Windowed):
    def __init__(self, rule: Rule) -> None:
        super().__init__(rule, EVERY)
        self._left = SKIPPED
        self._all = self._lost = 0.0

    def take(self, chunk: Chunk) -> None:
        chunk = finite(chunk)
        skipped = min(self._left, len(chunk))
        self._left -= skipped
        super().take(chunk.part(slice(skipped, None)))

    def judge(self, values: Floats) -> Callable[[At], Told] | None:
        limits = self.rule.limits
        middle = median(values)
        limit = max(
            limits["ratio"] * middle, middle + max(limits["z"] * spread(values, middle), limits["least_s"])
        )
        long = values > limit
        total = float(values.sum())
        cost = float((values[long] - middle).sum()) / total if total > 0 else 0.0
        new = values[-EVERY:] if self._all else values
        self._all += float(new.sum())
        self._lost += float((new[new > limit] - middle).sum())
        if long.sum() < limits["count"] or cost <= limits["cost"]:
            return None
        if self._lost <= max(limits["lost_s"], limits["cost"] * self._all):
            return None
        text = (
            f"{int(long.sum())} of the last {len(values)} steps took more than {number(1e3 * limit)} ms, "
            f"the median is {number(1e3 * middle)} ms; they cost {cost:.0%} of the time"
        )
        evidence = {
            "outliers": int(long.sum()),
            "median_ms": 1e3 * middle,
            "longest_ms": 1e3 * float(values.max()),
            "cost_ratio": cost,
            "lost_s": self._lost,
        }
        return lambda at: (text, evidence)
