"""TensorFlow: measured in a branch of the step's graph, which leaves its results in variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from stepscope.integrations.keras.statistics import (
    ActivationMeter,
    GradientMeter,
    Taps,
)
from stepscope.integrations.tensorflow.gradients import ArrayStatistics, Statistics, first_replica, variable
from stepscope.integrations.tensorflow.statistics import FAR
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook, GradientHook
from stepscope.record.statistics.hooks import ActivationReport
from stepscope.record.statistics.table import HISTOGRAMS, OFF, StepResult, table


class GraphGradients(GradientMeter):
    """Measures in ``tf.function``, under any strategy of one variable per replica.

    Args:
        hook: Chooses the quantities, the steps and the parameters.
        reduces: Whether the optimizer adds up the replicas' gradients only after clipping: Keras 3.
    """

    def __init__(self, hook: GradientHook, *, reduces: bool) -> None:
        super().__init__(hook)
        self._reduces = reduces
        self._statistics: Statistics | None = None
        self._unclipped: Sequence[Any] | None = None

    def make(self) -> None:
        """Make the variables."""
        like = [value(variable) for variable in self.trained]
        self._statistics = Statistics(
            self.sizes,
            like,
            self.hook.of,
            histograms=bool(self.hook.histograms_every),
            parts=self.hook.rotate,
            level=self.level,
            part=self.part,
        )

    def request(self, level: int, part: int) -> None:
        """Set the level of the next step."""
        if self._statistics is not None:
            self._statistics.tell(level, part)

    def result(self, level: int) -> StepResult | None:
        """Return the last step's measurements."""
        return None if self._statistics is None else self._statistics.read(level)

    def before(
        self, unclipped: Sequence[Any] | None, clipped: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        """Look at the weights; at the gradients if they are reduced already."""
        if self._statistics is None:
            return
        self._statistics.before([value(variable) for variable in self.trained])
        self._unclipped = unclipped
        if not self._reduces:
            self._measure(clipped, variables)

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Look at the reduced gradients."""
        if self._reduces and self._statistics is not None:
            self._measure(gradients, variables)

    def after(self, variables: Sequence[Any]) -> None:
        """Look at the weights after the step."""
        if self._statistics is not None:
            self._statistics.after([value(variable) for variable in self.trained])

    def _measure(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        if self._statistics is not None:
            before, self._unclipped = self._unclipped, None
            if self._reduces and replicas() > 1:
                before = None  # each replica clips its own before the sum: there is no whole one
            self._statistics.gradients(gradients, self.in_rows(variables, gradients), before)


def value(variable: Any) -> Any:
    """Return TensorFlow's variable of one of Keras's."""
    return getattr(variable, "_value", variable) if hasattr(variable, "path") else variable


def replicas() -> int:
    """Return how many replicas there are."""
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


class GraphActivations(ActivationMeter):
    """Measures in ``tf.function``; of several replicas the first.

    Args:
        run: The run.
        hook: Chooses the quantities and the steps.
        taps: The layers that are measured.
        model: The model, whose step is compiled again with the measurements in it.
    """

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps, model: Any) -> None:
        super().__init__(run, hook, taps)
        self._level, self._turn = variable(np.int32(OFF)), variable(np.int32(0))
        self._requested = (OFF, 0)
        self._clock = variable(np.zeros(()))  # a number on the device, there once what came before is done
        self._rows: dict[str, LayerStatistics] = {}
        self._opened.enter_context(taps.open(self._see))
        self._seeing = False
        renew(model)

    def before_step(self, step: int) -> None:
        """Measure the step as is due; operations traced in it belong to the step's graph."""
        super().before_step(step)
        self._seeing = True
        if self._requested != (self.level, self.part):
            self._requested = self.level, self.part
            self._level.assign(self.level)
            self._turn.assign(self.part)

    def after_step(self, step: int) -> None:
        """Take its measurements, without waiting for them."""
        self._seeing = False
        if not self.timed or not self._rows:
            return
        rows = self._rows if self.level != OFF else {}
        tables = {
            name: row.read(self.level == HISTOGRAMS) for name, row in rows.items() if self.in_turn(name)
        }
        done = self._clock.read_value().numpy
        self.report_later(step, done, partial(write, step=step, activations=tables) if tables else None)

    def finish(self, timeout: float) -> None:
        """Record the measurements so far; the graph stays, but measures nothing."""
        super().finish(timeout)
        self._level.assign(OFF)

    def _see(self, name: str, out: Any) -> None:
        if not self._seeing or not first_replica():
            return
        units = out.shape[-1] if out.shape.rank and out.shape.rank > 1 else None
        kind = self.taps.kinds.get(name, "")
        if name not in self._rows:
            self._rows[name] = LayerStatistics(
                units if kind == "relu" else None, bool(self.hook.histograms_every)
            )
        row = self._rows[name]

        def full(histograms: bool) -> Any:
            row.assign(out, FAR.get(kind), self.hook.saturated, histograms=histograms)
            return tf.constant(0)

        nothing, level = partial(tf.constant, 0), self._level.read_value()
        if self.hook.rotate > 1:
            turn = self.taps.rows[name] % self.hook.rotate
            level = tf.where(tf.equal(self._turn.read_value(), turn), level, OFF)
        tf.switch_case(level, [nothing, nothing, partial(full, False), partial(full, True)])


class LayerStatistics:
    """Statistics of one layer's output, in variables.

    Args:
        units: How many units can be dead; None for none.
        histograms: Whether there may be histograms.
    """

    def __init__(self, units: int | None, histograms: bool) -> None:
        self._kept = ArrayStatistics(1, histograms)
        self._size, self._saturated = variable(np.int64(0)), variable(np.int64(-1))
        self._active = None if units is None else variable(np.zeros(units, bool))

    def assign(
        self, out: Any, far: Callable[[Any], Any] | None, saturated: float, *, histograms: bool
    ) -> None:
        """Measure an output."""
        self._kept.assign([out], histograms=histograms)
        self._size.assign(tf.size(out, tf.int64))
        if far is not None:
            self._saturated.assign(tf.math.count_nonzero(far(out) >= saturated, dtype=tf.int64))
        if self._active is not None:
            self._active.assign(tf.reduce_any(out != 0, axis=list(range(out.shape.rank - 1))))

    def read(self, histograms: bool) -> tuple[Any, ...]:
        """Return the current values, as tensors."""
        active = None if self._active is None else self._active.read_value()
        return self._kept.read(histograms), self._size.read_value(), self._saturated.read_value(), active


def write(report: ActivationReport, step: int, activations: dict[str, tuple[Any, ...]]) -> None:
    """Record the measurements of a step; waits for them."""
    names, sizes, parts = list(activations), [], []
    saturated, active = {}, {}
    for name, (arrays, size, number, units) in activations.items():
        sizes.append(int(size.numpy()))
        parts.append([None if array is None else array.numpy() for array in arrays])
        if sizes[-1] and int(number.numpy()) >= 0:
            saturated[name] = int(number.numpy()) / sizes[-1]
        if units is not None:
            active[name] = units.numpy()
    floats, integers, counts = (
        None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)
    )
    if floats is not None and integers is not None:
        rows = table(sizes, floats, integers, counts)
        report.take(step, names, rows, saturated=saturated, active=active)


def renew(model: Any) -> None:
    """Have a model trace its step again if it has done so already."""
    if getattr(model, "train_function", None) is not None:
        model.make_train_function(force=True)
