"""saturated-activation: most values of a sigmoid or tanh lie where its slope is near 0."""

from __future__ import annotations

from stepscope.health.gate import AlarmGate
from stepscope.health.rule import At, PerStream, StreamWatch, Threshold, thresholds
from stepscope.health.series import Stream


class SaturatedActivation(PerStream):
    """Looks at the recorded share of saturated values."""

    id = "saturated-activation"
    title = "Saturated activations"
    formula = (
        "share of saturated values of a layer > ratio, samples times in a row; not if it began below half of "
        "that and the training loss has fallen since: a confident output is not a fault"
    )
    source = "SageMaker Debugger SaturatedActivation (50 % of a layer)"
    window = "at the fifth such sample"
    chance = "none from noise: 5 samples in a row"
    fewest = "5 samples"
    grouped = in_a_row = True
    roles = ("saturated",)
    defaults = thresholds(ratio=0.5, samples=5, calm=5)
    action = (
        "normalize inputs and the layer's inputs, initialize with smaller weights, lower the learning rate"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        limit = self.limits["ratio"]
        return _Saturated(
            self,
            lambda values: values > limit,
            lambda value: f"{value:.0%} of the activations of layer {stream.layer} are saturated",
            name="saturated_ratio",
            gate=AlarmGate(opens=self.limit("samples"), closes=self.limit("calm")),
        )


class _Saturated(Threshold):
    """Checks by the training loss whether the model learns all the same."""

    def excused(self, at: At) -> bool:
        """Return whether it was not saturated at first, and the loss has fallen since."""
        begins = self.first < 0.5 * self.rule.limits["ratio"]
        return begins and self.rule.context.learns(at.stream.run, self.began, at.wall)
