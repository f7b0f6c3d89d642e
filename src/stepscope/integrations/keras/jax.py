"""JAX: gradients measured in the jitted step, layers in a second function that is given the same batch.

The measurements must be known when the step is compiled, as a branch at run time makes a GPU wait. So the
optimizer's state comes in a container of its own type, whose structure tells the measurements: each
combination is compiled separately, and a plain step pays nothing.

The second function is given the weights, and the state of seeds and moving means, that the step is about to
be given: so it computes the same values. The step itself is compiled and run as it would be without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import keras

from stepscope.integrations.jax.gradients import addressable, record_activations
from stepscope.integrations.jax.optimizer import copies
from stepscope.integrations.jax.statistics import MeasuredTree, count, measure, moments, real, wide
from stepscope.integrations.jax.store import budget
from stepscope.integrations.keras.statistics import (
    ActivationMeter,
    GradientMeter,
    Taps,
    become,
)
from stepscope.record import Run
from stepscope.record.edges import BUCKETS
from stepscope.record.statistics import ActivationHook, GradientHook
from stepscope.record.statistics.sampling import Sampling, SamplingBudget
from stepscope.record.statistics.table import FULL, HISTOGRAMS, NOTHING_CLIPS, OFF, StepResult


class MeasuredState(list[Any]):
    """The variables of an optimizer in whose next step something is measured.

    As a type of its own, with the measurements in its structure, it has ``jit`` compile a separate step.

    Args:
        variables: Of the optimizer.
        level: The measurements.
        part: Which part of the parameters.
    """

    def __init__(self, variables: Sequence[Any], level: int, part: int) -> None:
        super().__init__(variables)
        self.level, self.part = level, part


jax.tree_util.register_pytree_node(
    MeasuredState,
    lambda state: (list(state), (state.level, state.part)),
    lambda measured, variables: MeasuredState(variables, *measured),
)


class Stateless:
    """An optimizer whose state chooses the measurements, and which is saved without our variables."""

    _stepscope: StatelessGradients

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """Apply gradients, measured as the state says."""
        apply = super().stateless_apply  # type: ignore[misc]
        with self._stepscope.measuring(optimizer_variables):
            return apply(list(optimizer_variables), grads, trainable_variables)

    def save_own_variables(self, store: Any) -> None:
        """Save the optimizer's own variables."""
        with self._stepscope.hidden():
            super().save_own_variables(store)  # type: ignore[misc]

    def load_own_variables(self, store: Any) -> None:
        """Load the optimizer's own variables."""
        with self._stepscope.hidden():
            super().load_own_variables(store)  # type: ignore[misc]


