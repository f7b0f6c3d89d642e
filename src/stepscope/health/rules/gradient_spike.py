"""gradient-spike: one gradient is far larger than those before it."""

from __future__ import annotations

from stepscope.health.gate import AlarmGate
from stepscope.health.rule import CLIPPED, PerStream, StreamWatch, thresholds
from stepscope.health.series import Stream
from stepscope.health.spikes import Spikes


class GradientSpike(PerStream):
    """Like ``loss-spike``, for the global gradient norm before clipping."""

    id = "gradient-spike"
    title = "Gradient spike"
    severity = "low"
    formula = (
        "‖g‖ - m > the limit that the tail of the last window such distances passes once in 1e7 points, "
        "in values and in logarithms; m is the median of the 8 points before; and ‖g‖ > ratio * m; and > "
        "3 * the largest of the 3 before"
    )
    source = (
        "ZClip (arXiv 2504.02507), Megatron-LM's spiky gradients (10 * the largest); the fitted tail: "
        "Pickands 1975"
    )
    window = "at the first such value, from the 41st point on"
    chance = "below 1e-7 a point if the tail falls off exponentially"
    fewest = "41 points"
    roles = ("gradient_norm",)
    anew = True
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=10, window=128, calm=64)
    applied = dict.fromkeys(CLIPPED, "clip by the 90th percentile of the unclipped norm; ")
    action = (
        "clip by the 90th percentile of the unclipped norm; look at the batch of this step; with Adam lower "
        "beta2 or the learning rate"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        gate = AlarmGate(closes=self.limit("calm"))
        return Spikes(self, gate, lambda level: 0.0, "the gradient norm", leaps=True)
