"""Types sent about histograms, images, texts and the like; the page's types are generated from this too.

``None`` means not recorded, or not part of the kind. Walls are seconds since the epoch.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.events.kinds.reading import Kind
from stepscope.store import RecordTag

RecordKind = Kind
MAX_RECORDS = 20_000
"""Values in one answer."""


class RecordTags(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/records?run=``: the tags of a run whose values are not scalars."""

    run: str
    tags: list[RecordTag]


class BlobFacts(msgspec.Struct, frozen=True):
    """Encoded bytes, available from ``GET api/v1/blob``."""

    mime: str
    bytes: int
    label: str
    """Markdown; of sounds."""


class TableCells(msgspec.Struct, frozen=True):
    """A table; every row has one cell per column."""

    columns: list[str]
    rows: list[list[str | float | bool | None]]


class RecordValue(msgspec.Struct, frozen=True):
    """One value; what does not belong to its kind is null."""

    at: int
    """Its place in the series, for ``GET api/v1/blob``."""
    step: int
    wall: float
    error: str | None = None
    """Why it cannot be read."""
    rows: list[list[float]] | None = None
    """A histogram: left edge, right edge and count of each bucket. A curve: its six rows."""
    texts: list[str] | None = None
    """A text, or the cells of an array of them, row by row."""
    shape: list[int] | None = None
    """Shape of an array of texts, a mesh [batch, points, 3] or a tensor; of pictures, width and height."""
    table: TableCells | None = None
    blobs: list[BlobFacts] | None = None
    """Pictures, sounds, films; of a mesh or tensor one, its numbers as little-endian float32."""
    facts: dict[str, Any] | None = None
    """Hyper-parameters, a layout, an embedding, or Stepscope's own records."""


class RecordSeries(msgspec.Struct, frozen=True):
    """The values of a tag by one writer in one attempt, thinned evenly where they are many."""

    writer: str
    attempt: int
    total: int
    values: list[RecordValue]
    superseded_from: int | None = None
    """A later attempt of the same writer recorded the steps from here on again; null: it did not."""
    superseded: int = 0
    """How many of ``total`` are at such steps."""


class RecordAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/record?run=&tag=``."""

    run: str
    tag: str
    kind: RecordKind
    series: list[RecordSeries]


class GraphAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/graph?run=&tag=``."""

    run: str
    nodes: list[Node]
    tags: list[str]
    """Tags of the existing costs."""
    costs: list[NodeCost]
    """Costs of the requested tag, by default the newest."""
