"""The stretches of time that an analysis is about: the recorded steps, or everything that was recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.attribute.spans import Ints, Spans
from stepscope.trace.distinct import distinct
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among
from stepscope.trace.recorder import recorder_rows

NO_STEP = -1
"""Number of the window of a rank that recorded no steps."""
SLACK_NS = 1_000_000
"""Time that is always allowed between the end of loading and the step that it was for."""

_WORK = (Kind.HOST_OP, Kind.DATA_LOADING, Kind.COLLECTIVE, Kind.SEND_RECV)


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows in (rank, start) order, one entry each in every array."""

    rank: Ints
    number: Ints
    """Number of the step, :data:`NO_STEP` for a window over all the work that a rank recorded."""
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def marked(self) -> bool:
        """True if every window is a step that was marked, so that there is a "per step"."""
        return bool((self.number >= 0).all())

    @property
    def steps(self) -> dict[int, int]:
        """The marked steps by number, with how often a rank marked it: recordings may number theirs alike."""
        times = Counter(zip(self.number.tolist(), self.rank.tolist(), strict=True))
        most: dict[int, int] = {}
        for (number, _), count in sorted(times.items()):
            most[number] = max(count, most.get(number, 0))
        most.pop(NO_STEP, None)
        return most

    def of_rank(self, rank: int) -> Windows:
        """Return the windows of one rank."""
        return self.where(self.rank == rank)

    def where(self, chosen: npt.NDArray[np.bool_] | Ints) -> Windows:
        """Return some of the windows."""
        return Windows(self.rank[chosen], self.number[chosen], self.start_ns[chosen], self.end_ns[chosen])


def windows(trace: Trace) -> Windows:
    """Return the steps of each rank; a rank without steps is one window from its first to its last work.

    A step begins when its data is asked for: loading on its thread right before it is part of it, if the
    step's own mark begins later, as in ``for batch in loader: with run.step():``.
    """
    steps = trace.steps
    parts = [(steps.rank, steps.number, asked_ns(trace), steps.end_ns)]
    present = set(distinct(steps.rank).tolist())
    for rank in ranks(trace):
        if rank in present:
            continue
        start, end = work_bounds(trace, rank)
        if end > start:
            parts.append((np.array([rank]), np.array([NO_STEP]), np.array([start]), np.array([end])))
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[2], columns[0]))
    return Windows(*(column[order] for column in columns))


def work_bounds(trace: Trace, rank: int) -> tuple[int, int]:
    """Return when a rank began and stopped working: (0, 0) if nothing of it was recorded.

    Work is the devices' work, and operators, loading and launches of the host. Starting and stopping the
    profiler is not work, nor is the host's work meanwhile; frames and annotations alone do not show that
    something was done. If nothing else was recorded, they are used.
    """
    mine = trace.rank == rank
    own = recorder_rows(trace.strings, trace.name, trace.kind, trace.parent)
    on_device = mine & (trace.device >= 0) & among(*DEVICE_WORK)[trace.kind]
    on_host = mine & (trace.device < 0) & among(*_WORK)[trace.kind] & ~own
    launching = trace.launch[on_device]
    calls = launching[launching >= 0]
    on_host[calls] = ~own[calls]
    rows = np.flatnonzero(on_host)
    frames = np.flatnonzero(mine & own & (trace.kind == Kind.PYTHON_FRAME))
    if len(frames):
        busy = Spans.of(trace.start_ns[frames], trace.end_ns[frames])
        start = trace.start_ns[rows]
        rows = rows[~busy.holds(start)]
    rows = np.concatenate([rows, np.flatnonzero(on_device)])
    if not len(rows):
        rows = np.flatnonzero(mine & ~own)
    if not len(rows):
        return 0, 0
    start = trace.start_ns[rows]
    return int(start.min()), int((start + trace.duration_ns[rows]).max())


def asked_ns(trace: Trace) -> Ints:
    """Return when each step's data was requested; its own start if nothing was loaded right before it.

    Right before means after the step before it, and no further away than a tenth of the loading time.
    """
    steps = trace.steps
    asked = np.array(steps.start_ns, np.int64)
    rows = np.flatnonzero(trace.kind == Kind.DATA_LOADING)
    if not len(rows) or not len(steps):
        return asked
    ends = trace.start_ns + trace.duration_ns
    for lane in distinct(trace.lane[steps.row[steps.row >= 0]]):
        loads = rows[trace.lane[rows] == lane]
        loads = loads[np.argsort(ends[loads], kind="stable")]
        mine = np.flatnonzero((steps.row >= 0) & (trace.lane[steps.row] == lane))
        mine = mine[np.argsort(steps.start_ns[mine], kind="stable")]
        at = np.searchsorted(ends[loads], steps.start_ns[mine], side="right") - 1
        before = np.concatenate([[np.iinfo(np.int64).min], steps.end_ns[mine][:-1]])
        for step, load, earlier in zip(mine[at >= 0], loads[at[at >= 0]], before[at >= 0], strict=True):
            slack = max(int(trace.duration_ns[load]) // 10, SLACK_NS)
            if trace.start_ns[load] >= earlier and steps.start_ns[step] - ends[load] <= slack:
                asked[step] = trace.start_ns[load]
    return asked


def ranks(trace: Trace) -> list[int]:
    """Return the ranks that have events, ascending."""
    return list(trace.derived("ranks", lambda: distinct(trace.rank).tolist()))