class StatelessGradients(GradientMeter):
    """Measures in a jitted step.

    Args:
        hook: Chooses the quantities, the steps and the parameters.
    """

    mixins = (Stateless,)

    def __init__(self, hook: GradientHook) -> None:
        super().__init__(hook)
        self._traced: tuple[int, int] | None = None
        self._outer: Any = None
        self._old: list[Any] = []
        self._copies: dict[str, Any] | None = None
        self.variables: dict[str, Any] = {}

    # --- in the step --------------------------------------------------------------------------------

    def make(self) -> None:
        """Make variables of the optimizer."""
        rows, add = len(self.names), self.optimizer.add_variable
        shapes: dict[str, tuple[tuple[int, ...], str]] = {"made": ((), "int32"), "norms": ((2,), "float32")}
        for kind in self.hook.of:
            shapes[f"{kind}_floats"] = ((rows, 4), "float32")
            shapes[f"{kind}_integers"] = ((rows, 3), "int32")
            if self.hook.histograms_every:
                shapes[f"{kind}_counts"] = ((rows, BUCKETS + 1), "int32")
        self.variables = {
            name: add(shape, dtype=kind, name=f"stepscope_{name}") for name, (shape, kind) in shapes.items()
        }

    @contextmanager
    def measuring(self, state: Any) -> Iterator[None]:
        """Measure by the choice in a state, also in an optimizer within this one."""
        before = self._traced
        if isinstance(state, MeasuredState):
            self._traced = state.level, state.part
        elif before is None:
            self._traced = OFF, 0
        try:
            yield
        finally:
            self._traced = before

    def before(
        self, unclipped: Sequence[Any] | None, clipped: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        """Measure gradients and weights."""
        level = self._chosen[0]
        if level == OFF:
            return
        norms = [norm_of(unclipped or clipped), norm_of(clipped) if unclipped else jnp.float32(NOTHING_CLIPS)]
        self.variables["norms"].assign(jnp.stack(norms))
        self.variables["made"].assign(self.variables["made"].value + 1)
        if level >= FULL:
            self._keep("gradients", self._in_turn(variables, clipped))
            self._old = self._in_turn(variables, [variable.value for variable in variables])
            self._keep("weights", self._old)

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Nothing: arrays are whole under ``jit``."""

    def after(self, variables: Sequence[Any]) -> None:
        """Measure updates."""
        if self._chosen[0] >= FULL:
            new = self.in_rows(variables, [variable.value for variable in variables])
            pairs = zip(self._old, new, strict=True)
            self._keep("updates", [None if one is None else two - one for one, two in pairs])
            self._old = []

    def _keep(self, kind: str, arrays: Sequence[Any]) -> None:
        if kind not in self.hook.of or not arrays:
            return
        flat = [None if array is None else real(wide(array)) for array in arrays]
        parts = [row_of(row) for row in flat]
        self.variables[f"{kind}_floats"].assign(jnp.stack([part[0] for part in parts]))
        self.variables[f"{kind}_integers"].assign(jnp.stack([part[1] for part in parts]))
        if self._chosen[0] == HISTOGRAMS and self.hook.histograms_every:
            nothing = jnp.zeros(BUCKETS + 1, jnp.int32)
            counts = jnp.stack([nothing if row is None else count(row) for row in flat])
            self.variables[f"{kind}_counts"].assign(counts)

    def _in_turn(self, variables: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return values of variables in the order of the rows, None for those of other parts."""
        rows = enumerate(self.in_rows(variables, values))
        return [array if row % self.hook.rotate == self._chosen[1] else None for row, array in rows]

    @property
    def _chosen(self) -> tuple[int, int]:
        return (self.level, self.part) if self._traced is None else self._traced

    # --- around the step ----------------------------------------------------------------------------

    def wrapped_in(self, optimizer: Any) -> None:
        """Give a ``LossScaleOptimizer`` a choice of measurements, too."""
        self._outer = optimizer
        if not isinstance(optimizer, Stateless):
            optimizer.__dict__["_stepscope"] = self
            become(optimizer, Stateless)

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return a budget on which the processes of the job agree: their programs must be the same."""
        return budget(self.hook, sampling, failed=self._failed)

    def given(self, state: Sequence[Any]) -> Sequence[Any]:
        """Return the optimizer's state for the coming step, which chooses its measurements."""
        part = self.part if self.level >= FULL else 0
        return state if self.level == OFF else MeasuredState(state, self.level, part)

    def take(self, state: Sequence[Any]) -> None:
        """Copy the measurements of a step in the optimizer's state, as the next step may reuse its memory."""
        if not self.timed:
            return
        kinds: tuple[str, ...] = ("_floats", "_integers") if self.level >= FULL else ()
        if self.level == HISTOGRAMS:
            kinds += ("_counts",)
        ours = {
            id(variable): name
            for name, variable in self.variables.items()
            if name in ("made", "norms") or name.endswith(kinds)
        }
        variables = (self._outer or self.optimizer).variables
        pairs = zip(variables, state, strict=True)
        self._copies = copies({ours[id(one)]: value for one, value in pairs if id(one) in ours})

    def result(self, level: int) -> StepResult | None:
        values, self._copies = self._copies, None
        if values is None:
            return None
        words = ("floats", "integers", "counts")
        kinds = [name.removesuffix("_floats") for name in values if name.endswith("_floats")]
        parts = {kind: [values.get(f"{kind}_{word}") for word in words] for kind in kinds}
        return StepResult(addressable, self.sizes, values["made"], values["norms"], parts)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Take our variables out of the optimizer's for as long as it is saved or loaded."""
        held = self.optimizer._variables if self.optimizer is not None else []
        all_ = list(held)
        ours = set(map(id, self.variables.values()))
        held[:] = [variable for variable in all_ if id(variable) not in ours]
        try:
            yield
        finally:
            held[:] = all_


def row_of(values: Any) -> tuple[Any, Any]:
    """Return the statistics of a flat array, None for one that is not there."""
    if values is None:
        return jnp.zeros(4, jnp.float32), jnp.zeros(3, jnp.int32)
    floats, integers = moments(values)
    return floats, jnp.append(integers, jnp.int32(1))


def norm_of(arrays: Sequence[Any]) -> Any:
    """Return the norm of all arrays together."""
    some = [real(wide(array)) for array in arrays if array is not None]
    return jnp.sqrt(sum((jnp.vdot(array, array) for array in some), jnp.float32(0)))


class StatelessActivations(ActivationMeter):
    """Measures the batches that a jitted step is given.

    Args:
        run: The run.
        hook: Chooses the quantities and the steps.
        taps: The layers that are measured.
        model: The model.
    """

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps, model: Any) -> None:
        super().__init__(run, hook, taps)
        self._model = model
        self._look = jax.jit(self._forward, static_argnames=("level", "part"))
        self._found: MeasuredTree | None = None
        self._result: Any = None

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return a budget on which the processes of the job agree: all run the same programs."""
        return budget(self.hook, sampling, failed=self._failed)

    def given(self, state: Any, batch: Any) -> None:
        """Look at the arguments of a step.

        Args:
            state: Of the trainer: trainable variables, others, and others that are unused here.
            batch: Inputs, with targets and weights.
        """
        if self.level == OFF or self._found is not None:
            return
        x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        self._found = self._look(list(state[0]), list(state[1]), x, level=self.level, part=self.part)

    def taken(self, logs: Any) -> None:
        """Note the result of a step, which is available once it is done."""
        if self.timed:
            self._result = min(jax.tree.leaves(logs), key=lambda one: one.size, default=None)

    def after_step(self, step: int) -> None:
        """Record it."""
        values, self._found = self._found, None
        result, self._result = self._result, None
        if values is None and result is None:
            return
        write = None if values is None else partial(record_activations, measured=values, step=step)
        self.report_later(step, partial(jax.block_until_ready, values if result is None else result), write)

    def _forward(self, trainable: Any, other: Any, x: Any, *, level: int, part: int) -> MeasuredTree | None:
        outputs: dict[str, Any] = {}

        def see(name: str, out: Any) -> None:
            if self.taps.rows[name] % self.hook.rotate == part:
                outputs[name] = out

        with self.taps.open(see):
            self._model.stateless_call(trainable, other, x, training=True)
        word = "histograms" if level == HISTOGRAMS else "full"
        return measure(word, activations=outputs, kinds=self.taps.kinds, saturated=self.hook.saturated)
