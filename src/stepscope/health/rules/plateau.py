"""plateau: the training loss has stopped improving."""

from __future__ import annotations

from stepscope.health.batch import Chunk
from stepscope.health.blocks import Blocks
from stepscope.health.finding import number
from stepscope.health.gate import Gate
from stepscope.health.rule import At, PerStream, Rule, Watch, thresholds
from stepscope.health.series import Stream


class Plateau(PerStream):
    """Waits for a block mean clearly better than the best one."""

    id = "plateau"
    title = "Loss plateau"
    severity = "low"
    formula = "no block mean below (1 - ratio) * the best block mean, so many blocks in a row"
    source = "Keras ReduceLROnPlateau, trainpulse; relative and of block means: ours"
    window = "within 1,050 points of the last improvement"
    roles = ("loss",)
    splits = ("train",)
    defaults = thresholds(block=50, blocks=20, ratio=0.01)
    action = (
        "if the loss is good enough, stop; else lower the learning rate, or raise it if it was never "
        "changed, and look at the size of the model and the labels' noise"
    )

    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""
        return _Best(self)


class _Best(Watch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._blocks = rule, Blocks(rule.limit("block"))
        self._gate = Gate(opens=rule.limit("blocks"), closes=1)
        self._best: float | None = None
        self._best_step = 0

    def take(self, chunk: Chunk) -> None:
        for block in self._blocks.take(chunk):
            mean = block.mean
            better = self._best is None or mean < self._best - self._rule.limits["ratio"] * abs(self._best)
            if self._blocks.done > self._gate.opens:
                self._rule.judged()
            change = self._gate.see(not better)
            if better:
                self._best, self._best_step = mean, block.step
            at = At(block.stream, block.step, block.wall, self._best_step)
            if change == "close":
                self._rule.close(at)
            elif change == "open" and self._best is not None:
                count = self._gate.opens * len(block.values)
                text = (
                    f"no improvement for {count:,} points: the loss is {number(mean)}, its best was "
                    f"{number(self._best)} at step {self._best_step}"
                )
                self._rule.open(at, text, {"mean": mean, "best": self._best})
