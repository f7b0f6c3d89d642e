"""learning-rate: it jumps to a new level, is not a valid value, or is 0 while training goes on."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk
from stepscope.health.gate import AlarmGate
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

WARM_UP = 10
"""First points, in which a warm-up may begin from next to nothing."""
SINGLE = 1e-3
"""In float32, ten times a value can be a little more than ten times."""


class LearningRate(PerStream):
    """Compares each learning rate with the one before and with the largest so far.

    A schedule is not a jump: decays of any size, restarts at a level that was there before, and groups whose
    rate is 0 from the beginning while another's is not.
    """

    id = "learning-rate"
    title = "Learning-rate anomaly"
    formula = (
        "negative or not finite; or, after the first 10 points, more than factor * the point before and more "
        "than 1.5 * the largest so far; or 0 for zeros points in a row after it was not 0, or while no rate "
        "of the run is above 0"
    )
    source = "trainpulse (10 * in one step); the schedule: ours"
    window = "at the point; for 0 at the hundredth in a row"
    chance = "none from a schedule that stays below its largest rate"
    fewest = "11 points"
    roles = ("learning_rate",)
    anew = True
    defaults = thresholds(factor=10, zeros=100, calm=100)
    grouped = in_a_row = True
    action = (
        "look at the scheduler: is it stepped once per step or once per epoch as it expects, is its state in "
        "the checkpoint? Where the jump is meant, switch this rule off"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Rates(self)


class _Rates(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        calm = rule.limit("calm")
        self._impossible, self._jump = AlarmGate(closes=calm), AlarmGate(closes=calm)
        self._zero = AlarmGate(opens=rule.limit("zeros"))
        self._last = self._largest = 0.0
        self._count = 0

    def follow(self, other: StreamWatch) -> None:
        """Continue: a changed setting does not change the earlier rate."""
        self.__dict__.update(other.__dict__)

    def take(self, chunk: Chunk) -> None:
        rule = self._rule
        rule.judged()
        if self._count == 0 and len(chunk) > 1:
            self.take(chunk.part(slice(1)))
            chunk = chunk.part(slice(1, None))
        values = chunk.values
        gates = (self._impossible, self._jump, self._zero)
        if not any(gate.is_open for gate in gates) and self._last > 0 and self._calm(values):
            self._count += len(values)
            self._last = float(values[-1])
            self._largest = max(self._largest, float(values.max()))
            for gate in gates:
                gate.run(np.zeros(len(values), bool))
            return
        for index, value in enumerate(values.tolist()):
            self._point(At.row(chunk, index), value)

    def _calm(self, values: NDArray[np.float64]) -> bool:
        """Return whether nothing can be wrong with these values, so that no single one need be judged."""
        if not (np.isfinite(values).all() and (values > 0).all()):
            return False
        before = np.concatenate([[self._last], values[:-1]])
        return bool((values <= before * self._rule.limits["factor"]).all())

    def _point(self, at: At, value: float) -> None:
        last, self._count = self._last, self._count + 1
        impossible = not isfinite(value) or value < 0
        factor = self._rule.limits["factor"] * (1 + SINGLE)
        new = not impossible and self._count > WARM_UP and last > 0
        jumped = new and value > last * factor and value > 1.5 * self._largest
        text = f"the learning rate is {number(value)}"
        self._change(self._impossible, impossible, at, text, value, "impossible")
        text = f"the learning rate went from {number(last)} to {number(value)}, the largest of the run so far"
        self._change(self._jump, jumped, at, text, value, "jump")
        self._change_zero(at, value)
        if not impossible:
            self._last, self._largest = value, max(self._largest, value)

    def _change_zero(self, at: At, value: float) -> None:
        frozen = self._largest == 0 and (self._rule.context.rate(at.stream.run, at.wall) or 0) > 0
        text = f"the learning rate has been 0 for {self._zero.opens} points"
        self._change(self._zero, value == 0 and not frozen, at, text, value, "zero")

    def _change(self, gate: AlarmGate, bad: bool, at: At, text: str, value: float, about: str) -> None:
        change = gate.see(bad, at.step)
        if change == "close":
            self._rule.close(at, about=about)
        elif change == "open":
            at = At(at.stream, at.step, at.wall, min(gate.since, at.step))
            self._rule.open(at, text, {"value": value, "before": self._last}, about=about)
