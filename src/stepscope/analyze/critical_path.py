"""The critical path: the chain of events, each waiting for the one before, that determines a step's length.

It is traced backwards from the last effect of the step, each time to the last condition before
(:mod:`stepscope.analyze.dependencies` has the rules), until the step's beginning. Its pieces fill the time
from the step's beginning to its last effect exactly. To make the step shorter, shorten something on the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.dependencies import Bound, Graph, Graphs, graph
from stepscope.analyze.groups import Groups
from stepscope.attribute.spans import Times
from stepscope.attribute.windows import NO_STEP, ranks, windows
from stepscope.errors import EmptyTraceError
from stepscope.kernels import tree
from stepscope.trace.model import Trace

BOUNDS = tuple(bound.name.lower() for bound in Bound)
"""Limits of time on the path; see :class:`stepscope.analyze.dependencies.Bound`."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """All pieces of the path under one event's name."""

    name: str
    bound: str
    time_ns: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Pieces:
    """The path in order of time, one entry each; together they fill the window."""

    start_ns: Times
    duration_ns: Times
    bound: npt.NDArray[np.uint8]
    """A :class:`~stepscope.analyze.dependencies.Bound`."""
    row: npt.NDArray[np.int32]
    """Row of the trace that it is attributed to, -1 = none."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The path of one step of one rank, or of all that a rank recorded."""

    rank: int
    step: int
    """-1 if it is all that was recorded, or a stretch that was asked for."""
    start_ns: int
    end_ns: int
    """When the last work that the step launched ended; this may be after the step itself."""
    by_bound_ns: dict[str, int]
    """Adds up to ``end_ns - start_ns``."""
    top: tuple[PathPart, ...]
    """Operations that account for most of it, largest first."""
    pieces: Pieces
    notes: tuple[str, ...]

    @property
    def length_ns(self) -> int:
        """Length of the window that the path fills."""
        return self.end_ns - self.start_ns


def critical_paths(trace: Trace, *, top: int = 20, graphs: Graphs | None = None) -> tuple[CriticalPath, ...]:
    """Return the path of every step of every rank.

    Args:
        trace: Of any number of ranks; paths do not cross ranks.
        top: How many contributions of each path are named.
        graphs: The trace's graphs, if they are needed for more than this.

    Raises:
        EmptyTraceError: No operators of the host were recorded.
    """
    every, made_of, paths = windows(trace), graphs or Graphs(trace), []
    for rank in ranks(trace):
        made = made_of.of(rank)
        if not len(made.host):
            continue
        mine = every.of_rank(rank)
        for number, start, end in zip(
            mine.number.tolist(), mine.start_ns.tolist(), mine.end_ns.tolist(), strict=True
        ):
            paths.append(_path(trace, made, rank, (number, start, end), top))
    if not paths:
        raise EmptyTraceError(
            f"cannot tell the critical path: no operators of the host in this {trace.format} profile",
            hint="torch.profiler records them with ProfilerActivity.CPU",
        )
    return tuple(paths)


def critical_path(trace: Trace, rank: int, start_ns: int, end_ns: int, *, top: int = 20) -> CriticalPath:
    """Return the path of any stretch of one rank's host time, such as an annotation."""
    made = graph(trace, rank)
    if not len(made.host):
        raise EmptyTraceError(
            f"cannot tell the critical path: no operators of the host on rank {rank}",
            hint="record the host, too: ProfilerActivity.CPU in PyTorch",
        )
    return _path(trace, made, rank, (NO_STEP, start_ns, end_ns), top)


def _path(trace: Trace, made: Graph, rank: int, window: tuple[int, int, int], top: int) -> CriticalPath:
    number, start, end = window
    node = _last_effect(trace, made, start, end)
    path = np.empty(len(made.time_ns), np.int32)
    count = tree.walk(made.before, made.time_ns, node, start, path) if node >= 0 else 0
    pieces = _pieces(made, path[:count][::-1], start)
    finish = int(made.time_ns[node]) if node >= 0 else start
    time = np.bincount(pieces.bound, weights=pieces.duration_ns, minlength=len(BOUNDS)).astype(np.int64)
    return CriticalPath(
        rank, number, start, finish, dict(zip(BOUNDS, time.tolist(), strict=True)),
        tuple(_contributions(trace, pieces, top)), pieces, _notes(trace, made),
    )  # fmt: skip


def _last_effect(trace: Trace, made: Graph, start: int, end: int) -> int:
    """Return the node at which the last work ends, on the main thread or of work launched in a window.

    If clocks disagree, work has ended before its launch began: none that ended before the window.
    """
    ends = made.main_ends[(made.time_ns[made.main_ends] > start) & (made.time_ns[made.main_ends] <= end)]
    launched = trace.launch[made.device]
    inside = (launched >= 0) & (trace.start_ns[launched] >= start) & (trace.start_ns[launched] < end)
    work = 2 * len(made.host) + 2 * np.flatnonzero(inside) + 1
    nodes = np.concatenate((ends, work[made.time_ns[work] >= start]))
    return int(nodes[np.argmax(made.time_ns[nodes])]) if len(nodes) else -1


def _pieces(made: Graph, nodes: npt.NDArray[np.int32], start: int) -> Pieces:
    """Return the stretches that end at each node of a path, cut off at the window's start."""
    begin = np.concatenate(([start], made.time_ns[nodes[:-1]])) if len(nodes) else np.zeros(0, np.int64)
    begin = np.maximum(begin, start)
    duration = made.time_ns[nodes] - begin
    bound = made.bound[nodes].copy()
    if len(bound) and made.before[nodes[0]] < 0:
        bound[0] = Bound.UNKNOWN
    lasting = duration > 0
    return Pieces(begin[lasting], duration[lasting], bound[lasting], made.row[nodes][lasting])


def _contributions(trace: Trace, pieces: Pieces, top: int) -> Iterator[PathPart]:
    name = np.where(pieces.row >= 0, trace.name[pieces.row], -1) if len(trace) else pieces.row
    groups = Groups.by((name.astype(np.int64) + 1) << 8 | pieces.bound)
    time, count = groups.sum(pieces.duration_ns), groups.count()
    for g in np.argsort(-time, kind="stable")[:top].tolist():
        key = int(groups.key[g])
        yield PathPart(trace.strings[(key >> 8) - 1], BOUNDS[key & 255], int(time[g]), int(count[g]))


def _notes(trace: Trace, made: Graph) -> tuple[str, ...]:
    notes = []
    if len(made.device) and not len(trace.syncs):
        notes.append(
            "waits between streams were not recorded; "
            f"{made.inferred} were inferred from what ended last before a stream went on"
        )
    if len(made.device) and not (trace.launch[made.device] >= 0).any():
        notes.append("which call launched which device work was not recorded: the path stays on the device")
    return tuple(notes)
