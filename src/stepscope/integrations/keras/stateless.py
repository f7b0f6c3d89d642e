"""JAX: measured in the jitted step, returned with the optimizer's variables.

What is measured must be known when the step is compiled, as a branch at run time makes a GPU wait. The type
of one variable of the state says it; those of others say which part of the parameters is measured. Each
combination is compiled separately, and a plain step pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stepscope.integrations.jax.statistics import count, moments, real, wide
from stepscope.integrations.jax.store import budget
from stepscope.integrations.keras.sampled import (
    FULL,
    HISTOGRAMS,
    NOTHING_CLIPS,
    OFF,
    Left,
    SampledSteps,
    become,
)
from stepscope.record.edges import BUCKETS
from stepscope.record.statistics import GradientHook
from stepscope.record.statistics.sampling import Sampling, SamplingBudget
from stepscope.record.statistics.table import StatisticsTable, table

TYPES = ("int32", "int8", "int16", "uint8", "uint16", "uint32")
"""The types with a meaning: the level, and the digits of the part's number."""


class Stateless:
    """An optimizer whose state says what to measure, and which is saved without our variables."""

    _stepscope: StatelessMeter

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """Apply gradients, measured as the state says."""
        apply = super().stateless_apply  # type: ignore[misc]
        return self._stepscope.applied(apply, self, optimizer_variables, grads, trainable_variables)

    def save_own_variables(self, store: Any) -> None:
        """Save the optimizer's own variables."""
        with self._stepscope.hidden():
            super().save_own_variables(store)  # type: ignore[misc]

    def load_own_variables(self, store: Any) -> None:
        """Load the optimizer's own variables."""
        with self._stepscope.hidden():
            super().load_own_variables(store)  # type: ignore[misc]


class StatelessMeter(SampledSteps):
    """Measures in a jitted step.

    Args:
        hook: Says what, when and of which parameters.
    """

    mixins = (Stateless,)

    def __init__(self, hook: GradientHook) -> None:
        super().__init__(hook)
        self._now: tuple[int, int] | None = None
        self._ours: list[Any] = []
        self._found: dict[str, Any] | None = None
        self._outer: Any = None
        self._old: list[Any] = []

    # --- in the step --------------------------------------------------------------------------------

    def make(self) -> None:
        """Make variables of the optimizer."""
        rows, add = len(self.names), self.optimizer.add_variable
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            **dict.fromkeys(self._words(OFF, 0), ((), "int32")),
            "made": ((), "int32"),
            "norms": ((2,), "float32"),
        }
        for kind in self.hook.of:
            shapes[f"{kind}_floats"] = ((rows, 4), "float32")
            shapes[f"{kind}_integers"] = ((rows, 3), "int32")
            if self.hook.histograms_every:
                shapes[f"{kind}_counts"] = ((rows, BUCKETS + 1), "int32")
        self.variables = {
            name: add(shape, dtype=kind, name=f"stepscope_{name}") for name, (shape, kind) in shapes.items()
        }
        self._ours = list(self.variables.values())

    def applied(
        self, apply: Callable[..., Any], optimizer: Any, state: Any, gradients: Any, weights: Any
    ) -> Any:
        """Apply gradients, measured as the types of our variables say."""
        places = {name: self._place(optimizer, name) for name in self._words(OFF, 0)} if self._ours else {}
        given = {at: state[at] for at in places.values() if at is not None}
        if not given or not all(isinstance(each, jax.Array) for each in given.values()):
            return apply(state, gradients, weights)  # within one that has been told already
        kinds = [str(each.dtype) for each in given.values()]
        digits = [TYPES.index(kind) if kind in TYPES else OFF for kind in kinds]
        before = self._now
        self._now = digits[0], sum(digit * len(TYPES) ** at for at, digit in enumerate(digits[1:]))
        plain = [given[at].astype("int32") if at in given else each for at, each in enumerate(state)]
        try:
            weights, found = apply(plain, gradients, weights)
        finally:
            self._now = before
        return weights, [given.get(at, each) for at, each in enumerate(found)]

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
            self._old = self._in_turn(variables, [each.value for each in variables])
            self._keep("weights", self._old)

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Nothing: arrays are whole under ``jit``."""

    def after(self, variables: Sequence[Any]) -> None:
        """Measure updates."""
        if self._chosen[0] >= FULL:
            new = self.in_rows(variables, [each.value for each in variables])
            pairs = zip(self._old, new, strict=True)
            self._keep("updates", [None if one is None else two - one for one, two in pairs])
            self._old = []

    def _keep(self, kind: str, arrays: Sequence[Any]) -> None:
        if kind not in self.hook.of or not arrays:
            return
        flat = [None if each is None else real(wide(each)) for each in arrays]
        parts = [row_of(each) for each in flat]
        self.variables[f"{kind}_floats"].assign(jnp.stack([part[0] for part in parts]))
        self.variables[f"{kind}_integers"].assign(jnp.stack([part[1] for part in parts]))
        if self._chosen[0] == HISTOGRAMS and self.hook.histograms_every:
            nothing = jnp.zeros(BUCKETS + 1, jnp.int32)
            counts = jnp.stack([nothing if each is None else count(each) for each in flat])
            self.variables[f"{kind}_counts"].assign(counts)

    def _in_turn(self, variables: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return values of variables in the order of the rows, None for those of other parts."""
        rows = enumerate(self.in_rows(variables, values))
        return [each if row % self.hook.rotate == self._chosen[1] else None for row, each in rows]

    @property
    def _chosen(self) -> tuple[int, int]:
        return (self.level, self.part) if self._now is None else self._now

    # --- around the step ----------------------------------------------------------------------------

    def wrapped_in(self, optimizer: Any) -> None:
        """Make a ``LossScaleOptimizer`` say what to measure, too."""
        self._outer = optimizer
        if not isinstance(optimizer, Stateless):
            optimizer.__dict__["_stepscope"] = self
            become(optimizer, Stateless)

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return a budget on which the processes of the job agree: their programs must be the same."""
        return budget(self.hook, sampling, failed=self._post)

    def _words(self, level: int, part: int) -> dict[str, str]:
        """Return our variables whose types say what is measured, and the types."""
        found, part, parts = {"level": TYPES[level]}, part if level >= FULL else 0, self.hook.rotate
        while parts > 1:
            found[f"turn_{len(found) - 1}"] = TYPES[part % len(TYPES)]
            part, parts = part // len(TYPES), -(-parts // len(TYPES))
        return found

    def given(self, state: Sequence[Any]) -> list[Any]:
        """Return the optimizer's state with what the coming step measures in it."""
        found, optimizer = list(state), self._outer or self.optimizer
        for name, kind in self._words(self.level, self.part).items():
            at = self._place(optimizer, name)
            if at is not None and str(found[at].dtype) != kind:
                found[at] = jax.device_put(np.zeros((), kind), found[at].sharding)
        return found

    def take(self, state: Sequence[Any]) -> None:
        """Keep a copy of what a step left in the optimizer's state, as the next one may be given it."""
        if not self._timed:
            return
        optimizer, parts = self._outer or self.optimizer, ["made", "norms"]
        if self.level >= FULL:
            parts += [name for name in self.variables if name.endswith(("_floats", "_integers"))]
        if self.level == HISTOGRAMS:
            parts += [name for name in self.variables if name.endswith("_counts")]
        places = {name: self._place(optimizer, name) for name in parts}
        self._found = copies({name: state[at] for name, at in places.items() if at is not None})

    def left(self, level: int) -> Left | None:
        """Return what the last step left."""
        found, self._found = self._found, None
        return None if found is None else CopiedTensors(found, self.sizes)

    def _place(self, optimizer: Any, name: str) -> int | None:
        ours = self.variables[name] if self._ours else None
        return next((at for at, each in enumerate(optimizer.variables) if each is ours), None)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Take our variables out of the optimizer's for as long as it is saved or loaded."""
        held = self.optimizer._variables if self.optimizer is not None else []
        all_ = list(held)
        ours = {id(each) for each in self._ours}
        held[:] = [each for each in all_ if id(each) not in ours]
        try:
            yield
        finally:
            held[:] = all_


