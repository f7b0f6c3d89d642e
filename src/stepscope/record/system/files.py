"""Small files of the kernel's, and rates of the counters in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress


def text(path: str) -> str | None:
    """Return what a file holds; None if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  no Path object per reading
            return file.read()
    except OSError:
        return None


def integer(path: str) -> int | None:
    """Return the number that a file holds; None if it holds none, such as ``max``."""
    found = text(path)
    try:
        return None if found is None else int(found)
    except ValueError:
        return None


def table(path: str, *, separator: str = " ") -> dict[str, int]:
    """Return a file of lines of a name and a number, as ``memory.stat`` and ``meminfo`` are."""
    found = {}
    for line in (text(path) or "").splitlines():
        name, _, value = line.partition(separator)
        with suppress(ValueError, IndexError):
            found[name.strip()] = int(value.split()[0])
    return found


def names(path: str) -> list[str]:
    """Return the names in a directory, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(path))  # noqa: PTH208
    except OSError:
        return []


class CounterRates:
    """How fast counters grow between two readings."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def __call__(self, counts: dict[str, float], now: float) -> Iterator[tuple[str, float]]:
        """Return the growth per second of each counter.

        A counter that is new or was reset has none this time.

        Args:
            counts: Counters by name.
            now: Steady time in seconds.
        """
        for name, value in counts.items():
            earlier, since = self._before.get(name, (value, now))
            self._before[name] = (value, now)
            if now > since and value >= earlier:
                yield name, (value - earlier) / (now - since)
