"""learning-rate: it jumps, is no possible value, or is 0 while training goes on."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk
from stepscope.health.finding import number
from stepscope.health.gate import Gate
from stepscope.health.rule import At, PerStream, Rule, Watch, thresholds
from stepscope.health.series import Stream

WARM_UP = 10
"""First points, in which a warm-up may begin from next to nothing."""


class LearningRate(PerStream):
    """Compares each learning rate with the one before."""

    id = "learning-rate"
    title = "Learning-rate anomaly"
    formula = (
        "negative or not finite; or changed by more than factor * from one point to the next, after the "
        "first 10; or 0 for zeros points in a row"
    )
    source = "trainpulse (10 * in one step); the others: ours"
    window = "at the point; for 0 at the hundredth in a row"
    roles = ("learning_rate",)
    defaults = thresholds(factor=10, zeros=100, calm=100)
    action = (
        "look at the scheduler: is it stepped once per step or once per epoch as it expects, is its state in "
        "the checkpoint? A restart of a cosine schedule is meant to jump: switch this rule off for it"
    )

    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""
        return _Rates(self)


class _Rates(Watch):
    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        calm = rule.limit("calm")
        self._impossible, self._jump = Gate(closes=calm), Gate(closes=calm)
        self._zero = Gate(opens=rule.limit("zeros"))
        self._last, self._count = 0.0, 0

    def take(self, chunk: Chunk) -> None:
        rule = self._rule
        rule.judged()
        if self._count == 0 and len(chunk) > 1:
            self.take(chunk.part(slice(1)))
            chunk = chunk.part(slice(1, None))
        values = chunk.values
        quiet = not (self._impossible.is_open or self._jump.is_open or self._zero.is_open)
        if quiet and self._last > 0 and self._calm(values):
            self._count += len(values)
            self._last = float(values[-1])
            for gate in (self._impossible, self._jump, self._zero):
                gate.run(np.zeros(len(values), bool))
            return
        for index, value in enumerate(values.tolist()):
            self._point(At.row(chunk, index), value)

    def _calm(self, values: NDArray[np.float64]) -> bool:
        """Whether nothing about these values can be wrong, so that they need no look one by one."""
        if not (np.isfinite(values).all() and (values > 0).all()):
            return False
        before = np.concatenate([[self._last], values[:-1]])
        factor = self._rule.limits["factor"]
        return bool(((values <= before * factor) & (before <= values * factor)).all())

    def _point(self, at: At, value: float) -> None:
        last, self._count = self._last, self._count + 1
        impossible = not isfinite(value) or value < 0
        factor = self._rule.limits["factor"] * (1 + 1e-3)  # float32 makes a tenth a little less than a tenth
        both = not impossible and value > 0 and last > 0
        jumped = both and self._count > WARM_UP and not last / factor <= value <= last * factor
        self._change(self._impossible, impossible, at, f"the learning rate is {value:g}", value, "impossible")
        self._change(
            self._jump,
            jumped,
            at,
            f"the learning rate went from {number(last)} to {number(value)}",
            value,
            "jump",
        )
        text = f"the learning rate has been 0 for {self._zero.opens} points"
        self._change(self._zero, value == 0, at, text, value, "zero")
        if not impossible:
            self._last = value

    def _change(self, gate: Gate, bad: bool, at: At, text: str, value: float, about: str) -> None:
        change = gate.see(bad)
        if change == "close":
            self._rule.close(at, about=about)
        elif change == "open":
            self._rule.open(at, text, {"value": value, "before": self._last}, about=about)
