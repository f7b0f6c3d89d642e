"""poor-initialization: activations or the loss begin far from where they should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, log

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.layers import AcrossLayers, Place
from stepscope.health.ring import median
from stepscope.health.rows import StepValues
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

REGRESSION = 100.0
"""Used instead of the threshold ``drop`` if nothing says that the loss is a classifier's."""
STEPS = 30
"""Steps from the first within which a well initialized model does not lose most of its loss."""


@dataclass
class _Loss:
    step: int
    wall: float
    value: float
    later: list[float] = field(default_factory=list)
    done: bool = False


class PoorInitialization(AcrossLayers):
    """Looks at the beginning only: activations across layers, and the first loss.

    The loss counts if it is a classifier's (``classes`` is the number of classes), or if it begins far above
    that of guessing and falls by orders of magnitude within 30 steps, which then only undo the
    initialization.
    """

    id = "poor-initialization"
    title = "Poor initialization"
    severity = "low"
    formula = (
        "standard deviation of activations: max / min over layers > spread in the first sample, not counting "
        "layers where it is 0; or the first loss > (1 + excess) * ln(classes), if classes is set; or the "
        "first loss > guess and > drop * the median loss of steps 10 to 30 after it (> 100 * that median if "
        "no metric of a classifier is recorded)"
    )
    source = "SageMaker Debugger PoorWeightInitialization (variances), CS231n (ln of the classes); drop: ours"
    window = "at the second sample of activations; from the loss, within 31 steps"
    chance = "none from noise of less than a factor of 10"
    fewest = "a loss of every step, or 3 layers of activations"
    roles = ("activation_std", "loss", "metric")
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(spread=300, classes=0, excess=0.5, drop=3, guess=20)
    action = (
        "initialize by fan-in (He, Glorot), scale residual branches down, set the last bias to the mean of "
        "the targets or to the log frequencies of the classes"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._sampled: set[Place] = set()
        self._losses: dict[Stream, _Loss] = {}

    def look(self, batch: StreamBatch) -> None:
        """Look at the first losses, and gather the first sample of the layers."""
        for chunk in batch.of(("loss",)):
            if chunk.stream.split == "train" and "epoch" not in chunk.stream.tag.lower():
                self._loss(chunk)
        begun = [
            chunk for chunk in batch.chunks if chunk.stream.role == "activation_std" and self._wants(chunk)
        ]
        if begun:
            super().look(StreamBatch(begun))

    def _wants(self, chunk: Chunk) -> bool:
        return (chunk.stream.run, chunk.stream.rank) not in self._sampled

    def row(self, place: Place, row: StepValues) -> None:
        """Compare the layers of the first sample."""
        # Branches that begin at zero on purpose say nothing of the others.
        stds = {s: value for s, value in row.of("activation_std").items() if isfinite(value) and value > 0}
        if len(stds) < 3 or place in self._sampled:
            return
        self._sampled.add(place)
        self.judged()
        low, high = min(stds, key=stds.__getitem__), max(stds, key=stds.__getitem__)
        ratio = stds[high] / stds[low]
        if ratio > self.limits["spread"]:
            text = (
                f"activations differ {number(ratio)}-fold in size between layers: sigma is "
                f"{number(stds[high])} in "
                f"{high.layer} and {number(stds[low])} in {low.layer}"
            )
            values = {"largest_std": stds[high], "smallest_std": stds[low], "ratio": ratio}
            self.open(At(low, row.step, row.wall, row.step), text, values)

    def _loss(self, chunk: Chunk) -> None:
        first = self._losses.get(chunk.stream)
        if first is None:
            first = _Loss(int(chunk.steps[0]), float(chunk.walls[0]), float(chunk.values[0]))
            self._losses[chunk.stream] = first
            self._against_classes(chunk.stream, first)
        if first.done:
            return
        for step, value, wall in zip(
            chunk.steps.tolist(), chunk.values.tolist(), chunk.walls.tolist(), strict=True
        ):
            since = step - first.step
            if since >= STEPS:
                first.done = True
                self._against_later(At(chunk.stream, step, wall, first.step), first)
                return
            if since >= STEPS // 3 and isfinite(value):
                first.later.append(value)

    def _against_classes(self, stream: Stream, first: _Loss) -> None:
        classes = self.limits["classes"]
        if classes < 2 or not isfinite(first.value):
            return
        self.judged()
        limit = (1 + self.limits["excess"]) * log(classes)
        if first.value > limit:
            text = (
                f"the first loss is {number(first.value)}; guessing among {number(classes)} classes gives "
                f"{number(log(classes))}"
            )
            at = At(stream, first.step, first.wall, first.step)
            self.open(at, text, {"first_loss": first.value, "limit": limit}, about="classes")

    def _against_later(self, at: At, first: _Loss) -> None:
        if len(first.later) < STEPS // 3 or not isfinite(first.value):
            return
        self.judged()
        later = median(np.array(first.later))
        drop = self.limits["drop"] if self.context.classifies(at.wall) else REGRESSION
        if later > 0 and first.value > max(drop * later, self.limits["guess"]):
            text = (
                f"the first loss is {number(first.value)}, and {STEPS} steps later it is {number(later)}: "
                "these steps only undid the initialization"
            )
            self.open(at, text, {"first_loss": first.value, "later_loss": later}, about="drop")
