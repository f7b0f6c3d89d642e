"""Rows on memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stepscope.health.looks import Known, Row, RunFacts, Seen
from stepscope.health.ring import median
from stepscope.health.rule import thresholds
from stepscope.text import size

SKIPPED = 20
"""First samples: caches fill, allocators reserve. Of samples of an epoch it is the first."""
MIN_SAMPLES, EPOCHS = 40, 16
"""Samples of the shortest window, of which each quarter has a median, and the same of an epoch each."""
SETTLES = 0.7
"""Part of the first rise below which the last rise of a window means that the growth settles."""
MIB = 1 << 20


class MemoryCreep(Row):
    """Compares the medians of the quarters of the last stretches of a run: each must be above the one before.

    Memory that fills and empties again and again, as a cache by epochs, rises within bounds: only a rise
    above all earlier use counts. A leak may be slow beside what is in use, so that longer stretches are
    looked at, too.

    Formula: in the last 40 samples, 16 of epochs, or 2, 4, 8 … times as many, each quarter's median is
        > (1 + quarter) * all before; the last > (1 + growth) * the first, by least_mib; rises do not abate
    Fires: at the second look at which it grew, each a quarter of the samples after the one before, from
        the 60th on; a slower one once it has grown by so much
    Chance: below 1e-3 a run: it takes four quarters that each rise above all before
    Source: SageMaker Debugger GPUMemoryIncrease (5 points of a moving average); by quarters: ours
    """

    id = "memory-creep"
    title = "Memory creeps up"
    fewest = "60 samples, or 17 of an epoch each"
    roles = ("memory",)
    again = keeps_onset = True
    defaults = thresholds(quarter=0.005, growth=0.05, least_mib=16)
    action = (
        "look for what is kept per step: losses kept in a list as tensors, growing caches, metrics never "
        "reset, compiling again and again (PyTorch: .item() of what is kept, retain_graph, "
        "torch.cuda.memory._record_memory_history shows who allocates; JAX: float() of what is kept, "
        "jax.profiler.save_device_memory_profile, jax_log_compiles; Keras: reset_state of metrics, "
        "tf.function that traces again)"
    )

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        facts, limits = known.facts, self.limits
        # What is evaluated at each of its points is of an epoch.
        by_epoch = run.evaluated(known.stream.run, facts.walls[0], known.at.wall) >= facts.count - 1
        skipped = 1 if by_epoch else -(-SKIPPED // facts.width)
        steps, means = (column[skipped:] for column in facts.curve)
        fewest = EPOCHS if by_epoch else MIN_SAMPLES
        if len(means) < fewest:
            return None
        self.judged()
        # The same leak is ever less of what is in use.
        growth = limits["growth"] * (0.5 if known.stream in self.holding else 1.0)
        factor, count = 1 + limits["quarter"], fewest
        while count <= len(means):
            parts = [median(part) for part in np.array_split(means[-count:], 4)]
            before = float(np.max(means[:-count], initial=0.0))
            rises = all(later > factor * earlier for earlier, later in pairwise(parts))
            abates = parts[3] - parts[2] < SETTLES * (parts[1] - parts[0])
            grew = parts[3] - parts[0] > max(growth * parts[0], limits["least_mib"] * MIB)
            if rises and not abates and grew and parts[3] > factor * before:
                took = max(known.at.step - int(steps[-count]), 1)
                grown = f"memory grew from {size(parts[0])} to {size(parts[3])} in {took:,} steps"
                values = {"first_bytes": parts[0], "last_bytes": parts[3]}
                values["bytes_per_step"] = (parts[3] - parts[0]) / took
                return Seen(f"{grown} and is still growing", values, int(steps[-count]))
            count = min(2 * count, len(means)) if count < len(means) else count + 1
        return None


ROWS = (MemoryCreep,)
