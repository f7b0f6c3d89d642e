"""Types sent about the ranks of a job; the page's types are generated from this module too.

``None`` means not recorded. Times are seconds, ratios 0 to 1, walls seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from stepscope.analyze.ranks.account import Onset
from stepscope.analyze.ranks.frontier import StageLoss
from stepscope.analyze.ranks.stuck import StuckRank
from stepscope.events.rank_file import Digest
from stepscope.serve.encode import projected
from stepscope.serve.types import Column, NonFinite
from stepscope.store.ranks import Rank, RankValue

RankFact = Literal[
    "own_work_s", "step_time_s", "data_wait_s", "loss", "nonfinite_count", "resident_bytes", "device_bytes"
]
MAX_RANK_COLUMNS = 4000
"""Columns of one answer of rank by step."""


class RankedRun(msgspec.Struct, frozen=True):
    """A run whose ranks have written files of their own."""

    run: str
    count: int
    """Ranks of the newest attempt that have written something."""
    size: int | None
    """Ranks that it was started with."""
    attempts: list[int]


class RankedRuns(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/ranks``: the runs that have ranks."""

    runs: list[RankedRun]


@projected(Rank, Digest, without=("is_gone", "digest", "skipped", "facts", "last_step", "last_wall"))
class RankSummary:
    """One rank in its newest attempt."""

    local_rank: int | None
    node: int | None
    source: str | None
    """The source of its rank."""
    devices: list[str]
    loss_tag: str | None
    """The series that its loss is taken from."""
    step: int | None
    """The newest step."""
    wall: float | None
    """When that ended."""
    wait_ratio: float | None
    """Share of its steps' time that it waited for data."""
    loss: float | NonFinite | None
    nonfinite: int
    """Values that it logged which were not finite numbers."""
    unreadable: int
    """Records of its files that could not be read."""
    unrecorded: int
    """Values that it logged and no file keeps."""


class RankList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/ranks?run=``: every rank of a run."""

    run: str
    size: int | None
    attempts: list[int]
    ranks: list[RankSummary]
    stalled_at: float | None = None
    """When a rank last wrote that its step does not end; null if none did."""
    values: list[RankValue] = []
    """The newest values of series of which each rank keeps its own."""
    unrecorded: str = ""
    """A sentence on the values that ranks have logged and nobody keeps; empty if there are none."""


class StageMeans(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/ranks/stages``: the stages of the newest steps of a training in one process."""

    run: str
    stages: list[str]
    """In the order in which they run, with ``data`` if its wait is known, and ``rest``; empty if none is."""
    mean_s: list[float]
    """Seconds of each stage, over these steps; they sum to the mean step."""
    steps: int
    """How many steps these are."""


class RankSteps(msgspec.Struct, frozen=True):
    """The JSON header of ``GET api/v1/ranks/steps``: one fact, rank by step.

    The frame is that of a series answer. The arrays of cells lie row by row: ``ranks`` rows of ``columns``.
    """

    run: str
    fact: str
    """A ``RankFact``, ``stage/`` and the name of a stage, or ``value/`` and the tag of a series."""
    attempt: int
    labels: list[str]
    """Numbers of the ranks in the rows."""
    ranks: list[int]
    columns: int
    end: int
    """Step after the last column."""
    steps: Column
    """First step of each column."""
    maximum: Column
    """Largest finite value of each cell; NaN: nothing was recorded."""
    mean: Column
    """Of the finite values."""
    count: Column
    """Steps of which something was recorded."""
    nonfinite: Column
    """Recorded values that are not finite numbers."""


@dataclass(frozen=True, slots=True)
class FrontierStage(StageLoss):
    """The loss of a group of ranks in one stage of its steps."""

    mean_s: list[float | None]
    """By column: mean of a step; null if no step of all ranks was recorded."""


class FrontierBlame(msgspec.Struct, frozen=True):
    """The cost of one rank to its group, most first."""

    rank: int
    host: str | None
    stage: str
    """The stage in which it costs most."""
    lost_per_step_s: float
    """Lost beyond the median rank in steps whose stages this rank leads. This and the next two are of the
    steps since the onset, or of all if there is none."""
    share: float
    """Share of everything that was lost beyond the median rank."""
    led: float
    """Share of the steps that it leads in this stage."""
    whole_per_step_s: float
    """Lost over all steps."""
    margin_s: float
    """Distance to the second, for the stage's leader; 0 for others."""
    verdict: str
    """"clear" of a persistent leader, "single steps" of a rank that pauses in some, else "cannot tell"."""


@dataclass(frozen=True, slots=True)
class FrontierOnset(Onset):
    """A rank that holds the others up, since when, and what it costs."""

    host: str | None


class FrontierSlower(msgspec.Struct, frozen=True):
    """A rank that is slower than the others by itself, if none waits for another."""

    rank: int
    """The slowest, if the sentence names several."""
    summary: str
    action: str


class FrontierGroup(msgspec.Struct, frozen=True):
    """A group of ranks with the same work; all ranks of the job if no groups were given."""

    group: str
    ranks: list[int]
    steps: int
    """Steps that all of them recorded."""
    group_s: float
    meets: str | None
    """Stage at whose end the ranks are together; null for the end of the step."""
    apart: float
    """Difference of the slowest and the fastest rank's time, as a share of it."""
    noise_s: float
    counts: list[int]
    """By column: steps."""
    stages: list[FrontierStage]
    blame: list[FrontierBlame]
    """Empty if no rank waits for another."""
    onset: FrontierOnset | None
    slower: FrontierSlower | None
    """Null if none stands out, and of ranks that wait for each other."""
    own_steps: bool
    """Whether the ranks count their steps together, so that each one's own steps are compared."""


@projected(StuckRank, without=("threads",))
class StalledRank:
    """A rank whose step did not end, as ``HangHook`` saw it."""


class RankFrontier(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/ranks/frontier``: where the group's time goes, stage by stage and over time."""

    run: str
    attempt: int
    size: int | None
    missing: list[int]
    stages: list[str]
    steps: list[int]
    """First step of each column."""
    end: int
    """Step after the last column."""
    groups: list[FrontierGroup]
    stuck: list[StalledRank]
    """Ranks whose steps do not end; empty if none was seen."""
    refused: str | None
    """Why nothing can be told; null if something is."""
    clock: Literal["host", "device"]
    """Whose time the stages are: the hosts', or that of devices which timed them without being waited for."""
    notes: list[str]
