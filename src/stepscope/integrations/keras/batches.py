"""The function that trains one batch, seen from outside: when it has its data, what it returns and raises.

``fit`` gives a callback only converted numbers, which makes each step wait for the device, and on JAX fetches
data between two callbacks. So the model's ``train_function`` is wrapped for as long as ``fit`` runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import keras

from stepscope.integrations.guard import guarded
from stepscope.integrations.keras.backends import measure_activations
from stepscope.integrations.keras.stages import BatchStages
from stepscope.record import Run
from stepscope.record.problems import Reporter
from stepscope.record.statistics import ActivationHook


class Watcher(Protocol):
    """A watcher that is informed of batches."""

    def watch(self, train: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Train one batch and return what ``train`` returns."""


class TrainFunction:
    """Stands in for a model's ``train_function``.

    It keeps no watcher alive: if an exception left ``fit``, it may stay on the model, and then does nothing.

    Args:
        inner: The function that trains.
        watcher: Who watches.
    """

    def __init__(self, inner: Callable[..., Any], watcher: Watcher) -> None:
        self.inner = inner
        self._watcher = weakref.ref(watcher)

    def __call__(self, *arguments: Any) -> Any:
        """Train one batch, watched if the watcher is still there."""
        watcher = self._watcher()
        return self.inner(*arguments) if watcher is None else watcher.watch(self.inner, arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)

    def watched_by(self, watcher: Watcher) -> bool:
        """Return whether this wrapper, or one inside it, has this watcher."""
        return self._watcher() is watcher or watched_by(self.inner, watcher)


def watched_by(function: object, watcher: Watcher) -> bool:
    """Return whether a function reports to this watcher already."""
    return isinstance(function, TrainFunction) and function.watched_by(watcher)


class BatchParts:
    """The batches of one ``fit``: their data, their stages, the outputs of their layers.

    Args:
        run: Where to.
        model: The model that is trained.
        wrapped: Whether the function that trains is called through ``TrainFunction``.
    """

    def __init__(self, run: Run, model: Any, *, wrapped: bool) -> None:
        self._run = run
        self._taps: list[Any] = []
        self._state: Any = None
        self.retrace = False
        """True if the function that trains must be traced again, with what measures layers."""
        self._stages: BatchStages | None = None
        if wrapped and run.step_counter.stages is not None:
            self._stages = BatchStages(run.step_counter, model, run)
        self._tap(model)

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return self._run

    @guarded
    def _tap(self, model: Any) -> None:
        """Let an ``ActivationHook`` of the run measure the model's layers."""
        if not any(isinstance(hook, ActivationHook) for hook in self._run.hooks):
            return
        made = measure_activations(self._run, model)
        self._taps = [each for each in made if hasattr(each, "given")]
        self.retrace = bool(made)

    def given(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what the function that trains is called with; data fetched inside is timed."""
        self._state = arguments[0] if arguments else None
        return self._timed(arguments) or arguments

    @guarded
    def _timed(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Time the data of JAX, which is fetched inside; count the examples where they can be seen."""
        if not arguments or keras.backend.backend() == "tensorflow":
            return arguments
        *before, data = arguments
        if keras.backend.backend() == "jax":
            return (*before, TimedIterator(data, self._run.clock.steady, self._fetched))
        self._run.count(examples=examples(data))
        return arguments

    def _fetched(self, seconds: float, batch: Any) -> None:
        steps = self._run.step_counter
        steps.waited = (steps.waited or 0.0) + seconds
        self._run.count(examples=examples(batch))
        state, self._state = self._state, None
        if state is not None and batch is not None:
            for tap in self._taps:
                tap.given(state, batch)

    def open(self) -> AbstractContextManager[None]:
        """Mark the stages of one call of the function that trains."""
        return nullcontext() if self._stages is None else self._stages.open()

    @guarded
    def taken(self, result: Any) -> None:
        """Pass what a batch has returned to what watches the layers."""
        for tap in self._taps:
            tap.taken(result[0])

    def close(self) -> None:
        """Mark no more stages."""
        if self._stages is not None:
            self._stages.close()


class TimedIterator:
    """An iterator of batches that says how long each took to come.

    Args:
        items: The batches.
        now: Steady time in seconds.
        took: Called with the seconds, and the batch where there was one.
    """

    def __init__(
        self, items: Iterator[Any], now: Callable[[], float], took: Callable[[float, Any], None]
    ) -> None:
        self._items, self._now, self._took = items, now, took

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        begun, item = self._now(), None
        try:
            item = next(self._items)
            return item
        finally:
            self._took(self._now() - begun, item)


def examples(batch: Any) -> int:
    """Return how many examples a batch holds: the first size of its first array; 0 if there is none."""
    while not hasattr(batch, "shape"):
        parts = list(batch.values()) if isinstance(batch, dict) else batch
        if not isinstance(parts, list | tuple) or not parts:
            return 0
        batch = parts[0]
    return int(batch.shape[0]) if len(batch.shape) else 0
