"""The buffers that a read needs, shared by all files: as many sets as there are reads at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from stepscope.events.source import aligned
from stepscope.kernels import scalars, warn_if_uncompiled

warn_if_uncompiled(scalars)
BLOCK_BYTES = 512 << 10
RECORDS = 1 << 15
ROWS = 1 << 17
NOTES = 1 << 10


class Workspace:
    """Buffers for reading one file.

    Attributes:
        buffer: For a block of BLOCK_BYTES.
        starts: Of the payloads in a block.
        lengths: Of the payloads in a block.
        rows: What was decoded and is not grouped yet.
    """

    def __init__(self) -> None:
        self.buffer = aligned(BLOCK_BYTES)
        self.starts, self.lengths = np.empty(RECORDS, np.int64), np.empty(RECORDS, np.int64)
        self.rows = scalars.Rows(ROWS, NOTES)


_idle: list[Workspace] = []  # append and pop are atomic


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Lend a set of buffers."""
    try:
        lent = _idle.pop()
    except IndexError:
        lent = Workspace()
    try:
        yield lent
    finally:
        if len(lent.rows.tag) > ROWS or len(lent.rows.note_wall) > NOTES:  # of one large event
            lent.rows = scalars.Rows(ROWS, NOTES)
        lent.rows.clear()
        _idle.append(lent)
