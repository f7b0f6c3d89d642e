"""gradient-spike: one gradient is far larger than those before it."""

from __future__ import annotations

from stepscope.health.gate import Gate
from stepscope.health.rule import PerStream, Watch, thresholds
from stepscope.health.series import Stream
from stepscope.health.spikes import Spikes


class GradientSpike(PerStream):
    """As ``loss-spike``, of the global gradient norm before clipping."""

    id = "gradient-spike"
    title = "Gradient spike"
    severity = "low"
    formula = (
        "‖g‖ > median + z * 1.4826 MAD of the window, in values and in logarithms; and ‖g‖ > ratio * median"
    )
    source = (
        "OLMo-core StabilityMonitor, ZClip (arXiv 2504.02507), Megatron-LM's spiky gradients (10 * the "
        "largest)"
    )
    window = "at the first such value, from the 33rd point on"
    roles = ("gradient_norm",)
    defaults = thresholds(z=6, ratio=10, window=128, calm=64)
    action = (
        "clip by the 90th percentile of the unclipped norm; look at the batch of this step; with Adam lower "
        "beta2 or the learning rate"
    )

    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""
        gate = Gate(closes=self.limit("calm"))
        return Spikes(self, gate, lambda middle, level: 0.0, "the gradient norm")
