"""vanishing-gradient: one layer's gradient is negligible compared with the others'."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from stepscope.health.finding import number
from stepscope.health.gate import AlarmGate
from stepscope.health.layers import AcrossLayers, Place, is_vector
from stepscope.health.rows import StepValues
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream


class VanishingGradient(AcrossLayers):
    """Compares each layer's gradient norm with the largest of the same step, so no scale matters.

    A gradient of exactly 0 does not count as vanishing: ``unchanged-tensor`` looks at those. If update ratios
    are recorded, a layer that moves all the same, as with Adam, is not reported.
    """

    id = "vanishing-gradient"
    title = "Vanishing gradient"
    formula = (
        "0 < ‖g_layer‖ / max over layers ‖g‖ < ratio (biases and norms left out), and the layer's update "
        "ratio < update, if that is recorded; samples times in a row; at least 3 layers"
    )
    source = (
        "AUTOTRAINER (first to last layer), torchmortem (spread of norms); scale-free and with updates: ours"
    )
    window = "at the tenth such sample"
    chance = "none from noise: 10 samples in a row"
    fewest = "10 samples of 3 layers"
    grouped = in_a_row = True
    roles = ("layer_gradient", "update_ratio")
    needs = ("layer_gradient",)
    defaults = thresholds(ratio=1e-5, update=1e-6, samples=10, calm=5)
    action = (
        "take ReLU or GELU for sigmoid and tanh, add residual connections or normalization, initialize by He "
        "or Glorot; look at activations/ of the layers above it"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gates: dict[Stream, tuple[AlarmGate, list[int]]] = {}
        self._updates: dict[tuple[Place, str | None], float] = {}

    def row(self, place: Place, row: StepValues) -> None:
        """Judge the layers of one step."""
        norms = {}
        for stream, value in row.values.items():
            if stream.role == "update_ratio":
                self._updates[place, stream.layer] = value
            elif isfinite(value) and not is_vector(stream.layer):
                norms[stream] = value
        largest = max(norms.values(), default=0.0)
        if len(norms) < 3 or largest <= 0:
            return
        self.judged()
        for stream, value in norms.items():
            self._layer(stream, row, value, largest, place)

    def _layer(self, stream: Stream, row: StepValues, value: float, largest: float, place: Place) -> None:
        known = self._gates.get(stream)
        if known is None:
            known = AlarmGate(opens=self.limit("samples"), closes=self.limit("calm")), []
            self._gates[stream] = known
        gate, steps = known
        bad, update = 0 < value < self.limits["ratio"] * largest, None
        if bad:
            update = self._updates.get((place, stream.layer))
            bad = update is None or update < self.limits["update"]
        steps.append(row.step)
        del steps[: -gate.opens]
        change = gate.see(bad)
        if change is None:
            return
        at = At(stream, row.step, row.wall, row.step)
        if change == "close":
            self.close(at)
        elif change == "open":
            values = {"norm": value, "largest_norm": largest, "ratio": value / largest}
            if update is not None:
                values["update_ratio"] = update
            text = (
                f"the gradient of layer {at.stream.layer} is {number(value / largest)} of the largest layer's"
                + (
                    ""
                    if update is not None
                    else "; update ratios, which would tell whether it learns, are not recorded"
                )
            )
            self.open(At(at.stream, at.step, at.wall, min(steps)), text, values)
