"""Types sent between the server and the page; the page's own types are generated from this module.

``None`` means not recorded; it is never written as 0. Walls are seconds since the epoch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from stepscope.names.roles import ROLES as ROLES  # among the constants of the page
from stepscope.names.splits import Split
from stepscope.names.telling import Chart
from stepscope.reading import Problem, Progress

XAxis = Literal["step", "wall", "relative", "tag"]
Band = Literal["std", "minmax", "stderr"]
State = Literal["running", "finished", "failed", "stopped", "stalled", "ended"]
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


class LogSummary(msgspec.Struct, frozen=True):
    """The log directory as a whole."""

    name: str
    """Last part of its path."""
    path_display: str
    """The path as it was typed, for reading and copying only."""
    version: str
    """Version of Stepscope."""
    exists: bool
    """False while the server waits for a directory that does not exist yet."""
    problems: list[Problem]


class StepNote(msgspec.Struct, frozen=True):
    """A note that people wrote about one step of a run."""

    step: int
    text: str


class StepTime(msgspec.Struct, frozen=True):
    """How long the steps of a run take now: medians of the newest recorded ones, 65 at most."""

    seconds: float
    wait_s: float | None
    """Of that, waiting for data; None: not recorded."""


class RunSummary(msgspec.Struct, frozen=True):
    """One run as the rail and the overview show it."""

    name: str
    base: str
    """The run that this one belongs to: ``a`` for ``a/eval``; itself otherwise."""
    split: Split | None
    parent: str | None
    """The run that it belongs to by its own word, such as the sweep of a trial, if that is here."""
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
    """Free words about the run, as recorded or as changed since."""
    title: str | None
    """A name that people gave it, shown instead of its directory's."""
    note: str
    """Markdown; "" for none."""
    archived: bool
    """Archived: lists leave it out unless requested."""
    colour: int | None
    """Number of the colour that people chose for it, from 1; None: none."""
    step_notes: list[StepNote]
    """In the order of their steps."""
    config: dict[str, Any]
    seeds: list[str]
    """Settings of it that are seeds by their names, or that only number or name the runs. Dots stand between
    the names of nested ones."""
    problems: list[Problem]
    overhead_ratio: float | None
    """Share of the run's time so far that recording took on the training thread, profiles included."""
    profiles_ratio: float | None
    """The part of it that the profiles took."""
    overhead_us_per_step: float | None
    """Microseconds of a step that recording took without profiles, mean of the same time."""
    dropped: int | None
    """Points that were not recorded because the queue was full."""
    steps_per_second: float | None
    step_time: StepTime | None
    eta_seconds: float | None
    """Seconds until its last step, by the mean of the newer half of its steps and the pauses between them."""
    eta_between: list[float] | None
    """Between which it lies with 95 %."""
    host: str | None
    version: str | None


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
    loading: Progress | None
    """None: everything that has been found has been read."""


class LineRequest(msgspec.Struct, frozen=True):
    """One series: a tag of a run, or what an expression over its tags gives."""

    run: str
    tag: str
    expression: bool = False
    """Whether ``tag`` is an expression."""
    group: str | None = None
    """Lines of a group come back as one: their mean."""


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
    """Points that fit the plot; the answer is raw if no line has more."""
    smoothing: Annotated[float, msgspec.Meta(ge=0, le=MAX_SMOOTHING)] = 0.0
    """Weight of the exponential average, over the distance of two points of the training loss; 0 is off."""
    smooth_all: bool = False
    """Whether evaluations and other series with few points are smoothed like all others."""
    x_tag: str | None = None
    """The tag that is the x axis if ``x`` is ``tag``."""
    band: Band = "std"
    """The band around the mean of a group."""


class SeriesRequest(msgspec.Struct, frozen=True):
    """Body of ``POST api/v1/series``."""

    charts: Annotated[list[ChartRequest], msgspec.Meta(max_length=MAX_CHARTS)]


class Column(msgspec.Struct, frozen=True):
    """The place of a typed array in the frame."""

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
    """The x from which on a later attempt of the same writer has recorded it again."""
    points: int
    """Points of the series within the range."""
    nonfinite: int
    """NaN and infinite points among them."""
    last: LastPoint | None
    columns: dict[str, Column]
    group: str | None = None
    """The group that it is the mean of; ``run`` then names its first run."""
    members: int = 1
    """Runs of the group, each writer for itself."""
    filled: int = 0
    """Places at which one of them had no point of its own and was interpolated."""


class Note(msgspec.Struct, frozen=True):
    """Something that was not drawn as one might expect."""

    text: str
    hint: str
    lines: int
    """Number of lines that it applies to."""


