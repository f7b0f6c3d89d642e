"""How long steps take, and how much longer those that are measured: by when their results are there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

KEPT = 9
ENOUGH = 3
"""Durations of a kind of step that its median needs; the first of each compiles."""


class ReadyPace:
    """Durations of steps of each level, taken from when the results of consecutive steps were there.

    The host's own times say nothing where a device computes while the host goes on.

    Args:
        clock: Seconds, steadily.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last: tuple[int, float] | None = None
        self._kinds: dict[str, deque[float]] = {}
        self._compiled: set[str] = set()

    def ready(self, step: int, kind: str, program: str) -> None:
        """Note that the result of a step is there.

        Args:
            step: Its number.
            kind: What was measured.
            program: Which compiled program computed it.
        """
        now, last = self._clock(), self._last
        self._last = step, now
        if program not in self._compiled:
            self._compiled.add(program)
        elif last is not None and last[0] == step - 1:
            self._kinds.setdefault(kind, deque(maxlen=KEPT)).append(now - last[1])

    @property
    def step_seconds(self) -> float:
        """How long a step takes in which only norms are measured; 0 where that is not known."""
        return self._median("norm")

    @property
    def sample_seconds(self) -> float:
        """How much longer a sampled step takes; 0 where that is not known."""
        plain, full = self.step_seconds, self._median("full")
        return max(full - plain, 0.0) if plain and full else 0.0

    def _median(self, kind: str) -> float:
        found = self._kinds.get(kind, ())
        return median(found) if len(found) >= ENOUGH else 0.0
