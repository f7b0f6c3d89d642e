"""A few cheap facts of each of the last steps, to be written with what an alert captures."""

from __future__ import annotations

from collections import deque

STEPS = 128

Past = tuple[int, float, float | None]
"""One step: its number, its duration and its wait for data in seconds, None where that was not measured."""


def new_ring() -> deque[Past]:
    """Return an empty ring."""
    return deque(maxlen=STEPS)
