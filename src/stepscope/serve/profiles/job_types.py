"""Types sent between the server and the page: all ranks of a job, from their profiles or dumps.

``None`` means not recorded or not known; ``notes`` say why. Times are nanoseconds.
"""

from __future__ import annotations

import msgspec

from stepscope.analyze.idle import Gap
from stepscope.analyze.ranks.blame import Blame, WaitCost
from stepscope.analyze.ranks.clocks import Clocks
from stepscope.analyze.ranks.hangs import Suspect
from stepscope.analyze.ranks.path import RanksPath
from stepscope.analyze.ranks.stragglers import SharedCause, Straggler
from stepscope.analyze.ranks.waits import Bandwidth, SlowGroup
from stepscope.analyze.ranks.what_if import WhatIf


class JobWait(msgspec.Struct, frozen=True):
    """Waiting in collectives, of all ranks together."""

    total_ns: int
    transfer_ns: int
    share_of_communication: float
    collectives: int
    needed: int | None
    """Number of collectives needed to tell a slow rank from chance; None if as many were recorded."""


class JobCosts(msgspec.Struct, frozen=True):
    """All waiting, summed by one thing; the rows sum to it."""

    by: str
    """``host``, ``scope``, ``line`` or ``cause``."""
    rows: tuple[WaitCost, ...]


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
    clock: Clocks | None
    wait: JobWait | None
    bandwidth: tuple[Bandwidth, ...]
    blame: tuple[Blame, ...]
    costs: list[JobCosts]
    critical_path: RanksPath | None
    shared: SharedCause | None
    slow_groups: tuple[SlowGroup, ...]
    stragglers: tuple[Straggler, ...]
    what_if: tuple[WhatIf, ...]
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


class GapsAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/gaps?path=&start=&end=&most=100``: when devices did nothing, and why."""

    path: str
    gaps: list[Gap]
    """The longest, in order of time."""
    total: int
    """Gaps in the window, of the 2,000 longest of each device."""
