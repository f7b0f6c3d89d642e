"""memory-creep: memory in use grows and does not stop growing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import inf

import numpy as np

from stepscope.health.ring import Floats, median
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, Told, Windowed, thresholds
from stepscope.health.series import Stream
from stepscope.text import size

SKIPPED = 20
"""First samples: caches fill, allocators reserve."""
EVERY = 10
MIB = 1 << 20
LEVELS = 2
"""Coarser series in which a slow growth is looked for; each has a point for ten of the one before."""
SETTLES = 0.7
"""Share of its first rise below which the last rise of a coarse window means that the growth settles."""


class MemoryCreep(PerStream):
    """Compares the medians of the quarters of a window: each must be clearly above the one before.

    Memory that fills and empties again and again, as a cache by epochs, rises within bounds: only a rise
    above all earlier use counts. A leak may be slow beside what is in use, so that the same is also looked
    for in windows ten and a hundred times as long, where the rise must not abate.
    """

    id = "memory-creep"
    title = "Memory creeps up"
    formula = (
        "the medians of the four quarters of the window are each > (1 + quarter) * the one before, and the "
        "last is > (1 + growth) * the first and at least least_mib more, and > (1 + quarter) * all medians "
        "before the window; or the same in a window of 10 or 100 times as many samples, whose last rise is "
        "at least 0.7 of its first; two checks in a row; closes at half of growth while that holds"
    )
    source = "SageMaker Debugger GPUMemoryIncrease (5 points of a moving average); by quarters: ours"
    window = (
        "within 70 samples of the start of the growth, from the 60th sample on; a slower one within 500 or "
        "5,000"
    )
    chance = "below 1e-3 a run: it takes four quarters that each rise, twice"
    fewest = "60 samples"
    roles = ("memory",)
    defaults = thresholds(window=40, quarter=0.005, growth=0.05, least_mib=16, checks=2)
    action = (
        "look for what is kept per step: losses kept in a list as tensors, growing caches, metrics never "
        "reset, compiling again and again (PyTorch: .item() of what is kept, retain_graph, "
        "torch.cuda.memory._record_memory_history shows who allocates; JAX: float() of what is kept, "
        "jax.profiler.save_device_memory_profile, jax_log_compiles; Keras: reset_state of metrics, "
        "tf.function that traces again)"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        return _Quarters(self, EVERY, SKIPPED + self.limit("window"))


class _Level:
    """Medians of ever more samples, with the steps at which these began."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.values: list[float] = []
        self.steps: list[int] = []
        self.peak = -inf
        self._fresh = 0

    def push(self, value: float, step: int) -> bool:
        """Add a point; return whether ten more have come."""
        self.values.append(value)
        self.steps.append(step)
        if len(self.values) > self._size:
            self.peak = max(self.peak, self.values[0])
            del self.values[: -self._size], self.steps[: -self._size]
        self._fresh = (self._fresh + 1) % EVERY
        return self._fresh == 0

    @property
    def is_full(self) -> bool:
        """Whether there is a whole window."""
        return len(self.values) == self._size


class _Quarters(Windowed):
    def __init__(self, rule: Rule, every: int, begin: int) -> None:
        super().__init__(rule, every, begin)
        self._peak = -inf
        self._levels = [_Level(rule.limit("window")) for _ in range(LEVELS)]

    def judge(self, values: Floats) -> Callable[[At], Told] | None:
        quarters = [median(quarter) for quarter in np.array_split(values, 4)]
        rises = self._rises(quarters, self._peak)
        self._peak = max(self._peak, quarters[0])
        first_step = int(self._steps.values[0])
        for level in self._coarser(values):
            if rises or not level.is_full:
                continue
            parts = [median(quarter) for quarter in np.array_split(np.array(level.values), 4)]
            if is_steady(parts) and self._rises(parts, level.peak):
                quarters, rises, first_step = parts, True, level.steps[0]
        if not rises:
            return None
        first, last = quarters[0], quarters[-1]

        def say(at: At) -> Told:
            steps = max(at.step - first_step, 1)
            text = f"memory grew from {size(first)} to {size(last)} in {steps:,} steps and is still growing"
            return text, {"first_bytes": first, "last_bytes": last, "bytes_per_step": (last - first) / steps}

        return say

    def _rises(self, quarters: list[float], peak: float) -> bool:
        limits, first, last = self.rule.limits, quarters[0], quarters[-1]
        each = 1 + limits["quarter"]
        # The same leak is ever less of what is in use.
        growth = limits["growth"] * (0.5 if self._gate.is_open and is_steady(quarters) else 1.0)
        rises = all(later > each * earlier for earlier, later in pairwise(quarters)) and last > each * peak
        return rises and last - first > max(growth * first, limits["least_mib"] * MIB)

    def _coarser(self, values: Floats) -> list[_Level]:
        """Take the newest samples into the coarser series, and return these."""
        value, step = median(values[-EVERY:]), int(self._steps.values[-EVERY:][0])
        for level in self._levels:
            if not level.push(value, step):
                break
            value, step = median(np.array(level.values[-EVERY:])), level.steps[-EVERY:][0]
        return self._levels


def is_steady(quarters: list[float]) -> bool:
    """Return whether a rise does not abate."""
    return quarters[3] - quarters[2] >= SETTLES * (quarters[1] - quarters[0])
