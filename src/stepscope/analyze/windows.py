"""Which stretches of time a question is asked of: the recorded steps, or all that was recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analyze.spans import Ints
from stepscope.trace.model import Kind, Trace

NO_STEP = -1
"""Number of the window of a rank that recorded no steps."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows in (rank, start) order, one entry each in every array."""

    rank: Ints
    number: Ints
    """Number of the step, :data:`NO_STEP` for a window over everything a rank recorded."""
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.rank)

    def of_rank(self, rank: int) -> Windows:
        """Return the windows of one rank."""
        mine = self.rank == rank
        return Windows(self.rank[mine], self.number[mine], self.start_ns[mine], self.end_ns[mine])


def windows(trace: Trace) -> Windows:
    """Return the steps of each rank; a rank without steps is one window from its first to its last event."""
    steps = trace.steps
    parts = [(steps.rank, steps.number, steps.start_ns, steps.end_ns)]
    present = set(np.unique(steps.rank).tolist())
    for rank in ranks(trace):
        if rank in present:
            continue
        rows = np.flatnonzero((trace.rank == rank) & (trace.kind != Kind.OVERHEAD))
        if len(rows):
            ends = (trace.start_ns[rows] + trace.duration_ns[rows]).max()
            parts.append(
                (
                    np.array([rank]),
                    np.array([NO_STEP]),
                    np.array([trace.start_ns[rows].min()]),
                    np.array([ends]),
                )
            )
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[2], columns[0]))
    return Windows(*(column[order] for column in columns))


def ranks(trace: Trace) -> list[int]:
    """Return the ranks that have events, ascending."""
    return [int(rank) for rank in np.unique(trace.rank)]


def step_count(trace: Trace, rank: int) -> int:
    """Return how many steps of a rank were recorded."""
    return int(np.count_nonzero(trace.steps.rank == rank))
