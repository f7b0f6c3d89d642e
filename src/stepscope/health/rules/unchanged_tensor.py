"""unchanged-tensor: a parameter does not move at all."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stepscope.health.layers import is_dense_matrix
from stepscope.health.looks import InARow, Known, RunFacts, Seen, at_steps
from stepscope.health.ring import Floats
from stepscope.health.rule import thresholds
from stepscope.health.series import Stream

RANKING = {"left_out": 4, "update_ratio": 3, "update_norm": 2, "layer_gradient": 1, "weight_norm": 0}
"""Series that show whether a parameter moves, best first; only a layer's best recorded one counts."""
UPDATES = ("update_ratio", "update_norm")


@lru_cache(maxsize=1 << 14)
def is_adapter(layer: str | None) -> bool:
    """Return whether a layer's name is that of an adapter, next to which all others are frozen on purpose."""
    words = re.split(r"[^a-z0-9]+", (layer or "").lower())
    return any(word.startswith("lora") or word in ("adapter", "adapters", "ia3") for word in words)


class UnchangedTensor(InARow):
    """Counts samples in which a layer's update or gradient is exactly 0, or its norm is the same bit by bit.

    Steps with a learning rate of 0 are not counted, nor are biases, norms and experts. Frozen on purpose are
    layers next to adapters, layers that have a gradient and never moved while others do, and the front of a
    model whose rest moves if no gradient of the front is recorded.

    Formula: update 0, or else gradient 0, or else the same weight norm, samples times in a row at a
        learning rate other than 0, unless frozen on purpose; or a parameter with a gradient is in no
        watched optimizer
    Fires: at the tenth such sample, for a parameter in no optimizer at the third, or within a quarter of
        the samples so far
    Chance: none: an update is exactly 0
    Source: SageMaker Debugger UnchangedTensor; exact instead of np.allclose, which small learning rates
        pass
    """

    id = "unchanged-tensor"
    title = "Unchanged tensor"
    severity = "low"
    fewest = "10 samples"
    leads = tuple(RANKING)
    roles = (*leads, "learning_rate")
    name = "value"
    defaults = thresholds(samples=10, left_out=3, calm=2)
    action = (
        "if it is not frozen on purpose: is it in the optimizer, is it trainable (PyTorch: requires_grad; "
        "JAX: stop_gradient, optax masks; Keras: trainable), does the loss depend on it, are all units "
        "before it dead?"
    )

    def is_led_by(self, stream: Stream) -> bool:
        """Return whether it judges a series; what no token reaches is the router's, see ``dead-experts``."""
        of_layer = stream.role == "left_out" or is_dense_matrix(stream.layer)
        return of_layer and super().is_led_by(stream)

    def samples(self, known: Known) -> int:
        return self.limit("left_out" if known.stream.role == "left_out" else "samples")

    def calms(self, known: Known) -> int:
        return self.limit("calm")

    def curve(self, known: Known, run: RunFacts) -> tuple[NDArray[np.int64], Floats]:
        """Return the samples at which the learning rate is not 0."""
        steps, means = known.facts.curve
        rates = [at_steps(rate.facts, steps, 1) for rate in run.beside(known, "learning_rate")]
        moves = np.max(rates, axis=0) != 0 if rates else np.ones(len(steps), np.bool_)
        return steps[moves], means[moves]

    def bad(self, known: Known, values: Floats) -> NDArray[np.bool_]:
        if known.stream.role == "weight_norm":
            return np.asarray(np.diff(values, prepend=np.nan) == 0)
        return values > 0 if known.stream.role == "left_out" else values == 0

    def sentence(self, known: Known, value: float) -> str:
        layer, role = known.stream.layer, known.stream.role
        if role == "left_out":
            return f"{layer} has a gradient, but no watched optimizer has {layer}"
        what = {"layer_gradient": "gradient is 0", "weight_norm": "norm stays the same"}.get(
            role, "update is 0"
        )
        facts = known.facts
        same = int((facts.curve[0] >= facts.constant_since).sum()) * facts.width
        return f"{layer} does not change: its {what} in {max(same, self.limit('samples')):,} samples"

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        seen, role, facts = super().see(known, run), known.stream.role, known.facts
        # Only then are other series looked at, of which there are as many as layers.
        if seen is None or (role != "left_out" and self._is_kept(known, run)):
            return None
        if any(RANKING[other.stream.role] > RANKING[role] for other in self._of_layer(known, run, *RANKING)):
            return None
        if role == "weight_norm":
            seen = seen._replace(since_step=facts.constant_since)
        return seen._replace(severity="medium") if role == "left_out" else seen

    @staticmethod
    def _of_layer(known: Known, run: RunFacts, *roles: str) -> list[Known]:
        layer = known.stream.layer
        return [other for other in run.beside(known, *roles) if other.stream.layer == layer]

    def _is_kept(self, known: Known, run: RunFacts) -> bool:
        """Return whether a layer is unchanged on purpose.

        An optimizer's mask keeps layers that have a gradient unchanged from the first sample on while others
        move; next to adapters, the rest is frozen.
        """
        stream = known.stream
        layers = {other.stream.layer for other in run.of(stream.run, *RANKING)}
        if any(map(is_adapter, layers)) and not is_adapter(stream.layer):
            return True
        if stream.role not in UPDATES or known.facts.most[0] > 0:
            return False
        gradients = self._of_layer(known, run, "layer_gradient")
        if not gradients:
            return self._is_front(known, run)
        others = any(other.facts.most[0] > 0 for other in run.of(stream.run, *UPDATES))
        return others and gradients[0].facts.last > 0

    @staticmethod
    def _is_front(known: Known, run: RunFacts) -> bool:
        """Return whether all of a model up to a layer is unchanged from the first sample on, unlike the rest.

        This is how layers look that are unfrozen from the last one backwards, with their biases, and without
        a recorded gradient. An unchanged tensor among others, or one whose bias moves, is not such a layer.
        """
        # In the order in which their updates were first recorded: it is that of the model.
        moved: dict[str, bool] = {}
        for other in run.beside(known, *UPDATES):
            layer = other.stream.layer or ""
            moved[layer] = moved.get(layer, False) or other.facts.most[0] > 0
        layers, moves = list(moved), list(moved.values())
        first = moves.index(True) if True in moves else len(moves)
        layer = known.stream.layer or ""
        module = layer.rpartition(".")[0]
        whole = [name for name in layers[:first] if name.rpartition(".")[0] == module]
        return layer in whole and len(whole) > 1 and first < len(moves) and all(moves[first:])

    @property
    def missing(self) -> str | None:
        """A learning rate alone says nothing about tensors."""
        if set(self._seen) - {"learning_rate"}:
            return super().missing
        return "not recorded: update ratios, gradient norms or weight norms of the layers"


ROWS = (UnchangedTensor,)
