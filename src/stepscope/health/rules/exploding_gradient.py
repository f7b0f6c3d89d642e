"""exploding-gradient: the gradient norm stays far above its level at the start."""

from __future__ import annotations

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.gate import AlarmGate
from stepscope.health.ring import Ring, median, pieces
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

REFERENCE = 100
"""Number of points at the start with whose median later ones are compared."""
RECENT = 5
EVERY = 1
FEWEST = 20


class ExplodingGradient(PerStream):
    """Compares the median of the last 5 norms with those at the start, so no scale matters.

    The start is the larger of the median of the first 5 and that of the first 100: a model that converges at
    once is not compared with its last norms. Norms that grow while the loss falls mean that the model begins
    to learn.
    """

    id = "exploding-gradient"
    title = "Exploding gradient"
    severity = "high"
    formula = (
        "median of the last 5 ‖g‖ > ratio * the larger of the medians of the first 5 and of the first 100 "
        "(or as many as there are), and the training loss has not fallen since the norms passed a tenth of "
        "that limit"
    )
    source = "trainpulse and torchmortem (absolute limits), Megatron-LM (10 * the first 100); relative: ours"
    window = "within 5 points, from the 20th point on"
    chance = "none from noise of less than a factor of 100"
    fewest = "20 points"
    unfit = ("adversarial", "reinforcement")
    roles = ("gradient_norm",)
    anew = True
    defaults = thresholds(ratio=100, checks=1, calm=20)
    action = (
        "clip gradients by norm, lower the learning rate, lengthen the warm-up; in recurrent models "
        "truncate the sequence; look at gradients/LAYER/norm for the layer where it begins"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Growth(self)


class _Growth(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._ring = rule, Ring(RECENT)
        self._gate = AlarmGate(opens=rule.limit("checks"), closes=rule.limit("calm"))
        self._first: list[float] = []
        self._reference = 0.0
        self._first_step = 0
        self._grew: float | None = None

    def take(self, chunk: Chunk) -> None:
        # An overflow is a large gradient: it may come within few points of the first large one.
        known = ~np.isnan(chunk.values)
        chunk = chunk if known.all() else chunk.part(np.flatnonzero(known))
        if self._is_calm(chunk):
            checks = (self._ring.count + len(chunk)) // EVERY - self._ring.count // EVERY
            self._gate.run(np.zeros(checks, bool))
            self._ring.push(chunk.values)
            self._grew = None
            return
        for rows in pieces(self._ring.count, len(chunk), EVERY):
            part = chunk.part(rows)
            if not self._ring.count:
                self._first_step = int(part.steps[0])
            self._ring.push(part.values)
            if len(self._first) < REFERENCE:
                self._first += part.values.tolist()
                if self._ring.count % EVERY == 0:
                    self._reference = max(
                        median(np.array(self._first)), median(np.array(self._first[:RECENT]))
                    )
            if self._ring.count >= FEWEST and self._ring.count % EVERY == 0:
                self._judge(part)

    def _is_calm(self, chunk: Chunk) -> bool:
        """Return whether no median of these points can pass the limit."""
        known = len(self._first) >= REFERENCE and not self._gate.is_open and len(chunk) > 0
        limit = 0.1 * self._rule.limits["ratio"] * self._reference
        return known and bool(chunk.values.max() <= limit and self._ring.values.max() <= limit)

    def _judge(self, part: Chunk) -> None:
        self._rule.judged()
        recent, ratio = median(self._ring.values), self._rule.limits["ratio"]
        limit = ratio * self._reference * (0.5 if self._gate.is_open else 1.0)
        at = At.row(part, -1, self._first_step)
        if recent <= 0.1 * ratio * self._reference:
            self._grew = None
        elif self._grew is None:
            self._grew = at.wall
        large = 0 < limit < recent
        if large and not self._gate.is_open and self._grew is not None:
            large = not self._rule.context.learns(at.stream.run, self._grew, at.wall)
        change = self._gate.see(large)
        if change == "close":
            self._rule.close(at)
        elif change == "open":
            text = (
                f"the gradient norm is {number(recent)}, {number(recent / self._reference)} times the "
                f"{number(self._reference)} of the start"
            )
            self._rule.open(at, text, {"norm": recent, "reference": self._reference})
