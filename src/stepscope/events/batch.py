"""The result of reading an event file: columns per series, and the place of everything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.events.messages import Metadata

Column = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ScalarColumns:
    """The new points of a series, in the order of the file.

    Attributes:
        tag: Its name.
        wall: Wall time in seconds, float64.
        step: int32, or int64 where one does not fit.
        value: float32, or float64 where one was written with 64 bits.
        position: Position of the record in the file, in bytes; uint32, or int64 where one does not fit.
    """

    tag: str
    wall: Column
    step: Column
    value: Column
    position: Column

    def __len__(self) -> int:
        return len(self.wall)


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """The new values that are not scalars, and graphs: where they are, a row each, in the order of the file.

    Attributes:
        tag: Names; ``__run_graph__``, ``__meta_graph__`` for the graphs of the run.
        plugin: Names of the plugin that shows them: from the tag's metadata, or what old-style values mean.
        wall: Wall time in seconds.
        step: Step.
        position: Of the record in the file, in bytes, for ``EventFile.event_at``.
        index: Of the value in its event.
    """

    tag: list[str] = field(default_factory=list)
    plugin: list[str] = field(default_factory=list)
    wall: Column = field(default_factory=lambda: np.empty(0, np.float64))
    step: Column = field(default_factory=lambda: np.empty(0, np.int64))
    position: Column = field(default_factory=lambda: np.empty(0, np.int64))
    index: Column = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.tag)


@dataclass(frozen=True, eq=False)
class PackedColumns:
    """Texts of tags that hold packed numbers, a row each, in the order of the file.

    Attributes:
        tag: Its place among the tags that were asked for.
        wall: Wall time in seconds.
        step: Step.
        start: Where the text begins in ``data``.
        length: Of the text, in bytes.
        data: uint8, with the texts among other bytes.
    """

    tag: Column
    wall: Column
    step: Column
    start: Column
    length: Column
    data: Column


@dataclass(frozen=True)
class Session:
    """A SessionLog event: position in bytes, a SessionStatus, step and wall time in seconds."""

    position: int
    status: int
    step: int
    wall: float


@dataclass(frozen=True, eq=False)
class Batch:
    """Every complete record of a file since the last read.

    Attributes:
        scalars: One per tag that has new points.
        records: Where the other values are.
        metadata: Of tags, as first seen in the file.
        sessions: Starts, stops and checkpoints of the session.
        first_wall: Earliest wall time of the events, in seconds, None without events; NaN is left out.
        last_wall: Latest.
        replaced: The file was replaced or cut: everything known of it before is void.
        late: It holds records that come before others already returned: a hole in the file was filled.
        packed: The texts of the tags that the file was opened with.
    """

    scalars: list[ScalarColumns] = field(default_factory=list)
    records: RecordColumns = field(default_factory=RecordColumns)
    metadata: dict[str, Metadata] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    first_wall: float | None = None
    last_wall: float | None = None
    replaced: bool = False
    late: bool = False
    packed: list[PackedColumns] = field(default_factory=list)

    def __bool__(self) -> bool:
        parts = self.scalars, self.records, self.metadata, self.sessions, self.replaced, self.packed
        return any(parts)
