"""The stages of a step around a jitted function, ``data dispatch wait``, and when its result is there.

A jitted call dispatches work and returns. A wait for its result is a separate stage only if the loop says so:
nothing is waited for that the loop did not wait for anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import jax

from stepscope.errors import UsageError
from stepscope.integrations.compiling import follow
from stepscope.integrations.guard import guarded
from stepscope.record import Run
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import positive
from stepscope.record.hooks import Hook
from stepscope.record.worker import Worker

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


COMPLETED = "speed/completed_step_time_ms"
LAG = "speed/completion_lag_ms"
END_SECS = 2.0


class PendingResult(NamedTuple):
    """A result that may still be computed.

    Attributes:
        array: The smallest array of it.
        step: The step that computes it.
        asked: Steady time in seconds at which the step asked for its data.
        returned: Steady time at which the call that computes it had returned.
    """

    array: Any
    step: int
    asked: float
    returned: float


class CompletionTimer(Hook):
    """Measures steps by the completion of their results.

    A jitted call returns at once while the device works on, so the time of the loop, ``speed/step_time_ms``,
    is the time to dispatch work, until the device's queue is full or something waits for a result. Instead, a
    thread of this timer waits for the results, and records two series:

    - ``speed/completed_step_time_ms``: from the completion of the previous step, or from the request for data
      if that was later, to the completion of this step;
    - ``speed/completion_lag_ms``: the time from the return of the call until its result is available.

    Call it at the end of each step with a result of the step, such as the loss::

        timer = CompletionTimer(run)
        for batch in run.steps(loader):
            state, loss = train_step(state, batch)
            timer(loss)

    Args:
        run: The run to record into.
        block_every_n_steps: Also wait in the loop itself for the result of every N-th step, which limits how
            far it runs ahead, and with it the memory of dispatched work; None for never.

    Raises:
        UsageError: An argument is invalid.
    """

    def __init__(self, run: Run, *, block_every_n_steps: int | None = None) -> None:
        self._run = self.reporter = run
        self._every = positive("block_every_n_steps", block_every_n_steps)
        self._worker: Worker[PendingResult] = Worker("stepscope-completion", self._measure)
        self._done = float("-inf")
        self._ended = not run.role.writes
        run.add_hook(self)

    @guarded
    def __call__(self, result: Any) -> None:
        """Measure the running step by its results.

        Args:
            result: An array, or any tree of them. Of several arrays the smallest is held until it is
                computed; it must not be donated to the next step.
        """
        begun, steps, cost = self._run.clock.steady(), self._run.step_counter, self._run.cost
        array = result if isinstance(result, jax.Array) else _smallest(result)
        if array is None or steps.current is None:
            return
        if not self._ended:
            self._worker.put(PendingResult(array, steps.current, steps.asked, begun))
        cost.charge(begun)
        if self._every is not None and (steps.current + 1) % self._every == 0:
            with self._run.stage(WAIT):
                array.block_until_ready()

    def _measure(self, wait: PendingResult) -> None:
        """Wait for one result and record when it came; one that never comes has no time."""
        try:
            wait.array.block_until_ready()
        except Exception:  # noqa: BLE001  donated, or its computation failed, which the loop hears of by itself
            return
        now = self._run.clock.steady()
        begun, self._done = max(self._done, wait.asked), now
        self._run.scalar(COMPLETED, 1e3 * (now - begun), wait.step)
        self._run.scalar(LAG, max(1e3 * (now - wait.returned), 0.0), wait.step)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Wait shortly for running computations, and end."""
        self.remove(deadline)

    def remove(self, deadline: Deadline = NO_DEADLINE) -> None:
        """Measure no more.

        Args:
            deadline: When results that are still being computed must be available.
        """
        self._ended = True
        self._worker.end()
        self._worker.join(deadline.left(END_SECS))


def _smallest(tree: Any) -> jax.Array | None:
    arrays = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]
    return min(arrays, key=lambda array: array.size, default=None)
