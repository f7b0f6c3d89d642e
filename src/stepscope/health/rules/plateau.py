"""plateau: the training loss has stopped improving, far from where it should."""

from __future__ import annotations

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.blocks import Block, ValueBlocks
from stepscope.health.gate import AlarmGate
from stepscope.health.noise import standard_error
from stepscope.health.rule import At, Ignored, PerStream, Rule, StreamWatch, thresholds
from stepscope.health.rules.loss_not_decreasing import TINY_RATE
from stepscope.health.series import Stream
from stepscope.text import number

MOST_MEANS = 4096


class Plateau(PerStream):
    """Waits for a block mean clearly better than the best one, for as long as it took to get there.

    A loss that has fallen most of its way has converged, and one whose learning rate is being changed may go
    on: neither is a plateau.
    """

    id = "plateau"
    title = "Loss plateau"
    severity = "low"
    formula = (
        "no block mean below (1 - ratio) * the best block mean, blocks times in a row and as often as there "
        "were blocks until the best, while their own noise is below ratio, the learning rate stays the same "
        "and the loss is above left * its first block; or the learning rate is at most 1e-8 in as many blocks"
    )
    source = "Keras ReduceLROnPlateau, trainpulse; relative, of block means, by schedule and noise: ours"
    window = "within 1,050 points of the last improvement, if that came within the first 1,000"
    chance = "below 1e-3 a run (an improvement hidden in 20 blocks, each known to half the ratio)"
    fewest = "1,050 points"
    roles = ("loss", "learning_rate")
    anew = True
    needs = ("loss",)
    unfit = ("adversarial", "reinforcement", "variational", "contrastive")
    defaults = thresholds(block=50, blocks=20, ratio=0.01, left=0.25)
    action = (
        "if the loss is good enough, stop; otherwise lower the learning rate, or raise it if it was never "
        "changed, and look at the size of the model and the noise of the labels"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Best(self) if stream.role == "loss" and stream.split == "train" else Ignored()


class _Best(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._blocks = rule, ValueBlocks(rule.limit("block"))
        self._gate = AlarmGate()
        self._first: float | None = None
        self._best: Block | None = None
        self._until = 0
        self._means: list[float] = []
        self._walls: list[float] = []

    def take(self, chunk: Chunk) -> None:
        for block in self._blocks.take(chunk):
            self._block(block, block.mean)

    def _block(self, block: Block, mean: float) -> None:
        best, ratio = self._best, self._rule.limits["ratio"]
        if self._first is None:
            self._first = mean
        if self._blocks.done > self._rule.limit("blocks"):
            self._rule.judged()
        better = best is None or mean < best.mean - ratio * abs(best.mean)
        if better:
            self._best, self._until = block, self._blocks.done
            self._means = []
        else:
            self._means = [*self._means, mean][-MOST_MEANS:]
        self._walls = [*self._walls, block.wall][-self._rule.limit("blocks") - 1 :]
        at = At(block.stream, block.step, block.wall, self._best.step if self._best else block.step)
        if self._gate.is_open:
            if self._gate.see(not better or self._rests(at.stream.run, at.wall)) == "close":
                self._rule.close(at)
        elif best is not None and self._stands(at, best) and self._gate.see(True) == "open":
            count = max(len(self._means), 1) * len(block.values)
            text = (
                f"no improvement for {count:,} points: the loss is {number(mean)}, its best was "
                f"{number(best.mean)} at step {best.step}"
            )
            self._rule.open(at, text, {"mean": mean, "best": best.mean}, since_step=min(best.step, at.step))

    def _stands(self, at: At, best: Block) -> bool:
        blocks = self._rule.limit("blocks")
        if len(self._walls) == blocks + 1 and self._rests(at.stream.run, at.wall):
            return self._rests(at.stream.run, self._walls[0])
        if len(self._means) < max(blocks, self._until):
            return False
        context, run = self._rule.context, at.stream.run
        means = np.array(self._means)
        level, first = float(means.mean()), self._first or 0.0
        if standard_error(means) > 0.5 * self._rule.limits["ratio"] * abs(level):
            return False
        half = len(means) // 2
        if means[:half].mean() - means[half:].mean() > 2 * standard_error(means[half:]):
            return False
        if context.rescheduled(run, best.wall, at.wall):
            return False
        return level > self._rule.limits["left"] * first

    def _rests(self, run: str, wall: float) -> bool:
        """Return whether the learning rate is too small to move anything."""
        rate = self._rule.context.rate(run, wall)
        return rate is not None and rate <= TINY_RATE
