"""vanishing-gradient: one layer's gradient is negligible compared with the others'."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.gate import AlarmGate
from stepscope.health.layers import AcrossLayers, Place, is_vector
from stepscope.health.rows import StepValues
from stepscope.health.rule import At, Rule, StreamWatch, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

NO_GRADIENT = (
    "find out where the gradient is lost: a loss that is detached from the model (PyTorch: detach, .item(), "
    "no_grad; JAX: stop_gradient), float16 gradients that underflow without a loss scale, units that are all "
    "dead or saturated; if the norm is computed after the gradients were cleared, compute it before"
)


class VanishingGradient(AcrossLayers):
    """Compares each layer's gradient norm with the largest of the same step, so no scale matters.

    The gradient of a layer that is exactly 0 does not count as vanishing: ``unchanged-tensor`` looks at
    those. If update ratios are recorded, a layer that moves all the same, as with Adam, is not reported. The
    norm of the whole gradient must not be 0 while there is a loss that does not fall.
    """

    id = "vanishing-gradient"
    title = "Vanishing gradient"
    formula = (
        "0 < ‖g_layer‖ / max over layers ‖g‖ < ratio (biases and norms left out), and the layer's update "
        "ratio < update, if that is recorded; samples times in a row; at least 3 layers; or the norm of the "
        "whole gradient is 0, after it was not, zeros times in a row, while the training loss is not 0 and "
        "does not fall (then high)"
    )
    source = (
        "AUTOTRAINER (first to last layer), torchmortem (spread of norms); scale-free and with updates: ours"
    )
    window = "at the tenth such sample; for a whole gradient of 0 at the fortieth"
    chance = "none from noise: 10 samples in a row"
    fewest = "10 samples of 3 layers"
    grouped = in_a_row = True
    roles = ("layer_gradient", "update_ratio", "gradient_norm")
    needs = ("layer_gradient",)
    defaults = thresholds(ratio=1e-5, update=1e-6, samples=10, calm=5, zeros=40)
    action = (
        "take ReLU or GELU for sigmoid and tanh, add residual connections or normalization, initialize by He "
        "or Glorot; look at activations/ of the layers above it"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gates: dict[Stream, tuple[AlarmGate, list[int]]] = {}
        self._updates: dict[tuple[Place, str | None], float] = {}
        self._zeros: dict[Stream, _Zeros] = {}

    def look(self, batch: StreamBatch) -> None:
        """Judge the layers of each step, and the norm of the whole gradient by itself."""
        whole = batch.of(("gradient_norm",))
        super().look(
            StreamBatch([each for each in batch.of(self.roles) if each not in whole]) if whole else batch
        )
        for chunk in whole:
            zeros = self._zeros.get(chunk.stream)
            if zeros is None:
                zeros = self._zeros[chunk.stream] = _Zeros(self)
            zeros.take(chunk)

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


class _Zeros(StreamWatch):
    """Counts points at which the whole gradient has become 0."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._gate = AlarmGate(opens=1, closes=rule.limit("calm"))
        self._count, self._step, self._wall = 0, 0, 0.0
        self._known = False
        """Whether it was ever other than 0; ``loss-not-decreasing`` judges one that never was."""

    def take(self, chunk: Chunk) -> None:
        """Judge points."""
        if not self._count and not self._gate.is_open and (chunk.values != 0).all():
            self._known = True
            return
        for index, value in enumerate(chunk.values.tolist()):
            if value == 0 and not self._count:
                self._step, self._wall = int(chunk.steps[index]), float(chunk.walls[index])
            self._known = self._known or value != 0
            self._count = self._count + 1 if value == 0 and self._known else 0
            at = At.row(chunk, index)
            bad = value == 0 and (self._gate.is_open or self._tells(at))
            change = self._gate.see(bad)
            if change == "close":
                self._rule.close(at, about="whole")
            elif change == "open":
                text = (
                    f"the norm of the whole gradient has been 0 for {self._count} points: nothing is learnt"
                )
                here = At(at.stream, at.step, at.wall, min(self._step, at.step))
                self._rule.open(
                    here, text, {"norm": value}, severity="high", about="whole", action=NO_GRADIENT
                )

    def _tells(self, at: At) -> bool:
        """Return whether so many zeros are a fault, which is asked again as they go on."""
        zeros, context, run = self._rule.limit("zeros"), self._rule.context, at.stream.run
        if self._count < zeros or self._count % zeros:
            return False
        unfit = context.unfit(("adversarial", "reinforcement"), at.wall)
        return (
            unfit is None and not context.is_zero(run, at.wall) and context.stands(run, self._wall, at.wall)
        )
