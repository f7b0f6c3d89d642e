"""A bounded cache of values in memory, which forgets the least recently used first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Values by key. Safe for threads.

    Args:
        limit: The total that is kept; the newest value stays even if it alone is more.
        size: The share of a value in the limit, such as its bytes; by default each counts 1.
    """

    def __init__(self, limit: float, size: Callable[[V], float] = lambda value: 1) -> None:
        self.limit, self._size = limit, size
        self.total = 0.0
        self._values: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def items(self) -> list[tuple[K, V]]:
        """Return keys and values, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._values.items()]

    def get(self, key: K) -> V | None:
        """Return a value, which becomes the most recently used; None if it is not there."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V) -> list[V]:
        """Keep a value in place of an earlier one of that key; return those that are forgotten for it."""
        size = self._size(value)
        with self._lock:
            self._drop(key)
            self._values[key] = value, size
            self.total += size
            forgotten = []
            while self.total > self.limit and len(self._values) > 1:
                _, (oldest, size) = self._values.popitem(last=False)
                self.total -= size
                forgotten.append(oldest)
        return forgotten

    def remove(self, *keys: K) -> None:
        """Forget values, if they are there."""
        with self._lock:
            for key in keys:
                self._drop(key)

    def _drop(self, key: K) -> None:
        if (entry := self._values.pop(key, None)) is not None:
            self.total -= entry[1]


class Current(Lru[K, tuple[Hashable, V]]):
    """Values that hold for a state of what they are made from; with another state they are made again.

    Args:
        limit: As for ``Lru``.
        size: As for ``Lru``.
    """

    def __init__(self, limit: float, size: Callable[[V], float] = lambda value: 1) -> None:
        super().__init__(limit, lambda entry: size(entry[1]))

    def of(self, key: K, state: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key for a state."""
        known = self.get(key)
        if known is None or known[0] != state:
            known = state, make()
            self.put(key, known)
        return known[1]
