"""unchanged-tensor: a parameter does not move at all."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.finding import Severity
from stepscope.health.gate import AlarmGate
from stepscope.health.layers import is_dense_matrix
from stepscope.health.rule import At, Rule, thresholds
from stepscope.health.series import Stream

RANKING = {"left_out": 4, "update_ratio": 3, "update_norm": 2, "layer_gradient": 1, "weight_norm": 0}
"""Series that show whether a parameter moves, best first; only a layer's best recorded one counts."""

Layer = tuple[str, int | None, str | None]


@lru_cache(maxsize=1 << 14)
def is_adapter(layer: str | None) -> bool:
    """Return whether a layer's name is that of an adapter, next to which all others are frozen on purpose."""
    words = re.split(r"[^a-z0-9]+", (layer or "").lower())
    return any(word.startswith("lora") or word in ("adapter", "adapters", "ia3") for word in words)


class UnchangedTensor(Rule):
    """Counts samples in which a layer's update or gradient is exactly 0, or its norm is the same bit by bit.

    Steps with a learning rate of 0 are not counted.
    """

    id = "unchanged-tensor"
    title = "Unchanged tensor"
    severity = "low"
    formula = (
        "update = 0, or if that is not recorded gradient = 0, or else the weight norm is equal to the last "
        "bit, samples times in a row while the learning rate is not 0; not for biases, norms, layers next to "
        "adapters, layers that have a gradient and never moved while others do, and the front of a model "
        "whose rest moves if no gradient of the front is recorded; or a parameter with a gradient is in no "
        "watched optimizer, left_out times in a row (then medium)"
    )
    source = (
        "SageMaker Debugger UnchangedTensor; exact instead of np.allclose, which small learning rates pass"
    )
    window = "at the tenth such sample; for a parameter in no optimizer, at the third"
    chance = "none: an update is exactly 0"
    fewest = "10 samples"
    grouped = in_a_row = True
    roles = ("update_ratio", "update_norm", "layer_gradient", "weight_norm", "left_out", "learning_rate")
    defaults = thresholds(samples=10, left_out=3, calm=2)
    action = (
        "if it is not frozen on purpose: is it in the optimizer, is it trainable (PyTorch: requires_grad; "
        "JAX: stop_gradient, optax masks; Keras: trainable), does the loss depend on it, are all units "
        "before it dead?"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._rates: dict[tuple[str, int | None], float] = {}
        self._best: dict[tuple[str, int | None, str | None], Stream] = {}
        self._gates: dict[Stream, tuple[AlarmGate, list[int]]] = {}
        self._norms: dict[Stream, tuple[float, int]] = {}
        """The newest norm of a tensor, and the step since which it is the same."""
        self._adapted: dict[str, float] = {}
        self._felt: dict[Layer, tuple[list[float], list[bool]]] = {}
        self._moved: dict[Layer, float] = {}
        self._updated: dict[tuple[str, int | None], dict[str | None, float]] = {}
        """When layers with updates were first recorded, in that order: it is that of the model."""

    def look(self, batch: StreamBatch) -> None:
        """Judge point by point; of the learning rates, only those that reach or leave 0 count."""
        rates = batch.of(("learning_rate",))
        varied = 0.0 in self._rates.values() or any((rate.values == 0).any() for rate in rates)
        best: dict[Layer, int] = {}
        for series in batch.of(self.roles):
            self._note(series)
            layer = series.stream.run, series.stream.rank, series.stream.layer
            best[layer] = max(RANKING.get(series.stream.role, 0), best.get(layer, 0))
        # Where a better series is known of a layer, the others need not even be put in order.
        wanted = [series for series in batch.of(self.roles) if self._may_count(series.stream)]
        if not varied:
            wanted = [item for item in wanted if item.stream.role != "learning_rate"]
            wanted = [item for item in wanted if not self._is_moving(item, best)]
        for stream, step, value, wall in StreamBatch(wanted).points(self.roles):
            place = stream.run, stream.rank
            if stream.role == "learning_rate":
                self._rates[place] = value
            elif self._rates.get(place) != 0.0 and self._is_best(At(stream, step, wall, step)):
                self._judge(At(stream, step, wall, step), value)
        for chunk in () if varied else rates:
            self._rates[chunk.stream.run, chunk.stream.rank] = float(chunk.values[-1])

    def _note(self, chunk: Chunk) -> None:
        """Note the signs that a layer is kept unchanged on purpose."""
        stream, walls = chunk.stream, chunk.walls
        place = stream.run, stream.rank, stream.layer
        if stream.role == "layer_gradient":
            times, signs = self._felt.setdefault(place, ([], []))
            felt = chunk.values > 0
            before = np.concatenate([[not felt[0] if not signs else signs[-1]], felt[:-1]])
            for index in np.flatnonzero(felt != before).tolist():
                times.append(float(walls[index]))
                signs.append(bool(felt[index]))
        elif stream.role in ("update_ratio", "update_norm") and walls[0] < self._moved.get(place, inf):
            self._updated.setdefault(place[:2], {}).setdefault(stream.layer, float(walls[0]))
            moved = np.flatnonzero(chunk.values > 0)
            if len(moved):
                self._moved[place] = min(float(walls[moved[0]]), self._moved.get(place, inf))
        if float(walls[0]) < self._adapted.get(stream.run, inf) and is_adapter(stream.layer):
            self._adapted[stream.run] = float(walls[0])

    def _is_kept(self, at: At) -> bool:
        """Return whether a layer is unchanged on purpose.

        An optimizer's mask keeps layers that have a gradient unchanged from the first sample on while others
        move; next to adapters, the rest is frozen.
        """
        stream = at.stream
        if self._adapted.get(stream.run, inf) <= at.wall and not is_adapter(stream.layer):
            return True
        place = stream.run, stream.rank, stream.layer
        if stream.role not in ("update_ratio", "update_norm") or self._moved.get(place, inf) <= at.wall:
            return False
        if place not in self._felt and self._is_front(place, at.wall):
            return True
        times, signs = self._felt.get(place, ([], []))
        known = bisect_right(times, at.wall)
        others = any(wall <= at.wall for (run, _, _), wall in self._moved.items() if run == stream.run)
        return known > 0 and signs[known - 1] and others

    def _is_front(self, place: Layer, wall: float) -> bool:
        """Return whether all of a model up to a layer is unchanged from the first sample on, unlike the rest.

        This is how layers look that are unfrozen from the last one backwards, with their biases, and without
        a recorded gradient. An unchanged tensor among others, or one whose bias moves, is not such a layer.
        """
        run, rank, layer = place
        layers = [name for name, begun in self._updated.get((run, rank), {}).items() if begun <= wall]
        still = [self._moved.get((run, rank, name), inf) > wall for name in layers]
        last = still.index(False) if False in still else len(still)
        module = (layer or "").rpartition(".")[0]
        whole = [name for name in layers[:last] if (name or "").rpartition(".")[0] == module]
        return layer in whole and len(whole) > 1 and last < len(still) and not any(still[last:])

    def _is_moving(self, chunk: Chunk, ranking: Mapping[Layer, int]) -> bool:
        """Take a layer that moved at every sample, as most do, without looking at each point.

        Args:
            chunk: Its points.
            ranking: The best that is recorded of each layer in this stretch of time.
        """
        stream = chunk.stream
        place = stream.run, stream.rank, stream.layer
        best = self._best.get(place)
        gate, steps = self._gates.get(stream, (None, []))
        calm = stream.role not in ("left_out", "weight_norm") and bool((chunk.values != 0).all())
        if (
            best is not stream
            or ranking[place] > RANKING[stream.role]
            or gate is None
            or gate.is_open
            or not calm
        ):
            return False
        steps += chunk.steps.tolist()
        del steps[: -gate.opens]
        if len(steps) == gate.opens:
            self.judged()
        gate.run(np.zeros(len(chunk), bool))
        return True

    def _may_count(self, stream: Stream) -> bool:
        best = self._best.get((stream.run, stream.rank, stream.layer))
        return best is None or stream.role == "learning_rate" or RANKING[stream.role] >= RANKING[best.role]

    def _is_best(self, at: At) -> bool:
        """Return whether a series shows best if its layer moves; another one's finding is then over."""
        stream = at.stream
        place = stream.run, stream.rank, stream.layer
        best = self._best.setdefault(place, stream)
        if best != stream and RANKING[stream.role] > RANKING[best.role]:
            gate, _ = self._gates.pop(best, (None, []))
            if gate is not None and gate.is_open:
                self.close(replace(at, stream=best))
            self._best[place] = best = stream
        return best == stream

    def _judge(self, at: At, value: float) -> None:
        stream = at.stream
        unmoved = value == 0.0
        if stream.role == "left_out":
            unmoved = value > 0
        elif not is_dense_matrix(stream.layer):
            unmoved = False  # what no token reaches is the router's, see dead-experts
        elif stream.role == "weight_norm":
            before, since = self._norms.get(stream, (None, at.step))
            unmoved = before == value
            self._norms[stream] = value, since if unmoved else at.step
        unmoved = unmoved and (stream.role == "left_out" or not self._is_kept(at))
        gate, steps = self._gates.setdefault(
            stream,
            (
                AlarmGate(
                    opens=self.limit("left_out" if stream.role == "left_out" else "samples"),
                    closes=self.limit("calm"),
                ),
                [],
            ),
        )
        steps.append(at.step)
        del steps[: -gate.opens]
        if len(steps) == gate.opens:
            self.judged()
        change = gate.see(unmoved)
        if change == "close":
            self.close(at)
        elif change == "open":
            what = {"layer_gradient": "gradient is 0", "weight_norm": "norm stays the same"}
            text = (
                f"{stream.layer} does not change: its {what.get(stream.role, 'update is 0')} in "
                f"{len(steps)} samples"
            )
            if stream.role == "left_out":
                text = f"{stream.layer} has a gradient, but no watched optimizer has {stream.layer}"
            severity: Severity = "medium" if stream.role == "left_out" else "low"
            here = At(stream, at.step, at.wall, self._norms.get(stream, (value, min(steps)))[1])
            self.open(here, text, {"value": value}, severity=severity)

    @property
    def missing(self) -> str | None:
        """A learning rate alone says nothing about tensors."""
        if set(self._seen) - {"learning_rate"}:
            return super().missing
        return "not recorded: update ratios, gradient norms or weight norms of the layers"
