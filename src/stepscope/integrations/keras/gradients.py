"""Gradients, weights and updates of a Keras optimizer and outputs of layers, measured on any backend.

``measured`` extends the optimizer's methods; otherwise it stays the same object with the same
configuration, and saved without anything of ours. The gradients are those that it applies: accumulated,
unscaled, clipped, and on TensorFlow reduced over the replicas.

An ``ActivationHook`` of the run measures the layers of a model that ``fit`` trains. On PyTorch, they are
observed as they are called. On TensorFlow, a branch of the step's graph measures and leaves its result in
variables. On JAX, the batch of a sampled step goes through the model once more in a separate function, with
the same weights and seeds: the training itself is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import keras

from stepscope.errors import UsageError
from stepscope.integrations.keras.statistics import KERAS3, GradientMeter, Taps, become
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook, GradientHook

Optimizer = TypeVar("Optimizer")
CLIPS = ("clipnorm", "global_clipnorm", "clipvalue")
OPTIMIZER = 2
"""Place of the optimizer's variables in the state of Keras's trainer on JAX."""


class Meter(Protocol):
    """The meter of gradients on a backend."""

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Take the variables that the optimizer trains."""

    def attach(self, run: Run) -> None:
        """Record into a run from its next step on."""

    def before(
        self, unclipped: Sequence[Any] | None, clipped: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        """Look at the gradients and weights before the step."""

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Look at gradients that all replicas have added up."""

    def after(self, variables: Sequence[Any]) -> None:
        """Look at the weights after the step."""


class MeasuredOptimizer:
    """The methods of an optimizer that say when to measure; stands before its class."""

    _stepscope: Meter
    _stepscope_seen: tuple[Any, Any]

    def build(self, variables: Any) -> Any:
        """Build the optimizer and its meter."""
        built = getattr(self, "built", False) if KERAS3 else getattr(self, "_built", False)
        result = super().build(variables)  # type: ignore[misc]
        if not built:
            self._stepscope.build(self, list(variables))
        return result

    def _clip_gradients(self, grads: Any) -> Any:
        clipped = super()._clip_gradients(grads)  # type: ignore[misc]
        clips = any(getattr(self, name, None) for name in CLIPS)
        self.__dict__["_stepscope_seen"] = (list(grads) if clips else None, list(clipped))
        return clipped

    def _apply_weight_decay(self, variables: Any) -> None:
        # Called next after clipping, and before anything changes.
        unclipped, clipped = self.__dict__.pop("_stepscope_seen")
        self._stepscope.before(unclipped, clipped, list(variables))
        super()._apply_weight_decay(variables)  # type: ignore[misc]

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        reduced = list(super()._all_reduce_sum_gradients(grads_and_vars))  # type: ignore[misc]
        self._stepscope.reduced(*([pair[at] for pair in reduced] for at in (0, 1)))
        return reduced

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        super()._backend_update_step(grads, trainable_variables, learning_rate)  # type: ignore[misc]
        self._stepscope.after(list(trainable_variables))

    def _internal_apply_gradients(self, grads_and_vars: Any) -> Any:  # Keras 2
        result = super()._internal_apply_gradients(grads_and_vars)  # type: ignore[misc]
        self._stepscope.after([variable for _, variable in grads_and_vars])
        return result


def measured(optimizer: Optimizer, hook: GradientHook | None = None) -> Optimizer:
    """Make an optimizer measure its gradients, weights and updates, and return it.

    Call it before the first step. Measurements are recorded once ``StepscopeCallback`` trains with it, or
    once ``watch`` is called.

    Args:
        optimizer: One of Keras's, also one in a ``LossScaleOptimizer``.
        hook: Chooses the quantities, the steps and the parameters; by default ``GradientHook()``.

    Raises:
        UsageError: It is not an optimizer of Keras's.
    """
    inner: Any = getattr(optimizer, "inner_optimizer", optimizer)
    if not hasattr(inner, "_clip_gradients") or not hasattr(inner, "_apply_weight_decay"):
        raise UsageError(
            f"not an optimizer of Keras: {type(optimizer).__name__}",
            hint="optimizer = measured(keras.optimizers.Adam(1e-3))",
        )
    if not isinstance(inner, MeasuredOptimizer):
        inner.__dict__["_stepscope"] = gradient_meter(hook or GradientHook())
        become(inner, MeasuredOptimizer)
        if getattr(inner, "built", False) and KERAS3:
            inner._stepscope.build(inner, list(inner._trainable_variables))
    return optimizer


def watch(run: Run, optimizer: Any) -> None:
    """Record the measurements of a measured optimizer into a run; ``StepscopeCallback`` does so by itself.

    Args:
        run: The run, whose steps say when to measure.
        optimizer: One from ``measured``, built already.

    Raises:
        UsageError: It is not one.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not isinstance(inner, MeasuredOptimizer):
        raise UsageError(
            f"this {type(optimizer).__name__} does not measure", hint="optimizer = measured(optimizer)"
        )
    if inner is not optimizer and isinstance(inner._stepscope, GradientMeter):
        inner._stepscope.wrapped_in(optimizer)
    inner._stepscope.attach(run)


def meter_of(optimizer: Any) -> Any:
    """Return the meter of an optimizer; None if nothing does."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return inner._stepscope if isinstance(inner, MeasuredOptimizer) else None


def given(optimizer: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of the function that trains a batch; on JAX, their state sets the level."""
    meter = meter_of(optimizer)
    if keras.backend.backend() != "jax" or meter is None or not meter.names:
        return arguments
    state = list(arguments[0])
    state[OPTIMIZER] = meter.given(state[OPTIMIZER])
    return (tuple(state), *arguments[1:])


def taken(optimizer: Any, result: Any) -> Any:
    """Return the result of training a batch; on JAX, take the measurements from its state."""
    meter = meter_of(optimizer)
    if keras.backend.backend() == "jax" and meter is not None and meter.names:
        meter.take(result[1][OPTIMIZER])
    return result


def gradient_meter(hook: GradientHook) -> Any:
    """Return the meter for this backend."""
    backend = keras.backend.backend()
    if backend == "torch":
        from stepscope.integrations.keras.torch import EagerGradients

        return EagerGradients(hook)
    if backend == "jax":
        from stepscope.integrations.keras.jax import StatelessGradients

        return StatelessGradients(hook)
    if backend == "tensorflow":
        from stepscope.integrations.keras.tensorflow import GraphGradients

        return GraphGradients(hook, reduces=KERAS3)
    raise UsageError(
        f"gradients are not measured on {backend}", hint="KERAS_BACKEND=torch, jax or tensorflow"
    )


def measure_activations(run: Run, model: Any) -> list[Any]:
    """Have the run's ``ActivationHook`` measure a model that is trained by ``fit``.

    Returns:
        The meter, for ``finish``.
    """
    statistics = []
    for hook in run.hooks:
        if isinstance(hook, ActivationHook) and not hook.parts:
            meter = activation_meter(run, hook, model)
            hook.parts.append(meter)
            run.add_hook(meter)
            statistics.append(meter)
    return statistics


def activation_meter(run: Run, hook: ActivationHook, model: Any) -> Any:
    """Return the meter for this backend."""
    backend = keras.backend.backend()
    if backend == "torch":
        from stepscope.integrations.keras.torch import EagerActivations

        return EagerActivations(run, hook, Taps(model, hook, run))
    if backend == "jax":
        from stepscope.integrations.keras.jax import StatelessActivations

        return StatelessActivations(run, hook, Taps(model, hook, run), model)
    from stepscope.integrations.keras.tensorflow import GraphActivations

    return GraphActivations(run, hook, Taps(model, hook, run), model)
