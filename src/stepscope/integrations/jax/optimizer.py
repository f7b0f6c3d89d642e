"""Numbers of a step in JAX: the state of an optax optimizer, and metrics of Flax and CommonLoopUtils."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


def prefixed(prefix: str, metrics: Any) -> dict[str, Any]:
    """Return metrics for ``run.scalars`` under a prefix: ``run.scalars(prefixed("eval", metrics))``.

    Args:
        prefix: "train" or "eval", so that both are drawn on one chart.
        metrics: Values by name, possibly nested, or an object that computes them: an ``nnx.MultiMetric`` or a
            collection of ``clu.metrics``.
    """
    compute = getattr(metrics, "compute", None)
    values = compute() if callable(compute) else metrics
    if not isinstance(values, Mapping):
        return {prefix: values}
    numbers: dict[str, Any] = {}
    for name, value in values.items():
        numbers.update(prefixed(f"{prefix}/{name}" if prefix else str(name), value))
    return numbers


SKIPPED = "gradients/skipped_steps"


class StatePart(NamedTuple):
    """A part of the state.

    Attributes:
        label: Of the group of parameters that it is for, "" if there are no groups.
        state: The part.
    """

    label: str
    state: Any


def optimizer_scalars(
    opt_state: Any,
    *,
    schedule: Callable[[Any], Any] | None = None,
    hyperparameters: Sequence[str] = ("learning_rate",),
) -> dict[str, Any]:
    """Return an optimizer's numbers for ``run.scalars``, still on their device.

    ``optimizer/lr`` comes from ``optax.inject_hyperparams`` or, if the optimizer keeps its schedule itself
    and only counts, from the given schedule. ``gradients/skipped_steps`` comes from
    ``optax.apply_if_finite``. Groups of ``optax.multi_transform`` are ``optimizer/GROUP/lr``.

    The numbers are copies, as the state is often donated to the next step.

    Args:
        opt_state: The state after the step, or an object with an ``opt_state``: Flax's ``TrainState`` or
            ``nnx.Optimizer``.
        schedule: The schedule with which the optimizer was created, for the rate of the step just taken.
        hyperparameters: Which ones of ``inject_hyperparams`` to return.
    """
    numbers: dict[str, Any] = {}
    parts = list(_parts(getattr(opt_state, "opt_state", opt_state), ""))
    for label, state in parts:
        held: Mapping[str, Any] = getattr(state, "hyperparams", {})
        numbers.update({_tag(label, name): _here(held[name]) for name in hyperparameters if name in held})
        if hasattr(state, "total_notfinite"):
            numbers[SKIPPED] = _here(state.total_notfinite)
    numbers_: dict[str, Any] = copies(numbers) if numbers else {}
    if schedule is not None:
        count = next((state.count for _, state in parts if hasattr(state, "count")), None)
        if count is not None:
            numbers_["optimizer/lr"] = _taken(schedule)(_here(count))
    return numbers_


def _tag(label: str, name: str) -> str:
    return "/".join(filter(None, ("optimizer", label, "lr" if name == "learning_rate" else name)))


def _parts(state: Any, label: str) -> Iterator[StatePart]:
    """Walk the states of transformations, leaving out arrays per parameter."""
    if isinstance(state, Mapping) or not isinstance(state, tuple | list):
        return
    fields: tuple[str, ...] = getattr(state, "_fields", ())
    if not fields:
        for part in state:
            yield from _parts(part, label)
        return
    yield StatePart(label, state)
    for name in fields:
        value = getattr(state, name)
        if name == "inner_states" and isinstance(value, Mapping):
            for key, part in value.items():
                yield from _parts(part, f"{label}/{key}" if label else str(key))
        else:
            yield from _parts(value, label)


def _here(value: Any) -> Any:
    """Return a number as this process has it."""
    leaves = jax.tree.leaves(value)  # Flax keeps arrays in variables
    number = leaves[0] if leaves else value
    if isinstance(number, jax.Array) and not number.is_fully_addressable and number.is_fully_replicated:
        return number.addressable_data(0)
    return number


@jax.jit
def copies(numbers: Any) -> Any:
    """Copy numbers that may be donated to the next step, all by one call."""
    return jax.tree.map(jnp.copy, numbers)


@lru_cache(maxsize=16)
def _taken(schedule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function that computes the rate of the step just taken from the steps counted."""
    return jax.jit(lambda count: jnp.asarray(schedule(jnp.maximum(count - 1, 0))))
