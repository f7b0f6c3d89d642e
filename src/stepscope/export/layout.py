"""The row of each drawn event: viewers need the events of a row to nest, which not all recorders ensure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.kernels import levels
from stepscope.trace.model import Trace

MOST_LEVELS = 256
"""Rows that one lane may be split into."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Rows of a viewer; two events of one row nest or lie apart, never overlap in part."""

    track: npt.NDArray[np.int32]
    """Row of each event, as an index into ``tracks``; -1 for an event that fits on no row of its lane."""
    parent: npt.NDArray[np.int32]
    """The innermost event around each on its row, -1 for none."""
    tracks: tuple[tuple[int, int], ...]
    """Lane and level of each row, in display order."""

    @property
    def left_out(self) -> int:
        """Events without a row."""
        return int((self.track < 0).sum())


def layout(trace: Trace) -> RowLayout:
    """Split each lane into as few rows as nesting requires; most need one."""
    count = len(trace)
    level, parent = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    levels.lay_out(
        np.ascontiguousarray(trace.lane, np.int32),
        np.ascontiguousarray(trace.start_ns, np.int64),
        np.ascontiguousarray(trace.start_ns + trace.duration_ns, np.int64),
        np.full(MOST_LEVELS, -1, np.int32),
        level,
        parent,
    )
    key = trace.lane.astype(np.int64) * MOST_LEVELS + level
    used = np.unique(key[level >= 0])
    track = np.where(level >= 0, np.searchsorted(used, key), -1).astype(np.int32)
    return RowLayout(track, parent, tuple((int(k) // MOST_LEVELS, int(k) % MOST_LEVELS) for k in used))
