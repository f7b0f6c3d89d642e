"""Types sent between the server and the Profile page. ``None`` means not recorded.

Times are nanoseconds since the profile's own zero; a browser holds them exactly up to 104 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from stepscope.analyze.advise import Finding
from stepscope.analyze.breakdown import StepBreakdown
from stepscope.analyze.diff import Change
from stepscope.analyze.history import HistoryLine
from stepscope.analyze.judgement import Judgement
from stepscope.analyze.kernel_details import KernelDetail, Launch, Rate
from stepscope.analyze.memory import DeviceMemory, PeakHolder
from stepscope.analyze.peaks import PeakRates
from stepscope.serve.encode import projected
from stepscope.serve.types import Column

Category = Literal[
    "other", "host", "runtime", "loading", "forward", "backward", "optimizer", "compute", "collective",
    "copy", "step", "wait",
]  # fmt: skip
"""Categories that colour a span. The number in a timeline answer is the place in this list."""


Unit = Literal["ns", "bytes", "ratio", "count", "flop", "flop/s", "B/s"]
"""Kind of a column of a view."""


class ProfileEntry(msgspec.Struct, frozen=True):
    """A profile under the log directory."""

    path: str
    """Relative to the log directory: a file, or a directory of ranks and steps."""
    run: str | None
    """The run that it is in; None: outside the runs."""
    format: str
    size_bytes: int
    modified: float
    rank: int | None
    """As its name says."""
    files: int
    """How many files it is made of."""
    steps: list[int]
    """Its steps, as the record beside a run's own capture says them; empty if there is none."""


class ProfileList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profiles``."""

    profiles: list[ProfileEntry]
    """The newest first."""
    looked_at: int
    """Files whose names could be those of profiles."""


class ReadingProgress(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/reading``: how far the first reading of a profile is."""

    state: Literal["idle", "waiting", "reading"]
    """``waiting`` for another profile to be read; ``idle``: it is read, or nobody asked for it."""
    read_bytes: int
    """Bytes of its files read so far; formats that are read as a whole stay at 0."""
    total_bytes: int


class ProfileLane(msgspec.Struct, frozen=True):
    """One host thread or device stream."""

    rank: int
    process: str
    thread: str
    device: int
    """-1: the host."""
    depth: int
    """How many rows it takes."""
    events: int
    busy_ratio: float | None
    """Share of the profile in which it did anything; None: only the stack of Python was recorded of it."""
    stepping: bool
    """Whether steps are marked on it."""
    working: bool
    """Whether it takes part in training: a device, or a thread that marks steps, launches work, loads data or
    runs a backward pass. True for every lane if no thread is known to.
    """


class StepWindow(msgspec.Struct, frozen=True):
    """When one step of one rank ran."""

    rank: int
    number: int
    start_ns: int
    wall_ns: int


class ProfileTrack(msgspec.Struct, frozen=True):
    """A track over time that holds no events: a level, or the blocks of an allocator."""

    kind: Literal["memory", "counter", "tensors"]
    rank: int
    process: str
    """Process of the lanes that it is drawn below; empty: those of its rank."""
    name: str
    """Name of an allocator or a counter, or of the owner of the tensors."""
    device: int
    """-1: the host."""
    unit: Literal["bytes", "count"]
    low: float
    high: float
    rows: int
    """For tensors: number of rows in which they are laid out."""
    note: str
    """Caveats about the numbers."""


