"""The function that trains one batch, seen from outside: when it has its data, what it returns and raises.

``fit`` gives a callback only converted numbers, which makes each step wait for the device, and on JAX fetches
data between two callbacks. So the model's ``train_function`` is wrapped for as long as ``fit`` runs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Watcher(Protocol):
    """A watcher that is told of batches."""

    def watch(self, train: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Train one batch and return what ``train`` returns."""


class TrainFunction:
    """Stands in for a model's ``train_function``.

    It keeps no watcher alive: where ``fit`` was left by an exception it may stay on the model, and then does
    nothing.

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
        """Return whether this one, or one further in, has this watcher."""
        return self._watcher() is watcher or watched_by(self.inner, watcher)


def watched_by(function: object, watcher: Watcher) -> bool:
    """Return whether a function reports to this watcher already."""
    return isinstance(function, TrainFunction) and function.watched_by(watcher)


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
    """Return how many examples a batch holds: the first size of its first array; 0 where there is none."""
    while not hasattr(batch, "shape"):
        parts = list(batch.values()) if isinstance(batch, dict) else batch
        if not isinstance(parts, list | tuple) or not parts:
            return 0
        batch = parts[0]
    return int(batch.shape[0]) if len(batch.shape) else 0
