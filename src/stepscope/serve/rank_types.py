"""Types sent about the ranks of a job; the page's types are generated from this module too.

``None`` is what was not recorded. Times are seconds, ratios 0 to 1, walls seconds since the epoch.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.serve.types import Column, NonFinite, State

RankFact = Literal["step_time_s", "data_wait_s", "loss", "nonfinite_count", "resident_bytes", "device_bytes"]
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


class RankSummary(msgspec.Struct, frozen=True):
    """One rank in its newest attempt."""

    label: str
    """What to call it: "rank 3", "ps 0"."""
    kind: str
    """Either "rank" or "ps"."""
    rank: int
    role: str | None
    attempts: list[int]
    """Attempts that it took part in."""
    state: State
    reason: str | None
    host: str | None
    pid: int | None
    local_rank: int | None
    node: int | None
    source: str | None
    """Where it knew its rank from."""
    devices: list[str]
    loss_tag: str | None
    """The series that its loss is taken from."""
    written: float
    """When its file was last written."""
    steps: int
    step: int | None
    """The newest step."""
    wall: float | None
    """When that ended."""
    median_step_s: float | None
    wait_ratio: float | None
    """Share of its steps' time that it waited for data."""
    loss: float | NonFinite | None
    nonfinite: int
    """Values that it logged which were no finite numbers."""
    resident_bytes: float | None
    device_bytes: float | None
    unreadable: int
    """Records of its files that could not be read."""


class RankList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/ranks?run=``: every rank of a run."""

    run: str
    size: int | None
    attempts: list[int]
    ranks: list[RankSummary]


class RankSteps(msgspec.Struct, frozen=True):
    """The JSON header of ``GET api/v1/ranks/steps``: one fact, rank by step.

    The frame is that of a series answer. The arrays of cells lie row by row: ``ranks`` rows of ``columns``.
    """

    run: str
    fact: RankFact
    attempt: int
    labels: list[str]
    """Of the rows."""
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
    """Recorded values that are no finite number."""
