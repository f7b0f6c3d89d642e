"""dead-relu: most of a layer's units are never active."""

from __future__ import annotations

from stepscope.health.gate import AlarmGate
from stepscope.health.layers import expert_of
from stepscope.health.rule import Ignored, PerStream, StreamWatch, Threshold, thresholds
from stepscope.health.series import Stream


class DeadRelu(PerStream):
    """Looks at the share of dead units or, more carefully, at the share of zeros if only that is recorded.

    Half of the values after a ReLU are 0 in a healthy layer, and more in a sparse one.
    """

    id = "dead-relu"
    title = "Dead units"
    formula = (
        "share of units that were 0 in a whole window > dead, samples_dead times in a row; or share of zero "
        "activations > zeros, samples_zeros times in a row"
    )
    source = "SageMaker Debugger DeadRelu (50 % of a layer), torchmortem"
    window = "at the fifth sample of dead units, at the tenth of zeros"
    chance = "none from noise: a unit counts as dead only if it was 0 in a whole window of samples"
    fewest = "5 samples of dead units or 10 of zeros"
    grouped = in_a_row = True
    roles = ("dead", "zeros")
    defaults = thresholds(dead=0.5, zeros=0.9, samples_dead=5, samples_zeros=10, calm=5)
    action = (
        "lower the learning rate (one large step can kill a layer), initialize biases at 0, take leaky "
        "ReLU or GELU"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        """Return the judge of a series; experts that no token reaches belong to ``dead-experts``."""
        if expert_of(stream.layer) is not None:
            return Ignored()
        limit, calm = self.limits[stream.role], self.limit("calm")
        what = (
            "of the units of layer {} are dead"
            if stream.role == "dead"
            else "of the activations of layer {} are 0"
        )
        return Threshold(
            self,
            lambda values: values > limit,
            lambda value: f"{value:.0%} {what.format(stream.layer)}",
            name=f"{stream.role}_ratio",
            gate=AlarmGate(opens=self.limit(f"samples_{stream.role}"), closes=calm),
            severity=lambda value: "high" if value > 0.99 else "medium",
        )