class PointsSeries(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every point of one writer and attempt of a series."""

    run: str
    tag: str
    writer: str
    attempt: int
    step: list[int]
    wall_time: list[float | NonFinite]
    value: list[float | NonFinite]
    x_tag: str | None = None
    """The tag that gave ``x``; left out if none was asked for."""
    x: list[float | NonFinite] | None = None


class PointsAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/points?run=&tag=``."""

    series: list[PointsSeries]


class Mistake(msgspec.Struct, frozen=True):
    """A mistake in an expression."""

    text: str
    """The expression."""
    error: str
    hint: str
    start: int
    """First character of the wrong part."""
    end: int


class ExpressionAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/expression?text=``."""

    tags: list[str]
    """Tags that it names."""
    mistake: Mistake | None


class ChartAnswer(msgspec.Struct, frozen=True):
    """One chart of a series answer."""

    id: str
    x: XAxis
    x0: float | None
    """First x of the answer; None: no point."""
    x1: float | None
    mode: Literal["raw", "buckets", "groups"]
    buckets: int
    total_points: int
    """Points within the range."""
    shown_points: int
    """Points that are drawn."""
    x_column: Column | None
    """The x of every bucket or mean, shared by all lines; None for raw points."""
    lines: list[Line]
    missing: list[LineRequest]
    """Requested items that do not exist, or no longer exist."""
    notes: list[Note] = []
    mistake: Mistake | None = None
    """The first invalid expression of the chart."""
    x_interpolated: int = 0
    """Points whose x lies between two that the tag of the x axis recorded."""
    x_missing: int = 0
    """Points that have no x, because that tag was not recorded around them."""
    first: float | None = None
    """First x of the data, whatever range was requested; None: no point."""
    end: float | None = None
    """Last x of the data."""


class SeriesHeader(msgspec.Struct, frozen=True):
    """The JSON header of a series answer.

    The frame: u32 magic, u32 bytes of this header, the header, zeros up to a multiple of 8, then the typed
    arrays, each on a multiple of 8, all little endian.
    """

    charts: list[ChartAnswer]


class Capture(msgspec.Struct, frozen=True):
    """A profile that a run captured, or tried to: see ``docs/guides/capture.md``."""

    name: str
    path: str | None
    """Relative to the log directory; None if it failed, or lies elsewhere."""
    rank: int | None
    world_size: int | None
    role: str | None
    backend: str | None
    format: str | None
    steps: list[int]
    cause: str | None
    reason: str | None
    request: str | None
    """Id of the request that asked for it."""
    wall: float | None
    bytes: int | None
    cost: dict[str, Any]
    dropped: dict[str, Any]
    notes: list[str]
    memory: list[Any]
    """Per step, what memory held at its end."""
    before: list[Any]
    """Earlier steps: number, seconds, seconds waited for data."""
    facts: dict[str, Any]
    failure: str | None
    """Why there is no profile."""
    not_analysed: str | None
    """Why there is no summary of it."""
    summary: dict[str, Any] | None
    """The output of ``stepscope glance``; None while it is being made, and for all but the newest."""


class CaptureReply(msgspec.Struct, frozen=True):
    """The answer of one rank to a request."""

    rank: int
    status: str
    """``taken``, ``refused``: another capture is under way, or ``missed``: the step was over."""


class CaptureProgress(msgspec.Struct, frozen=True):
    """The progress of a request; a capture made for it carries its name."""

    request: str
    at_step: int | None
    """The step that it begins with, if one was named; None: the next."""
    replies: list[CaptureReply]
    """Empty: no rank has looked yet."""


class CaptureList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/captures?run=&request=``."""

    run: str
    listens: bool
    """Whether a ``ProfilerHook`` of the run has looked for requests, ever."""
    total: int
    captures: list[Capture]
    """The newest first."""
    asked: CaptureProgress | None
    """Progress of the request that was asked about."""


class CaptureRequest(msgspec.Struct, frozen=True):
    """Body of ``POST api/v1/capture``."""

    run: str
    ranks: Literal["chief", "all"] | list[int] = "chief"
    num_steps: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    """0: as many as the run's hook records."""
    memory: bool = False
    stacks: bool = False
    """Also Python stacks, which say in which line time goes."""


class CaptureAsked(msgspec.Struct, frozen=True):
    """Answer of ``POST api/v1/capture``."""

    request: str
    """Its id, which the captures made for it carry."""


class PerfettoPage(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/perfetto``: whether Perfetto's own page can be opened."""

    installed: bool
    version: str | None
    install: str
    """The command that installs it."""


class Health(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/health``."""

    version: str
    uptime_seconds: float
    runs: int
    points: int
    loading: Progress | None


class Failure(msgspec.Struct, frozen=True):
    """Body of every answer that is not a success."""

    error: str
    hint: str


class AccessFacts(msgspec.Struct, frozen=True):
    """Rights of the one who asks: the answer of ``GET api/v1/access``."""

    changes: bool
    """Whether runs may be named, deleted, restored, asked for profiles, and shared."""
    until: float | None
    """When a link for sharing ends; null for never."""
    can_share: bool
    """Whether the server makes links: it needs a token to sign them."""


class ShareRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/share``: how long the link is to work."""

    seconds: int


class ShareLink(msgspec.Struct, frozen=True):
    """A view-only token for this log directory, which expires."""

    token: str
    until: float
