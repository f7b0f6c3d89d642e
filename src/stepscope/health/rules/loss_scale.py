"""loss-scale: mixed precision finds no loss scale that works."""

from __future__ import annotations

from math import isfinite

from stepscope.health.batch import Chunk
from stepscope.health.gate import AlarmGate
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

SETTLED = 10
"""Points without a fall after which a scaler has found its first scale."""
LONGEST = 64
"""Most steps of such a search: halves of 2^64 are none any more."""
HALVES = 2.02
"""Largest factor by which a search lowers the scale in a step, and what single precision adds to it."""


class LossScale(PerStream):
    """Follows the loss scale, and the count of skipped steps if that is recorded.

    A scaler begins far too high on purpose, at 2^16 or 2^32, and halves the scale at every step until one
    fits. That search is not a collapse, wherever it ends above ``smallest``.
    """

    id = "loss-scale"
    title = "Loss scale collapse"
    severity = "high"
    formula = (
        "scale < its largest / fall, once the search at the beginning is over, which at most halves it per "
        "step, or scale < 1; or skipped steps > ratio of the last 100 steps or more, not counting those of "
        "that search"
    )
    source = "torch.amp GradScaler (halves at each overflow); limits of the reference rule set: 10 % of 100"
    window = "at the first such scale; for skipped steps within 200 steps"
    chance = "none from single overflows: it takes a factor of 1,024, or a tenth of 100 steps"
    fewest = "a loss scale"
    roles = ("loss_scale", "skipped")
    defaults = thresholds(fall=1024, smallest=1, ratio=0.1, steps=100)
    action = (
        "gradients overflow at every scale: find the first non-finite layer, lower the learning rate, keep "
        "that layer in float32, or use bfloat16, which needs no scale"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Scale(self) if stream.role == "loss_scale" else _Skipped(self)


class _Scale(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._gate = rule, AlarmGate(closes=1)
        self._largest = self._begun = 0.0
        self._searches = True
        self._last: tuple[int, float] | None = None
        self._kept = 0

    def take(self, chunk: Chunk) -> None:
        rule = self._rule
        rule.judged()
        if (
            not self._gate.is_open
            and not self._searches
            and len(chunk) > 8
            and (chunk.values == self._largest).all()
        ):
            return
        for index, value in enumerate(chunk.values.tolist()):
            if not isfinite(value):
                continue
            searches = self._search(int(chunk.steps[index]), value)
            self._largest = value if searches else max(self._largest, value)
            slack = 16.0 if self._gate.is_open else 1.0
            limit = slack * max(
                self._largest / rule.limits["fall"], min(rule.limits["smallest"], self._largest)
            )
            change = self._gate.see(value < limit)
            at = At.row(chunk, index)
            if change == "close":
                rule.close(at)
            elif change == "open":
                text = f"the loss scale fell to {number(value)} from {number(self._largest)}"
                rule.open(at, text, {"loss_scale": value, "largest": self._largest})

    def _search(self, step: int, value: float) -> bool:
        """Return whether the scaler still looks for its first scale."""
        if self._searches and self._last is not None:
            before, steps = self._last[1], min(max(step - self._last[0], 1), LONGEST)
            self._kept = self._kept + 1 if value == before else 0
            halves = before / HALVES**steps <= value <= before
            self._searches = halves and self._kept < SETTLED
            if value < self._rule.limits["smallest"]:  # it found none
                self._searches, self._largest = False, self._begun
        self._begun, self._last = max(self._begun, value), (step, value)
        return self._searches


class _Skipped(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._gate = rule, AlarmGate(closes=1)
        self._last: tuple[int, float] | None = None
        self._first: tuple[int, float] | None = None
        """Step and count at the first point; None once the scaler has found its first scale."""

    def _searches(self, step: int, value: float) -> bool:
        """Return whether every step has been skipped so far, as while a first scale is looked for."""
        if self._first is None:
            return False
        steps, skipped = step - self._first[0], value - self._first[1]
        if steps and (skipped < steps or steps > LONGEST):
            self._first = None
        return self._first is not None

    def take(self, chunk: Chunk) -> None:
        rule = self._rule
        for index, (step, value) in enumerate(zip(chunk.steps.tolist(), chunk.values.tolist(), strict=True)):
            if not isfinite(value):
                continue
            if self._last is None or step < self._last[0] or value < self._last[1]:
                self._last = step, value
                self._first = self._first or (step, value)
            if self._searches(step, value):
                self._last = step, value
            steps = step - self._last[0]
            if steps < rule.limits["steps"]:
                continue
            rule.judged()
            ratio = (value - self._last[1]) / steps
            change = self._gate.see(ratio > rule.limits["ratio"] * (0.5 if self._gate.is_open else 1.0))
            at = At.row(chunk, index, self._last[0])
            if change == "close":
                rule.close(at)
            elif change == "open":
                text = f"{ratio:.0%} of the last {steps} steps were skipped because gradients overflowed"
                rule.open(at, text, {"skipped_ratio": ratio, "skipped": value})
            self._last = step, value
