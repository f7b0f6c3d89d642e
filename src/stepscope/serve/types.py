"""What travels between the server and the page; the page's own types are generated from this module.

After a change run ``python scripts/page_types.py``, which writes ``web/src/core/api.ts``; a test holds the
two together. ``None`` is what was not recorded; it is never written as 0. Walls are seconds since the epoch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

XAxis = Literal["step", "wall", "relative"]
State = Literal["running", "finished", "failed", "stopped", "stalled", "ended"]
Split = Literal["train", "eval", "test"]
NonFinite = Literal["NaN", "Infinity", "-Infinity"]

MAGIC = 0x31535353
"""First four bytes of a series answer, little endian: ``SSS1``."""
MAX_CHARTS = 256
"""Charts in one series request."""
MAX_LINES = 2000
"""Lines in one series request, over all its charts."""
MAX_BUCKETS = 2000
"""Buckets of one chart."""
MAX_SMOOTHING = 0.9999
"""Largest weight of the exponential average."""
API = "api/v1/"
"""Prefix of every endpoint, relative to the page."""


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be read or was not kept."""

    kind: str
    count: int
    file: str | None
    """Relative to the log directory."""
    text: str


class Loading(msgspec.Struct, frozen=True):
    """How far the first reading of the log directory is."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


class LogSummary(msgspec.Struct, frozen=True):
    """The log directory as a whole."""

    name: str
    """Last part of its path."""
    path_display: str
    """The path as it was typed, for reading and copying only."""
    version: str
    """Of Stepscope."""
    exists: bool
    """False while the server waits for a directory that is not there yet."""
    problems: list[Problem]


class RunSummary(msgspec.Struct, frozen=True):
    """One run as the rail and the overview show it."""

    name: str
    base: str
    """The run that this one belongs to: ``a`` for ``a/eval``; itself otherwise."""
    split: Split | None
    state: State
    reason: str | None
    """Why it failed, stopped or counts as stalled."""
    step: int | None
    """Largest step of any series."""
    total_steps: int | None
    started: float | None
    updated: float | None
    """Wall time of its newest event."""
    attempts: int
    writers: int
    points: int
    tags: list[str]
    labels: list[str]
    """What the user calls the run's tags: free words about the run."""
    config: dict[str, Any]
    problems: list[Problem]
    overhead_ratio: float | None
    """Share of wall time that recording took on the training thread."""
    overhead_us_per_step: float | None
    dropped: int | None
    """Points that were not recorded because the queue was full."""
    steps_per_second: float | None
    eta_seconds: float | None
    host: str | None
    version: str | None


class ChartLine(msgspec.Struct, frozen=True):
    """One tag of a chart; it is drawn for every run that has it."""

    tag: str
    split: Split | None


class Chart(msgspec.Struct, frozen=True):
    """What belongs on one pair of axes, over all runs."""

    id: str
    title: str
    section: str
    unit: str | None
    lines: list[ChartLine]


class Changes(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/changes?cursor=``: what is new since that cursor."""

    cursor: str
    time: float
    """The server's clock, for ages."""
    reset: bool
    """True when the answer is complete and everything known before is void."""
    runs: list[RunSummary]
    removed: list[str]
    dirty: dict[str, list[str]]
    """Per run the tags with new points."""
    charts: list[Chart] | None
    """None: as before."""
    log: LogSummary
    loading: Loading | None
    """None: everything that has been found has been read."""


class LineRequest(msgspec.Struct, frozen=True):
    """One series: a tag of a run."""

    run: str
    tag: str


class ChartRequest(msgspec.Struct, frozen=True):
    """Lines to be answered on common bucket edges."""

    id: str
    lines: list[LineRequest]
    x: XAxis = "step"
    x0: float | None = None
    """First x; None: from the beginning."""
    x1: float | None = None
    """Last x; None: to the end."""
    buckets: Annotated[int, msgspec.Meta(ge=1, le=MAX_BUCKETS)] = 600
    """Points that fit the plot; the answer is raw where no line has more."""
    smoothing: Annotated[float, msgspec.Meta(ge=0, le=MAX_SMOOTHING)] = 0.0
    """Weight of the exponential average, 0 is none."""


class SeriesRequest(msgspec.Struct, frozen=True):
    """Body of ``POST api/v1/series``."""

    charts: Annotated[list[ChartRequest], msgspec.Meta(max_length=MAX_CHARTS)]


class Column(msgspec.Struct, frozen=True):
    """Where a typed array lies in the frame."""

    dtype: Literal["f4", "f8", "i4", "u4"]
    offset: int
    """Bytes from the first byte after the header and its padding."""
    count: int


class LastPoint(msgspec.Struct, frozen=True):
    """The newest point of a series, whatever range was asked for."""

    step: int
    wall: float
    value: float | NonFinite


class Line(msgspec.Struct, frozen=True):
    """One series of one writer and attempt.

    Raw columns: ``x value`` and, smoothed, ``smoothed``. Bucket columns: ``first min max last`` (NaN: nothing
    there), ``count nonfinite`` and, smoothed, ``smoothed``.
    """

    run: str
    tag: str
    split: Split | None
    writer: str
    attempt: int
    superseded_from: float | None
    """From this x on a later attempt of the same writer has gone over it again."""
    points: int
    """Points of the series within the range."""
    nonfinite: int
    """NaN and infinite points among them."""
    last: LastPoint | None
    columns: dict[str, Column]


class ChartAnswer(msgspec.Struct, frozen=True):
    """One chart of a series answer."""

    id: str
    x: XAxis
    x0: float | None
    """First x of the answer; None: no point."""
    x1: float | None
    mode: Literal["raw", "buckets"]
    buckets: int
    total_points: int
    """Points within the range."""
    shown_points: int
    """Points that are drawn."""
    x_column: Column | None
    """In bucket mode the x of every bucket, shared by all lines."""
    lines: list[Line]
    missing: list[LineRequest]
    """What was asked for and is not, or no longer, there."""


class SeriesHeader(msgspec.Struct, frozen=True):
    """The JSON header of a series answer.

    The frame: u32 magic, u32 bytes of this header, the header, zeros up to a multiple of 8, then the typed
    arrays, each on a multiple of 8, all little endian.
    """

    charts: list[ChartAnswer]


class Health(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/health``."""

    version: str
    uptime_seconds: float
    runs: int
    points: int
    loading: Loading | None


class Failure(msgspec.Struct, frozen=True):
    """Body of every answer that is not a success."""

    error: str
    hint: str
