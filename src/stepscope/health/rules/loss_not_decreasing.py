"""loss-not-decreasing: the loss is no lower than at the start of the run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk
from stepscope.health.blocks import Block, Blocks
from stepscope.health.finding import number
from stepscope.health.gate import Gate
from stepscope.health.rule import At, PerStream, Rule, Watch, thresholds
from stepscope.health.series import Stream

BLOCK = 20
CHECKS = (120, 240, 480, 960, 1920, 3840)
"""Points after which both halves are compared, until the loss has fallen once."""


class LossNotDecreasing(PerStream):
    """Compares the halves of the beginning, and fires only where noise cannot hide a fall.

    Once the loss has fallen, it fires where the loss is back where it began.
    """

    id = "loss-not-decreasing"
    title = "Loss is not decreasing"
    severity = "high"
    formula = (
        "after 120, 240, 480, ... 3,840 points: mean of the first half - mean of the second + 2 standard "
        "errors < ratio * |mean of the first|; once it has fallen: mean of 20 points >= that of the first "
        "20, "
        "so many blocks in a row"
    )
    source = "SageMaker Debugger LossNotDecreasing (any decrease of single values); against noise: ours"
    window = "at 120 points, or at the first check at which noise allows it; within 120 points of a rise"
    roles = ("loss",)
    splits = ("train",)
    defaults = thresholds(ratio=0.02, blocks=5)
    action = (
        "overfit one batch first: if that fails, look at labels, loss and graph (detached tensors, "
        "optimizer without the parameters); else search the learning rate by factors of 10"
    )

    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""
        return _Start(self)


class _Start(Watch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._blocks = rule, Blocks(BLOCK)
        self._gate = Gate(opens=rule.limit("blocks"), closes=2)
        self._early: list[float] = []
        self._first: Block | None = None
        self._fell = self._resumed = False

    def take(self, chunk: Chunk) -> None:
        for block in self._blocks.take(chunk):
            if self._first is None:
                self._begin(block)
            if self._resumed:
                continue
            if self._fell:
                self._against_start(block)
            elif len(self._early) < CHECKS[-1]:
                self._early += block.values.tolist()
                if len(self._early) in CHECKS:
                    self._compare(block, np.array(self._early))

    def _begin(self, block: Block) -> None:
        self._first = block
        spacing = max((block.step - block.first_step) / (BLOCK - 1), 1.0)
        # A run that resumes has its fall behind it.
        self._resumed = block.first_step > max(10 * BLOCK * spacing, 100)

    def _compare(self, block: Block, values: NDArray[np.float64]) -> None:
        halves = values.reshape(2, -1, BLOCK).mean(axis=2)
        before, after = halves.mean(axis=1).tolist()
        error = float(np.sqrt((halves.var(axis=1) / (halves.shape[1] - 1)).sum()))
        margin = self._rule.limits["ratio"] * abs(before)
        at = At(block.stream, block.step, block.wall, self._first_step)
        if before - after > max(2 * error, margin):
            self._fell, self._early = True, []
            self._rule.judged()
            self._rule.close(at)
        elif before - after + 2 * error < margin:
            self._rule.judged()
            text = (
                f"the mean loss of the first {len(values) // 2} points is {number(before)}, that of the "
                f"{len(values) // 2} after them {number(after)}"
            )
            self._rule.open(at, text, {"first_mean": before, "mean": after, "standard_error": error})

    def _against_start(self, block: Block) -> None:
        first = self._first
        assert first is not None
        at = At(block.stream, block.step, block.wall, first.first_step)
        change = self._gate.see(block.mean >= first.mean)
        if change == "close":
            self._rule.close(at)
        elif change == "open":
            text = f"the loss rose to {number(block.mean)}, from where it began: {number(first.mean)}"
            self._rule.open(at, text, {"first_mean": first.mean, "mean": block.mean})

    @property
    def _first_step(self) -> int:
        return self._first.first_step if self._first else 0
