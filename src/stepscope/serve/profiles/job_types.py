"""Types sent between the server and the page: all ranks of a job, from their profiles or dumps.

``None`` is what was not recorded or is not known; ``notes`` say why. Times are nanoseconds.
"""

from __future__ import annotations

import msgspec

from stepscope.analyze.ranks.blame import Blame, WaitCost
from stepscope.analyze.ranks.clocks import RankClock
from stepscope.analyze.ranks.hangs import Suspect
from stepscope.analyze.ranks.path import RankPiece
from stepscope.analyze.ranks.stragglers import Straggler
from stepscope.analyze.ranks.waits import SlowGroup


class JobClocks(msgspec.Struct, frozen=True):
    """The clocks of all ranks."""

    reference: int
    clocks: list[RankClock]
    refused: str | None
    """Why they cannot be aligned."""
    one_host: bool
    """All ranks are on one host and share its clock, so nothing was aligned."""


class JobWait(msgspec.Struct, frozen=True):
    """Waiting in collectives, of all ranks together."""

    total_ns: int
    transfer_ns: int
    share_of_communication: float
    collectives: int
    needed: int | None
    """Number of collectives needed to tell a slow rank from chance; None if as many were recorded."""


class JobBandwidth(msgspec.Struct, frozen=True):
    """Transfers of one operation in one group."""

    operation: str
    group: str
    ranks: int
    count: int
    bytes: int
    """Bytes of a message; -1 if it was not recorded."""
    transfer_ns: float
    bus_bytes_per_s: float | None
    link: str
    """The link between the ranks; empty if that is not known."""
    link_bytes_per_s: float | None
    """The most that it carries in one direction."""
    link_ratio: float | None
    """Share of it that the transfers use."""


class JobCosts(msgspec.Struct, frozen=True):
    """All waiting, summed by one thing; the rows sum to it."""

    by: str
    """``host``, ``scope``, ``line`` or ``cause``."""
    rows: tuple[WaitCost, ...]


class JobPath(msgspec.Struct, frozen=True):
    """The chain of work and transfers, of whichever rank, that made the steps so long."""

    steps: int
    total_ns: int
    """Time of all steps, from the first rank's beginning to the last one's end."""
    switches: int
    """How often it changes from one rank to another."""
    refused: str | None
    """Why there is none."""
    pieces: tuple[RankPiece, ...]


class JobShared(msgspec.Struct, frozen=True):
    """A cause that delays changing ranks, if none stands out."""

    cause: str
    share: float
    ranks: int


class JobChange(msgspec.Struct, frozen=True):
    """Predicted time of a step if something were different."""

    change: str
    recorded_ns: float
    predicted_ns: float


class JobTask(msgspec.Struct, frozen=True):
    """A worker or a parameter server."""

    task: str
    server: bool
    steps: int
    receive_ratio: float
    exposed_ratio: float
    compute_ratio: float | None
    """For a worker, the share of its steps in own compute; this, waiting and transfer sum to 1."""
    waiting_ratio: float | None
    transfer_ratio: float | None
    holds_ratio: float | None
    """For a server, the share of the workers' steps in which it holds them up."""
    bottleneck: bool


class JobAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/ranks?path=``: who waits for whom, because of what."""

    path: str
    source: str
    """``profiles`` or ``dumps``."""
    ranks: list[int]
    missing: list[int]
    clock: JobClocks | None
    wait: JobWait | None
    bandwidth: list[JobBandwidth]
    blame: tuple[Blame, ...]
    costs: list[JobCosts]
    critical_path: JobPath | None
    shared: JobShared | None
    slow_groups: tuple[SlowGroup, ...]
    stragglers: tuple[Straggler, ...]
    what_if: list[JobChange]
    suspects: tuple[Suspect, ...]
    tasks: list[JobTask]
    notes: list[str]


class RankWait(msgspec.Struct, frozen=True):
    """A rank in a collective until the last rank came."""

    row: int
    rank: int
    lane: int
    depth: int
    start_ns: int
    end_ns: int
    """When the last rank came; not after the end of its own part."""
    last_row: int
    """The same collective on the rank that is waited for."""
    last_rank: int
    last_lane: int
    last_depth: int
    last_start_ns: int


class WaitsAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/waits?path=&start=&end=&most=300``: who waits for whom in a window."""

    path: str
    waits: list[RankWait]
    """The longest, in order of time."""
    total: int
    total_ns: int
    """Number of all in the window."""
    clocks: str
    """How the ranks' times were put on one clock, or why not; empty for a single rank."""


class IdleGap(msgspec.Struct, frozen=True):
    """A stretch in which no stream of a device worked."""

    rank: int
    device: int
    start_ns: int
    duration_ns: int
    reason: str
    """``host_wait``, ``kernel_wait``, ``other`` or ``unknown``."""
    before: str
    after: str
    host: str
    """Host activity that launched the next work; empty if that is not known."""
    loading_ns: int | None
    """Part of the gap with data loading on the host; None if loading was not recorded."""


class GapsAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/gaps?path=&start=&end=&most=100``: when devices did nothing, and why."""

    path: str
    gaps: list[IdleGap]
    """The longest, in order of time."""
    total: int
    """Gaps in the window, of the 2,000 longest of each device."""
