"""saturated-activation: most values of a sigmoid or tanh lie where its slope is next to nothing."""

from __future__ import annotations

from stepscope.health.gate import Gate
from stepscope.health.rule import PerStream, Threshold, Watch, thresholds
from stepscope.health.series import Stream


class SaturatedActivation(PerStream):
    """Looks at the recorded share of saturated values."""

    id = "saturated-activation"
    title = "Saturated activations"
    formula = "share of saturated values of a layer > ratio, so many samples in a row"
    source = "SageMaker Debugger SaturatedActivation (50 % of a layer)"
    window = "at the fifth such sample"
    roles = ("saturated",)
    defaults = thresholds(ratio=0.5, samples=5, calm=5)
    action = (
        "normalize inputs and the layer's inputs, initialize with smaller weights, lower the learning rate"
    )

    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""
        limit = self.limits["ratio"]
        return Threshold(
            self,
            lambda values: values > limit,
            lambda value: f"{value:.0%} of the activations of layer {stream.layer} are saturated",
            name="saturated_ratio",
            gate=Gate(opens=self.limit("samples"), closes=self.limit("calm")),
        )
