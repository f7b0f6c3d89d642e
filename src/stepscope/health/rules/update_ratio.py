"""update-ratio: a layer's weights change far too much or far too little at a step."""

from __future__ import annotations

from stepscope.health.gate import AlarmGate
from stepscope.health.layers import expert_of, is_vector
from stepscope.health.rule import PerStream, StreamWatch, Threshold, thresholds
from stepscope.health.series import Stream
from stepscope.text import number


class UpdateRatio(PerStream):
    """Compares ‖Δw‖ / ‖w‖ with a healthy 1e-3; exact zeros are ``unchanged-tensor``'s."""

    id = "update-ratio"
    title = "Update ratio out of range"
    severity = "low"
    formula = (
        "‖Δw‖ / ‖w‖ of a layer > high, or between 0 and low, samples times in a row; not for biases and norms"
    )
    source = "CS231n (1e-3 is healthy), torchmortem, SageMaker Debugger WeightUpdateRatio"
    window = "at the twentieth such sample"
    chance = "none from noise: 20 samples in a row"
    fewest = "20 samples"
    grouped = in_a_row = True
    roles = ("update_ratio",)
    defaults = thresholds(low=3e-7, high=0.1, samples=20, calm=10)
    action = (
        "too large: lower the learning rate of this layer; too small: raise it, or find out why its gradient "
        "is small"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        low, high = self.limits["low"], self.limits["high"]
        matrix = not is_vector(stream.layer) and expert_of(stream.layer) is None

        def say(value: float) -> str:
            much = "above" if value > high else "below"
            limit = high if value > high else low
            return f"a step changes {stream.layer} by {number(value)} of its norm, {much} {number(limit)}"

        return Threshold(
            self,
            lambda values: matrix & ((values > high) | ((values > 0) & (values < low))),
            say,
            name="update_ratio",
            gate=AlarmGate(opens=self.limit("samples"), closes=self.limit("calm")),
        )
