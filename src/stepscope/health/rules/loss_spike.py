"""loss-spike: the loss jumps far above what it was."""

from __future__ import annotations

from stepscope.health.gate import Gate
from stepscope.health.rule import PerStream, Watch, thresholds
from stepscope.health.series import Stream
from stepscope.health.spikes import Spikes


class LossSpike(PerStream):
    """Compares each value with the median and the median deviation of the window before it."""

    id = "loss-spike"
    title = "Loss spike"
    severity = "medium"
    formula = (
        "L > median + z * 1.4826 MAD of the window, in values and in logarithms; and L > ratio * median; and "
        "L - median > level_ratio * the first median; so twice within 8 points"
    )
    source = (
        "OLMo-core StabilityMonitor (6 sigma of 128), llm-foundry KillLossSpike; robust and in logarithms: "
        "ours"
    )
    window = "at the second such value within 8 points, from the 33rd point on"
    roles = ("loss",)
    splits = ("train",)
    defaults = thresholds(z=6, ratio=1.2, level_ratio=0.05, window=128, opens=2, within=8, calm=64)
    action = (
        "look at the batches of these steps and at the gradient norm before them; clip gradients, lower the "
        "learning rate or lengthen the warm-up; if the loss does not come back, restart from a checkpoint "
        "and skip the batches"
    )

    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""
        gate = Gate(opens=self.limit("opens"), within=self.limit("within"), closes=self.limit("calm"))
        least = self.limits["level_ratio"]
        return Spikes(self, gate, lambda middle, level: middle + least * abs(level), "the loss")
