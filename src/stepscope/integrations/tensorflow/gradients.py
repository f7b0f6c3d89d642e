"""Statistics of gradients, weights and updates inside ``tf.function``, and how they get out of it.

They are computed if a variable of ours says so, in a branch of the step's own graph, and left in other
variables; the host sets the former before a step and reads the latter after it. Nothing waits for a value,
and nothing calls back. These variables are plain ones whatever the strategy: the first replica of all writes
them, from gradients that are reduced already.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from stepscope.integrations.tensorflow.statistics import norm_of, rows_of
from stepscope.record.edges import BUCKETS
from stepscope.record.statistics.table import FULL, HISTOGRAMS, NOTHING_CLIPS, OFF, StepResult


class ArrayStatistics:
    """Statistics of the arrays of one kind, in variables.

    Args:
        rows: How many arrays.
        histograms: Whether there may be histograms.
    """

    def __init__(self, rows: int, histograms: bool) -> None:
        self.floats = variable(np.zeros((rows, 4)))
        self.integers = variable(np.zeros((rows, 3), np.int64))
        self.counts = variable(np.zeros((rows, BUCKETS + 1), np.int32)) if histograms else None

    def assign(self, arrays: Sequence[Any], *, histograms: bool) -> None:
        """Measure arrays, None for one that is not there."""
        floats, integers, counts = rows_of(arrays, histograms=histograms and self.counts is not None)
        self.floats.assign(floats)
        self.integers.assign(integers)
        if counts is not None and self.counts is not None:
            self.counts.assign(counts)

    def read(self, histograms: bool) -> tuple[Any, ...]:
        """Return the current values, as tensors."""
        counts = self.counts.read_value() if histograms and self.counts is not None else None
        return self.floats.read_value(), self.integers.read_value(), counts


class Statistics:
    """The statistics of one optimizer's step.

    In a step's graph ``before``, ``gradients`` and ``after`` are called in this order.

    Args:
        sizes: Elements of each parameter that is measured.
        like: These parameters; a copy of each is kept if updates are wanted.
        of: Any of gradients, weights and updates.
        histograms: Whether there may be histograms.
        parts: Number of parts of the parameters, of which each step measures one.
        level: Level of the first step.
        part: Which part, then.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        like: Sequence[Any],
        of: Sequence[str],
        *,
        histograms: bool,
        parts: int = 1,
        level: int = OFF,
        part: int = 0,
    ) -> None:
        self.sizes, self.of, self._parts = tuple(sizes), tuple(of), parts
        self._host_choice = self._choice_of(level, part)
        self._choice = variable(np.int32(self._host_choice))
        self.made = variable(np.int64(0))
        self.norms = variable(np.full(2, np.nan, np.float64))
        self._kept = {kind: ArrayStatistics(len(self.sizes), histograms) for kind in self.of}
        self._old = [variable(np.zeros(one.shape), one.dtype) for one in like] if "updates" in of else []

    def tell(self, level: int, part: int = 0) -> None:
        """Set the level of the next step's measurement, and the part; called outside the step."""
        choice = self._choice_of(level, part)
        if choice != self._host_choice:
            self._host_choice = choice
            self._choice.assign(choice)

    def _choice_of(self, level: int, part: int) -> int:
        """Return the number of a branch: nothing, norms, each part, each part with histograms."""
        return level if level < FULL else FULL + (level - FULL) * self._parts + part

    def before(self, weights: Sequence[Any]) -> None:
        """Measure the weights before the step, and copy them if their updates are wanted."""
        if not first_replica():
            return

        def full(part: int, histograms: bool) -> None:
            chosen = self._of_part(weights, part)
            if "weights" in self._kept:
                self._kept["weights"].assign(chosen, histograms=histograms)
            for old, new in zip(self._old, chosen, strict=False):
                if new is not None:
                    old.assign(new)

        self._branch(full)

    def gradients(
        self, everything: Sequence[Any], rows: Sequence[Any], unclipped: Sequence[Any] | None
    ) -> None:
        """Measure gradients as the optimizer gets them.

        Args:
            everything: All of them.
            rows: Of each parameter that is measured, None if it has none.
            unclipped: All of them as they were before clipping; None if nothing clips.
        """
        if not first_replica():
            return

        def norm() -> None:
            after = norm_of(everything)
            nothing = tf.constant(NOTHING_CLIPS, tf.float64)
            clips = unclipped is not None
            self.norms.assign(tf.stack([norm_of(unclipped or ()), after] if clips else [after, nothing]))
            self.made.assign_add(1)

        def full(part: int, histograms: bool) -> None:
            norm()
            if "gradients" in self._kept:
                self._kept["gradients"].assign(self._of_part(rows, part), histograms=histograms)

        self._branch(full, norm)

    def after(self, weights: Sequence[Any]) -> None:
        """Measure the updates that the step has made."""
        if not first_replica() or not self._old:
            return

        def full(part: int, histograms: bool) -> None:
            pairs = zip(self._old, self._of_part(weights, part), strict=True)
            changes = [None if new is None else tf.convert_to_tensor(new) - old for old, new in pairs]
            self._kept["updates"].assign(changes, histograms=histograms)

        self._branch(full)

    def read(self, level: int) -> StepResult:
        """Return the last step's measurements, without waiting for them; its level must be given."""
        wanted = self._kept.items() if level >= FULL else ()
        results = {kind: result.read(level == HISTOGRAMS) for kind, result in wanted}
        made, norms = self.made.read_value(), self.norms.read_value()
        return StepResult(operator.methodcaller("numpy"), self.sizes, made, norms, results)

    def _of_part(self, arrays: Sequence[Any], part: int) -> list[Any]:
        """Return the arrays of one part, None in place of those of others."""
        return [array if row % self._parts == part else None for row, array in enumerate(arrays)]

    def _branch(self, full: Callable[[int, bool], None], norm: Callable[[], None] | None = None) -> None:
        """Measure at the chosen level."""

        def doing(what: Callable[[], None] | None) -> Callable[[], Any]:
            def branch() -> Any:
                if what is not None:
                    what()
                return tf.constant(0)

            return branch

        chosen = [
            partial(full, part, histograms) for histograms in (False, True) for part in range(self._parts)
        ]
        tf.switch_case(self._choice.read_value(), [doing(case) for case in (None, norm, *chosen)])


def variable(value: Any, dtype: Any = None) -> Any:
    """Return a variable that no strategy makes copies of, made outside of whatever graph is being built."""
    with tf.init_scope():
        return ResourceVariable(value, trainable=False, dtype=dtype)


def first_replica() -> bool:
    """Return whether this is the replica that measures: the first of all."""
    context = tf.distribute.get_replica_context()
    if context is None:
        return True
    replica = context.replica_id_in_sync_group
    number = replica if isinstance(replica, int) else tf.get_static_value(replica)
    return number is None or int(number) == 0
