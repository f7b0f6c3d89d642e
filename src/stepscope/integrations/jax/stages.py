"""The stages of a step around a jitted function, by the clock of the host: ``data``, ``dispatch``, ``wait``.

A jitted call dispatches work and returns. A wait for its result is a separate stage only if the loop says so:
nothing is waited for that the loop did not wait for anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import jax

from stepscope.errors import UsageError
from stepscope.integrations.compiling import follow
from stepscope.record import Run

DISPATCH, WAIT = "dispatch", "wait"
P = ParamSpec("P")
R = TypeVar("R")


class Dispatched(Generic[P, R]):
    """Replaces a jitted function, and passes on its other attributes.

    Args:
        function: The function.
        run: The run in whose steps its calls are a stage.
    """

    def __init__(self, function: Callable[P, R], run: Run) -> None:
        self.__wrapped__, self._stage = function, run.stage(DISPATCH)
        follow(run)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the function."""
        with self._stage:
            return self.__wrapped__(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__wrapped__"], name)


def dispatched(function: Callable[P, R], run: Run) -> Dispatched[P, R]:
    """Record the calls of a jitted function as the stage ``dispatch`` of a run's steps.

    As in::

        train_step = dispatched(jax.jit(train_step), run)

    On a device that computes during the call, as a CPU may, the stage includes the computation. Compiling is
    a stage of its own, ``compile``, and ``speed/compile_ms``.

    Args:
        function: The result of ``jax.jit`` or ``jax.pmap``.
        run: The run whose steps are meant.

    Raises:
        UsageError: Not a function.
    """
    given: object = function
    if not callable(given):
        raise UsageError(
            f"not a function: {given!r:.60}", hint="train_step = dispatched(jax.jit(train_step), run)"
        )
    return Dispatched(function, run)


def wait(result: R, run: Run) -> R:
    """Wait for a result, like ``jax.block_until_ready``, and record this as the stage ``wait`` of the step.

    It is meant for loops that wait anyway, for instance with ``float(loss)``: call this first.

    Args:
        result: An array, or any tree of arrays.
        run: The run whose step is meant.

    Returns:
        The result.
    """
    with run.stage(WAIT):
        done: R = jax.block_until_ready(result)  # type: ignore[no-untyped-call]
    return done
