"""update-scale: layers that a step moves far more or less than the others, in the norm of µP."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from statistics import median

from stepscope.health.gate import AlarmGate
from stepscope.health.layers import AcrossLayers, Place, expert_of
from stepscope.health.rows import StepValues
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.text import number


class UpdateScale(AcrossLayers):
    """Compares the operator norms of the layers' updates, which should be equal according to µP.

    It reports a layer's update ratio and the one that µP expects: the median update of all layers over the
    layer's own weights, both in that norm.
    """

    id = "update-scale"
    title = "Layers learn at different scales"
    severity = "info"
    formula = (
        "‖Δw‖ of a layer > factor * the median of all layers, or 0 < ‖Δw‖ < the median / factor, in the "
        "operator norm between root mean squares, samples times in a row; not in models of fewer than layers "
        "layers, and not for experts"
    )
    source = (
        "Yang, Simon and Bernstein 2023 (arXiv 2310.17813, condition 1: the same for all layers), µP: "
        "Yang et al. 2022 (arXiv 2203.03466); the factor: ours"
    )
    window = "at the tenth such sample"
    chance = "none from noise of less than a factor of 100: 10 samples in a row"
    fewest = "10 samples of 4 layers"
    grouped = in_a_row = True
    roles = ("update_operator", "weight_operator")
    needs = ("update_operator",)
    defaults = thresholds(factor=100, samples=10, calm=5, layers=4)
    action = (
        "give the layer a learning rate of its own, as µP does: with Adam 1 / inputs for hidden matrices and "
        "the output; or leave it, where the model is not meant to keep its learning rate at another width"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gates: dict[tuple[Place, Stream], tuple[AlarmGate, list[int]]] = {}

    def row(self, place: Place, row: StepValues) -> None:
        """Judge the layers of one step."""
        moved: dict[str, tuple[Stream, float]] = {}
        weights: dict[str, float] = {}
        for stream, value in row.values.items():
            if stream.layer is None or not isfinite(value) or expert_of(stream.layer) is not None:
                continue
            if stream.role == "weight_operator":
                weights[stream.layer] = value
            elif value > 0:
                moved[stream.layer] = stream, value
        if len(moved) < self.limits["layers"]:
            return
        middle, factor = median(value for _, value in moved.values()), self.limits["factor"]
        for layer, (stream, value) in moved.items():
            gate, steps = self._gates.setdefault(
                (place, stream),
                (AlarmGate(opens=self.limit("samples"), closes=self.limit("calm")), []),
            )
            steps.append(row.step)
            del steps[: -gate.opens]
            if len(steps) == gate.opens:
                self.judged()
            change = gate.see(value > factor * middle or value < middle / factor)
            at = At(stream, row.step, row.wall, min(steps))
            if change == "close":
                self.close(at)
            elif change == "open":
                values = {"update": value, "median_update": middle}
                self.open(at, sentence(layer, value, middle, weights.get(layer)), values)


def sentence(layer: str, value: float, middle: float, weight: float | None) -> str:
    """Return the report on a layer."""
    times = f"{value / middle:,.0f} times more" if value > middle else f"{middle / value:,.0f} times less"
    if not weight:
        return f"a step moves {layer} {times} than the median layer, in the operator norm"
    ratios = f"by {number(value / weight)} of its weights, where \u00b5P expects {number(middle / weight)}"
    return f"a step moves {layer} {ratios}: {times}"
