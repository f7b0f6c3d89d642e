"""loss-spike: the loss jumps far above its level."""

from __future__ import annotations

from stepscope.health.gate import AlarmGate
from stepscope.health.rule import CLIPPED, PerStream, StreamWatch, thresholds
from stepscope.health.series import Stream
from stepscope.health.spikes import Spikes


class LossSpike(PerStream):
    """Compares each value with the points just before it, by the tail of such distances so far."""

    id = "loss-spike"
    title = "Loss spike"
    severity = "medium"
    formula = (
        "L - m > the limit that the tail of the last window such distances passes once in 1e7 points, in "
        "values and in logarithms; m is the median of the 8 points before; and L > ratio * m; and L - m > "
        "level_ratio * the first level; all of this twice within 8 points; or 4 times at equal distances of "
        "at least 16 points, with L > 3 * m (then low)"
    )
    source = (
        "OLMo-core StabilityMonitor and llm-foundry KillLossSpike (6 sigma of 128); the fitted tail: "
        "Pickands 1975"
    )
    window = (
        "at the second such value within 8 points, from the 41st point on; at the fourth that comes again"
    )
    chance = "below 1e-7 a point if the tail falls off exponentially"
    fewest = "41 points"
    roles = ("loss",)
    anew = True
    splits = ("train",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=1.2, level_ratio=0.05, window=128, opens=2, within=8, calm=64)
    applied = dict.fromkeys(CLIPPED, "clip gradients, ")
    action = (
        "look at the batches of these steps and at the gradient norm before them; clip gradients, lower the "
        "learning rate or lengthen the warm-up; if the loss does not come back, restart from a checkpoint "
        "and skip the batches; if the data or the task was changed here on purpose, record that as a series, "
        "such as curriculum/stage, and the jump is expected"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        gate = AlarmGate(opens=self.limit("opens"), within=self.limit("within"), closes=self.limit("calm"))
        least = self.limits["level_ratio"]
        return Spikes(self, gate, lambda level: least * level, "the loss", repeats=True)
