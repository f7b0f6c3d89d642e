"""poor-initialization: activations or the loss begin far from where they should."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import numpy as np

from stepscope.health.looks import AcrossSeries, Known, RunFacts, Seen, at_steps
from stepscope.health.ring import upper_median
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

REGRESSION = 100.0
"""Used instead of the threshold ``drop`` if nothing says that the loss is a classifier's."""
STEPS = 30
"""Steps from the first within which a well initialized model does not lose most of its loss."""
EXCESS = 0.5
"""Share by which a first loss exceeds that of guessing through the spread of first outputs alone."""
GUESS = 20.0
"""Loss that no classifier has by guessing: e to the 20 are 500 million classes."""
FEWEST_LAYERS = 3


class PoorInitialization(AcrossSeries):
    """Looks at the beginning only: activations across layers, and the first loss.

    The loss counts if it is a classifier's (``classes`` is the number of classes), or if it begins far above
    that of guessing and falls by orders of magnitude within 30 steps, which then only undo the
    initialization: by a factor of 100 if no metric of a classifier is recorded.

    Formula: in the first sample the largest sigma of a layer's activations is above spread * the
        smallest; or the first loss is above 1.5 ln(classes), or above 20 and drop * the median of steps
        10 to 30
    Fires: at the second sample of activations; from the loss, within 32 steps
    Chance: none from noise of less than a factor of 10
    Source: SageMaker Debugger PoorWeightInitialization (variances), CS231n (ln of the classes); drop:
        ours
    """

    id = "poor-initialization"
    title = "Poor initialization"
    severity = "low"
    fewest = "a loss of every step, or 3 layers of activations"
    roles = ("activation_std", "loss", "metric")
    leads = ("activation_std", "loss")
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(spread=300, classes=0, drop=3)
    action = (
        "initialize by fan-in (He, Glorot), scale residual branches down, set the last bias to the mean of "
        "the targets or to the log frequencies of the classes; scale inputs and targets"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._told: dict[Stream, Seen] = {}
        self._done: set[Stream] = set()
        """Series of which the beginning is over."""

    def is_led_by(self, stream: Stream) -> bool:
        """Return whether a series is a training loss of single steps, or the first layer."""
        if stream.role == "loss":
            return stream.split == "train" and "epoch" not in stream.tag.lower()
        return super().is_led_by(stream)

    def see_all(self, known: Known, run: RunFacts) -> dict[Stream, Seen]:
        """Return what was wrong with the beginning of each series that has one."""
        if known.stream not in self._done:
            seen = self._loss(known, run) if known.stream.role == "loss" else self._layers(known, run)
            if seen is not None:
                self._done.add(known.stream)
                self._told |= seen
        return self._told

    def _layers(self, known: Known, run: RunFacts) -> dict[Stream, Seen] | None:
        """Compare the layers of the first sample; None while it is not complete."""
        steps = known.facts.curve[0][:-1]  # other layers of the newest step may still come
        layers = run.beside(known, "activation_std")
        if not len(steps) or len(layers) < FEWEST_LAYERS:
            return None
        stds = np.array([at_steps(layer.facts, steps, 1) for layer in layers])
        stds[~(stds > 0)] = np.nan  # branches that begin at zero on purpose say nothing of the others
        whole = (stds > 0).sum(axis=0) >= FEWEST_LAYERS
        if not whole.any():
            return None
        self.judged()
        first = stds[:, whole.argmax()]
        high, low = int(np.nanargmax(first)), int(np.nanargmin(first))
        ratio = float(first[high] / first[low])
        if ratio <= self.limits["spread"]:
            return {}
        text = (
            f"activations differ by a factor of {number(ratio)} in size between layers: sigma is "
            f"{number(first[high])} in layer {layers[high].stream.layer} and {number(first[low])} in layer "
            f"{layers[low].stream.layer}"
        )
        values = {"largest_std": float(first[high]), "smallest_std": float(first[low]), "ratio": ratio}
        return {layers[low].stream: Seen(text, values, int(steps[whole.argmax()]))}

    def _loss(self, known: Known, run: RunFacts) -> dict[Stream, Seen] | None:
        """Compare the first loss with guessing and with that of the next steps; None before these."""
        facts, stream, limits = known.facts, known.stream, self.limits
        steps, values = facts.curve
        if not len(steps) or steps[0] != facts.first_step:
            return None if len(steps) == 0 else {}
        if limits["classes"] >= 2:
            self.judged()
            limit = (1 + EXCESS) * log(limits["classes"])
            if facts.first > limit:
                text = (
                    f"the first loss is {number(facts.first)}; guessing among {number(limits['classes'])} "
                    f"classes gives {number(log(limits['classes']))}"
                )
                at = At(stream, facts.first_step, facts.first_wall, facts.first_step)
                evidence = {"first_loss": facts.first, "limit": limit}
                return {stream: Seen(text, evidence, facts.first_step, at=at)}
        since = steps - steps[0]
        if since[-1] < STEPS:
            return None
        after = values[(since >= STEPS // 3) & (since < STEPS)]
        if len(after) < STEPS // 3:
            return {}
        self.judged()
        later = upper_median(after)
        drop = limits["drop"] if run.classifies() else REGRESSION
        if not (later > 0 and facts.first > max(drop * later, GUESS)):
            return {}
        text = (
            f"the first loss is {number(facts.first)}, and {STEPS} steps later it is about {number(later)}: "
            "these steps only undid how large the first outputs were"
        )
        return {stream: Seen(text, {"first_loss": facts.first, "later_loss": later}, facts.first_step)}


ROWS = (PoorInitialization,)