class ProfileOutline(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/outline?path=``: what a timeline needs before it can draw."""

    path: str
    events: int
    ranks: list[int]
    start_ns: int
    end_ns: int
    lanes: list[ProfileLane]
    steps: list[StepWindow]
    """Empty: none were recorded."""
    tracks: list[ProfileTrack]


class TrackColumns(msgspec.Struct, frozen=True):
    """The places of one track's arrays."""

    track: int
    """Number in the outline."""
    columns: dict[str, Column]
    """For levels ``low high`` f4, one value per pixel; for tensors ``row layer`` i4, ``start end bytes``
    f8.
    """
    merged: int
    """Tensors narrower than a pixel that are left out."""


class TracksHeader(msgspec.Struct, frozen=True):
    """JSON header of ``GET api/v1/tracks?path=&start=&end=&pixels=&tracks=``; framed as a series is."""

    path: str
    start_ns: int
    end_ns: int
    pixels: int
    tracks: list[TrackColumns]


class FindingPlace(msgspec.Struct, frozen=True):
    """The place of a finding, as far as it was recorded."""

    rank: int | None
    device: int | None
    """None: the host, or all devices."""
    host: str | None
    """Name of the machine."""
    file: str | None
    line: int | None
    function: str | None


class FindingEvent(msgspec.Struct, frozen=True):
    """One of the longest events behind a finding."""

    row: int
    name: str
    rank: int
    start_ns: int
    duration_ns: int


@projected(Finding, without=("gain_range_ns", "spans"))
class ProfileFinding:
    """Something slow or wrong."""

    evidence: list[str]
    look: str | None
    """Name of the events that show it; None: the rule names none."""
    gain: str
    """Cost and gain, in words; empty if it costs no time."""
    place: FindingPlace
    events: list[FindingEvent]
    """At most five; empty if the finding is of no events, such as a level of memory."""


class ProfileAbstention(msgspec.Struct, frozen=True):
    """A rule that could not tell."""

    rule: str
    missing: str


class ProfileTop(msgspec.Struct, frozen=True):
    """One of the operations or kernels that take most time."""

    name: str
    kind: str
    calls: int
    total_ns: int
    share_ratio: float
    """Share of everything that was counted."""


class ProfileSummary(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile?path=``."""

    path: str
    title: str
    format: str
    events: int
    ranks: list[int]
    start_ns: int
    end_ns: int
    devices: list[str]
    lanes: list[ProfileLane]
    steps: tuple[StepBreakdown, ...]
    missing_parts: dict[str, str]
    """Parts of a step that were not recorded, and why."""
    findings: list[ProfileFinding]
    abstained: list[ProfileAbstention]
    verdict: str
    """One sentence over all findings: what was judged if nothing is to gain."""
    device_top: list[ProfileTop] | None
    """None: no work of a device was recorded."""
    host_top: list[ProfileTop] | None
    """None: no operators were recorded."""
    recorded: list[str]
    not_recorded: dict[str, str]
    notes: list[str]
    """Examples of content of the file that this leaves out."""


class TimelineHeader(msgspec.Struct, frozen=True):
    """JSON header of ``GET api/v1/timeline``; the frame is that of a series answer.

    Columns: ``lane depth row`` i4, ``start end`` f8 in ns, ``count name category`` u4.
    """

    path: str
    start_ns: int
    end_ns: int
    events: int
    """Events within the window and the lanes asked for that the rectangles stand for."""
    names: list[str]
    """The group that ``name`` counts towards."""
    columns: dict[str, Column]


class Spread(msgspec.Struct, frozen=True):
    """How long the events of one name take."""

    calls: int
    total_ns: int
    min_ns: int
    median_ns: float
    p95_ns: float
    max_ns: int
    edges_ns: list[float]
    """Edges of the histogram's buckets, one more than counts."""
    counts: list[int]


class Related(msgspec.Struct, frozen=True):
    """Another event, to go to."""

    row: int
    name: str
    lane: int
    depth: int
    start_ns: int
    duration_ns: int


class Link(msgspec.Struct, frozen=True):
    """An arrow between the event that is asked about and another."""

    how: Literal["launch", "backward", "flow", "peer"]
    """From a call to the work it launched; from a forward operator to its backward one; as the file itself
    draws it; between the ranks of one send and receive, or of one collective."""
    note: str
    """Name of the file's own arrow, or what the ranks did together."""
    event: Related


class SampledLine(msgspec.Struct, frozen=True):
    """A line of the program's own code in which sampled stacks were."""

    file: str
    line: int
    function: str
    time_ns: int
    samples: int


class ProfileEvent(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/event?path=&row=``."""

    row: int
    name: str
    kind: str
    category: Category
    rank: int
    lane: int
    depth: int
    step: int | None
    start_ns: int
    duration_ns: int
    self_ns: int
    scope: str | None
    stack: list[str] | None
    """Outermost first."""
    lines: list[SampledLine] | None
    """Lines of the program's own code in which its thread was, most time first; null: it was not sampled."""
    bytes: int | None
    flops: int | None
    details: dict[str, Any]
    """Shapes, types, grid, block, occupancy, group … as far as recorded."""
    ancestors: list[Related]
    """The innermost first."""
    heaviest: list[Related]
    """Downwards from it, each the longest of those right within the one before."""
    predecessors: list[Link]
    """Events that led to it, at most 20 of each kind."""
    successors: list[Link]
    """Events that it led to, at most 20 of each kind."""
    predecessors_total: int
    successors_total: int
    previous: int | None
    """Row of the event of the same name before it."""
    next: int | None
    spread: Spread


class SearchAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/search?path=&q=&limit=&skip=``."""

    total: int
    """Events whose name holds the text."""
    total_ns: int
    names: int
    """Different names among them."""
    skip: int
    """Place of the first of ``hits`` among all."""
    hits: list[Related]
    """In time order, not more than were asked for."""


class RangeRow(msgspec.Struct, frozen=True):
    """One name within a range."""

    name: str
    category: Category
    calls: int
    total_ns: int
    self_ns: int
    """The part of it within the range that no inner event covers."""


class RangeLane(msgspec.Struct, frozen=True):
    """One lane within a range."""

    lane: int
    events: int
    busy_ns: int | None
    """Time in which any event but marks of steps and frames of Python ran; None: only frames did."""


class RangeAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/range?path=&start=&end=&lanes=``: what happened within it, most time first."""

    events: int
    names: int
    self_ns: int
    """Time of all names, of which shares are given."""
    rows: list[RangeRow]
    lanes: list[RangeLane]
    """Those with any event, in their order."""


class TreeColumn(msgspec.Struct, frozen=True):
    """One column of a view."""

    key: str
    head: str
    unit: Unit


class TreeRow(msgspec.Struct, frozen=True):
    """One node of a view."""

    name: str
    depth: int
    values: list[float | None]
    words: list[str]
    """Values that are not numbers: devices, types, shapes."""
    part: str | None = None
    """The part of the step that took most of its time, named as in ``parts_ns``; None: not known."""


class TreeAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/view?path=&view=``: tfprof's views, with its options by name."""

    view: str
    windows: int
    denominator: str
    """The samples that the numbers are a mean of."""
    notes: list[str]
    columns: list[TreeColumn]
    rows: list[TreeRow]
    command: str
    """The same in a terminal."""
    source: Literal["trace", "tfprof"]
    """tfprof: its own profile, and its own numbers: what its command line prints."""
    words: list[str]
    """Heads of the rows' words."""


@dataclass(frozen=True, slots=True)
class DiffRow(Change):
    """One thing on both sides."""

    explains_ratio: float | None
    """Its share of everything in its table that changed in the direction of the step, at most 1; None: it
    changed the other way.
    """


class DiffTable(msgspec.Struct, frozen=True):
    """Things of one kind, the largest difference first."""

    key: str
    """``parts scopes launched operators kernels``; launched is device time by the operator that caused it."""
    rows: list[DiffRow]
    total: int
    """Number of all that were compared; the rows are the first of them."""
    slower_ns: float
    """Sum of everything that became slower; for scopes, of the outermost."""
    faster_ns: float
    """Likewise; negative."""


class DiffProfile(msgspec.Struct, frozen=True):
    """One side."""

    path: str
    steps: str
    """As requested; empty is all."""
    numbers: list[int]
    """Steps that were compared."""
    ranks: list[int]
    format: str
    devices: list[str]
    steps_ns: list[float]
    """Duration of every step that was compared; of more than 4,000 as many, evenly chosen by duration."""


class DiffAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/diff?a=&b=&steps_a=&steps_b=``."""

    a: DiffProfile
    b: DiffProfile
    step: DiffRow
    """By the profiled steps, whose parts explain it."""
    recorded: Judgement | None
    """By the steps that the runs of both recorded, in ms, which is the verdict; None if they did not."""
    tables: list[DiffTable]
    """Those that have any row."""
    on_device: bool
    """Whether scopes are by device time; otherwise by the host's."""
    notes: list[str]
    command: str
    """The same in a terminal."""


@projected(KernelDetail, Launch, Rate, without=("total_ns", "longest_row", "launch", "rate"))
class KernelRow:
    """All work of one name and kind; None is what was not recorded."""

    kind: str
    """``kernel memcpy memset collective send_recv``, or ``host_op`` if no device was recorded."""
    longest: Related
    by_step_ns: tuple[float, ...] | None
    """In the order of the answer's steps; None if that would be too much."""


class KernelAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/kernels?path=&steps=``: the longest first."""

    path: str
    on_device: bool
    """Whether this is the work of a device; else own time of the host's operators."""
    rows: list[KernelRow]
    total: int
    """Names in all; the rows are the first of them."""
    windows: int
    """Steps times ranks that the values are means of."""
    steps: list[int]
    """Number of each, ranks within a step; empty if none were marked."""
    left_out: int
    """Pieces of work outside the steps."""
    step_mean_ns: float
    peak: PeakRates | None
    not_recorded: list[str]
    """Columns that no row has, and why."""
    notes: list[str]
    command: str
    """The same in a terminal."""


class MemoryStep(msgspec.Struct, frozen=True):
    """Highest and last level within a step."""

    number: int
    start_ns: int
    end_ns: int
    peak_bytes: int
    end_bytes: int
    allocated_bytes: int
    """Sum of what was allocated within it."""
    allocations: int


class Allocation(msgspec.Struct, frozen=True):
    """One allocation."""

    bytes: int
    time_ns: int
    freed_ns: int | None
    """None: not while recording."""
    at_peak: bool
    step: int | None
    operator: str
    scope: str
    category: str
    stack: list[str]
    """Outermost first; empty if none was recorded."""
    row: int | None
    """The event it happened in."""
    address: str


class AllocatorEvent(msgspec.Struct, frozen=True):
    """Something that the allocator did beyond giving and taking back memory."""

    action: str
    time_ns: int
    bytes: int
    reserved_bytes: int | None
    row: int | None


@projected(DeviceMemory, without=("peak", "peak_reserved_bytes"))
class MemoryDevice:
    """Memory of one device of one rank, or of its host (device -1)."""

    name: str
    peak_ns: int
    peak_step: int | None
    peak_bytes: int
    held_bytes: int
    before_bytes: int | None
    """Held at the peak by what was allocated before the recording."""
    reserved_bytes: int | None
    """The allocator's own peak."""
    holders: dict[str, tuple[PeakHolder, ...]]
    """At the peak, by ``category scope operator phase stack``, those that could be told."""
    category_missing: tuple[str, ...]
    """Inputs that the profile does not record, for holders whose category is not known."""
    steps: list[MemoryStep]
    level: str
    """``recorded``, or ``summed`` from what was recorded: it then starts at 0."""
    time_ns: list[float]
    """Starts of the stretches of the curve."""
    least_bytes: list[float]
    most_bytes: list[float]
    reserved: list[float] | None
    largest: list[Allocation]
    """The largest allocations of the steps that count, and the largest of those held at the peak."""
    allocations: int
    counts: dict[str, int]
    """Events by action."""
    allocator: list[AllocatorEvent]
    """Segments, cache and failures, the newest of them last."""
    allocator_total: int


class MemoryAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/memory?path=&steps=&points=``."""

    path: str
    devices: list[MemoryDevice]
    """Devices before the host."""
    notes: list[str]


class HistoryCapture(msgspec.Struct, frozen=True):
    """One profile of a run, of several taken over its training."""

    path: str
    title: str
    steps: list[int]
    step_ns: float | None
    """Mean of its steps; None if none were marked."""
    ranks: int
    failure: str | None
    """Why it is not among the values."""


class HistoryAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/history?path=&path=…&by=``."""

    by: str
    captures: list[HistoryCapture]
    """In the order asked for."""
    rows: list[HistoryLine]
    """The largest change first."""
    total: int
    on_device: bool
