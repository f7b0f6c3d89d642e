"""memory-creep: memory in use grows and does not stop growing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from stepscope.health.ring import Floats, median
from stepscope.health.rule import At, PerStream, StreamWatch, Told, Windowed, thresholds
from stepscope.health.series import Stream

SKIPPED = 20
"""First samples: caches fill, allocators reserve."""
EVERY = 10
MIB = 1 << 20


class MemoryCreep(PerStream):
    """Compares the medians of the quarters of a window: each must be clearly above the one before."""

    id = "memory-creep"
    title = "Memory creeps up"
    formula = (
        "the medians of the four quarters of the window are each > (1 + quarter) * the one before, and the "
        "last is > (1 + growth) * the first and at least least_mib more; two checks in a row"
    )
    source = "SageMaker Debugger GPUMemoryIncrease (5 points of a moving average); by quarters: ours"
    window = "within 70 samples of the start of the growth, from the 60th sample on"
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
        """Return what judges a series."""
        return _Quarters(self, EVERY, SKIPPED + self.limit("window"))


class _Quarters(Windowed):
    def judge(self, values: Floats) -> Callable[[At], Told] | None:
        limits = self.rule.limits
        quarters = [median(quarter) for quarter in np.array_split(values, 4)]
        first, last = quarters[0], quarters[-1]
        rises = all(later > (1 + limits["quarter"]) * earlier for earlier, later in pairwise(quarters))
        if not rises or last - first <= max(limits["growth"] * first, limits["least_mib"] * MIB):
            return None

        def say(at: At) -> Told:
            steps = max(at.step - at.first_step, 1)
            text = (
                f"memory grew from {first / MIB:,.0f} to {last / MIB:,.0f} MiB in {steps:,} steps and is "
                "still growing"
            )
            return text, {"first_bytes": first, "last_bytes": last, "bytes_per_step": (last - first) / steps}

        return say