class CopiedTensors:
    """Copies of what a step left.

    Args:
        found: By name.
        sizes: Elements of each row.
    """

    def __init__(self, found: dict[str, Any], sizes: Sequence[int]) -> None:
        self._found, self._sizes = found, sizes

    def number(self) -> int:
        """Return the count of steps that were measured until then."""
        return int(here(self._found["made"]))

    def norms(self) -> tuple[float, float | None]:
        """Return the norm of the gradient, and that after clipping if something clips."""
        before, after = here(self._found["norms"]).tolist()
        return before, None if after == NOTHING_CLIPS else after

    def tables(self) -> dict[str, StatisticsTable]:
        """Return the tables by kind."""
        kinds = [name.removesuffix("_floats") for name in self._found if name.endswith("_floats")]
        parts = ("floats", "integers", "counts")
        found = {}
        for kind in kinds:
            arrays = [self._found.get(f"{kind}_{part}") for part in parts]
            read: list[Any] = [None if each is None else here(each) for each in arrays]
            found[kind] = table(self._sizes, *read)
        return found


@jax.jit
def copies(arrays: Any) -> Any:
    """Copy arrays on their device, all by one call."""
    return jax.tree.map(jnp.copy, arrays)


def here(array: Any) -> Any:
    """Return an array as this process has it; waits for it."""
    return np.asarray(array if array.is_fully_addressable else array.addressable_data(0))


def row_of(values: Any) -> tuple[Any, Any]:
    """Return the statistics of a flat array, None for one that is not there."""
    if values is None:
        return jnp.zeros(4, jnp.float32), jnp.zeros(3, jnp.int32)
    floats, integers = moments(values)
    return floats, jnp.append(integers, jnp.int32(1))


def norm_of(arrays: Sequence[Any]) -> Any:
    """Return the norm of all arrays together."""
    some = [real(wide(each)) for each in arrays if each is not None]
    return jnp.sqrt(sum((jnp.vdot(each, each) for each in some), jnp.float32(0)))
