"""The dependency graph under the critical path: for each beginning and end, the last thing it waited for.

Nodes are the beginnings and ends of operators, runtime calls and data loading on the host, and of work on
devices. Each node has one predecessor, the last of the things that had to happen before it:

- on a host thread, the node before it in the order of calls
- the end of a call in which the host waits for a device: the end of the work it waits for, if that ended
  within the call. With recorded syncs (``cuda_sync``) that is exact. Without them, a call that synchronises
  is taken to wait for the last work launched before it that ended before it returned.
- between the main thread and the threads of the backward pass, whose operators lie in each other's gaps: the
  last operator of either
- the end of a launch call that stood still because too much work waited: the work that ended last within it
- the end of device work: its beginning
- the beginning of device work: the last of the call that launched it, the end of the work before it on its
  stream, and its stream's waits (``Stream Wait Event``). If syncs are not recorded and the stream
  stood still for longer than launching takes, the work of any stream that ended last before it; of work on a
  stream that had run dry only if that ended as it began.

The rules are those of HTA's critical path analysis, which takes the longest path of a graph with the same
edges, with waits and gaps between operators at weight 0; here nothing is lost and a path fills its window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from stepscope.analyze.idle import KERNEL_WAIT_NS
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import synchronizing_calls
from stepscope.attribute.named import named
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints, Times
from stepscope.kernels import tree
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

_HOST = (Kind.HOST_OP, Kind.RUNTIME_CALL, Kind.DATA_LOADING)
_COPYING = re.compile(r"Memcpy")


class Bound(IntEnum):
    """The bound of a stretch of the critical path."""

    UNKNOWN = 0  # before anything that was recorded
    HOST = 1  # an operator or a call on the host
    HOST_GAP = 2  # the host between operators: Python, or what was not recorded; named by what it lies in
    DATA_LOADING = 3
    COMPUTE = 4
    COMMUNICATION = 5
    COPY = 6
    LAUNCH = 7  # from the call that launches to the start on an idle device
    KERNEL_GAP = 8  # from one piece of work to the next on its stream
    SYNC = 9  # from the end of what was waited for to the end of the waiting


_DEVICE_BOUND = {
    Kind.KERNEL: Bound.COMPUTE, Kind.COLLECTIVE: Bound.COMMUNICATION, Kind.SEND_RECV: Bound.COMMUNICATION,
    Kind.MEMCPY: Bound.COPY, Kind.MEMSET: Bound.COPY,
}  # fmt: skip


BACKLOG = 64
"""Pieces of launched work that had not begun: with so many, a launch call that stands still waits for the
device."""
SLOW_LAUNCH_NS = 50_000
"""A launch call that takes as long as this does not only launch; HTA's limit."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Everything that a node had to wait for, not only the last of it."""

    source: Ints
    target: Ints
    """Nodes; the source is never later than the target."""
    bound: npt.NDArray[np.uint8]
    """A :class:`Bound`; the host's own order is ``HOST``, and a piece of work from its beginning to its end
    has the bound of its kind."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes of one rank: two of each host row in the order of calls, then two of each device row."""

    time_ns: Times
    before: npt.NDArray[np.int32]
    """The node waited for last, -1 if a path begins."""
    bound: npt.NDArray[np.uint8]
    """Limit of the time since that node, a :class:`Bound`."""
    row: npt.NDArray[np.int32]
    """Row of the trace that this time is attributed to, -1 = none."""
    host: Ints
    device: Ints
    """Rows of the nodes."""
    main_ends: Ints
    """Nodes of the main thread at which an outermost event ends, in order of time."""
    main_lane: int
    """Lane of the thread that runs the steps, -1 if the host was not recorded."""
    lane: Ints
    """Lane of each node."""
    edges: Edges
    inferred: int
    """Waits between streams that were inferred, not recorded."""


def graph(trace: Trace, rank: int, rows: TraceRows | None = None) -> Graph:
    """Find the last condition of each event of a rank.

    Args:
        trace: The trace.
        rank: The rank.
        rows: The result of :meth:`Rows.of`, if several ranks are looked at.
    """
    return _Graph(trace, rank, rows or TraceRows.of(trace)).graph()


class Graphs:
    """The graphs of a trace's ranks, each found when it is first asked for.

    Args:
        trace: The trace.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rows = TraceRows.of(trace)
        self._made: dict[int, Graph] = {}

    def of(self, rank: int) -> Graph:
        """Return the graph of one rank."""
        if rank not in self._made:
            self._made[rank] = graph(self._trace, rank, self._rows)
        return self._made[rank]


@dataclass(frozen=True, slots=True)
class TraceRows:
    """Facts found once for all ranks of a trace."""

    host: Ints
    above: Ints
    """For each of these, the row of the host event that it is nested in, -1 = none."""
    device: Ints
    purpose: npt.NDArray[np.uint8]
    waiting: Ints
    """Runtime calls in which the host waits for a device."""
    copying: npt.NDArray[np.bool_]
    """By name's number, whether a call of this name copies."""

    @classmethod
    def of(cls, trace: Trace) -> TraceRows:
        """Find these facts of a trace."""
        wanted = (trace.device < 0) & among(*_HOST)[trace.kind]
        host = np.flatnonzero(wanted)
        above = trace.parent[host]
        return cls(
            host=host,
            above=np.where(above >= 0, trace.nearest(wanted)[above], -1) if len(host) else above,
            device=trace.device_work(),
            purpose=attribution(trace).purpose,
            waiting=synchronizing_calls(trace),
            copying=named(trace, _COPYING),
        )


class _Graph:
    """Nodes while their predecessors are being found."""

    def __init__(self, trace: Trace, rank: int, rows: TraceRows) -> None:
        self.trace, self.rows = trace, rows
        mine = trace.rank[rows.host] == rank
        self.host, self.above = rows.host[mine], rows.above[mine]
        self.device = rows.device[trace.rank[rows.device] == rank]
        streams = np.array([lane.stream for lane in trace.lanes], np.int64)
        self.stream: Ints = streams[trace.lane[self.device]]
        self.inferred = 0
        self._edges: list[tuple[Ints, Ints, Bound]] = []
        self.host_nodes()
        self.device_nodes()

    def graph(self) -> Graph:
        self.join_threads()
        self.join_streams()
        self.join_waits()
        return Graph(
            self.time,
            self.before,
            self.bound,
            self.row,
            self.host,
            self.device,
            self.main_ends,
            self.main_lane,
            np.concatenate((self._node_lanes(), np.repeat(self.trace.lane[self.device], 2))),
            self._all_edges(),
            self.inferred,
        )

    def _node_lanes(self) -> Ints:
        lanes = np.empty(2 * len(self.host), np.int64)
        lanes[self.begin] = lanes[self.end] = self.lane
        return lanes

    def _all_edges(self) -> Edges:
        follows = np.flatnonzero(~self.jump)
        work = self.bound[self.dev_end]
        parts = [
            (follows - 1, follows, np.full(len(follows), Bound.HOST, np.uint8)),
            (self.dev_begin, self.dev_end, work),
            *(
                (source, target, np.full(len(source), bound, np.uint8))
                for source, target, bound in self._edges
            ),
        ]
        source, target, bound = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Edges(source.astype(np.int64), target.astype(np.int64), bound)

    # --- the host -------------------------------------------------------------------------------------

    def host_nodes(self) -> None:
        """Lay out the host's nodes in the order of calls: an Euler tour of each thread."""
        trace, host = self.trace, self.host
        count = 2 * len(host) + 2 * len(self.device)
        self.time, self.before = np.zeros(count, np.int64), np.full(count, -1, np.int32)
        self.bound, self.row = np.zeros(count, np.uint8), np.full(count, -1, np.int32)
        parent = self._places(self.above).astype(np.int32)
        depth, size = np.zeros(len(host), np.int32), np.ones(len(host), np.int64)
        tree.depths(parent, depth)
        tree.accumulate(parent, size)
        # Before the beginning of row i lie i beginnings and the ends of all but its ancestors.
        self.begin = 2 * np.arange(len(host)) - depth
        self.end = self.begin + 2 * size - 1
        self.depth, self.lane = depth, trace.lane[host]
        self.time[self.begin] = trace.start_ns[host]
        self.time[self.end] = trace.start_ns[host] + trace.duration_ns[host]
        self._chain(parent)

    def _places(self, rows: Ints) -> npt.NDArray[np.int64]:
        """Return the places of rows of the trace among the host's rows, -1 for others."""
        at = np.searchsorted(self.host, rows)
        at[at == len(self.host)] = 0
        places: npt.NDArray[np.int64] = (
            np.where(self.host[at] == rows, at, -1) if len(self.host) else at * 0 - 1
        )
        return places

    def _chain(self, parent: npt.NDArray[np.int32]) -> None:
        host, nodes = self.host, 2 * len(self.host)
        self.jump = np.zeros(nodes, bool)
        if not nodes:
            return
        owner, is_end = np.empty(nodes, np.int64), np.zeros(nodes, bool)
        owner[self.begin] = owner[self.end] = np.arange(len(host))
        is_end[self.end] = True
        lane = self.lane[owner]
        time = self.time[:nodes]
        # Siblings that overlap would make time run backwards: the later begins when the earlier has ended.
        jump = self.jump = np.concatenate(([True], lane[1:] != lane[:-1]))
        offset = np.cumsum(jump) * (np.int64(1) << 61 - int(jump.sum()).bit_length())
        time[:] = np.maximum.accumulate(time + offset) - offset
        self.before[:nodes] = np.where(jump, -1, np.arange(-1, nodes - 1))
        # Whose time it is since the node before: see the four cases of HTA's edge attribution.
        previous = np.roll(owner, 1)
        after_end = np.roll(is_end, 1)
        whose = np.where(after_end, np.where(is_end, owner, parent[previous]), previous)
        gap = after_end & ~is_end & (self.depth[owner] == 0)
        self.row[:nodes] = np.where(jump | gap | (whose < 0), -1, host[whose])
        nodes_of_gaps = np.flatnonzero(gap & ~jump)
        self.row[nodes_of_gaps] = self._around(host[owner[nodes_of_gaps]], time[nodes_of_gaps - 1])
        loading = self.rows.purpose[host] == Purpose.LOADING
        self.bound[:nodes] = np.where(loading[whose], Bound.DATA_LOADING, Bound.HOST)
        self.bound[:nodes][gap] = Bound.HOST_GAP
        self.bound[:nodes][jump] = Bound.UNKNOWN

    def _around(self, rows: Ints, since: Times) -> Ints:
        """Return the event around each row, begun by a time: a Python frame, an annotation, the step."""
        around: Ints = self.trace.parent[rows].copy()
        while len(inside := np.flatnonzero((around >= 0) & (self.trace.start_ns[around] > since))):
            around[inside] = self.trace.parent[around[inside]]
        return around

    def join_threads(self) -> None:
        """Let the main thread and the threads of the backward pass wait for each other in their gaps."""
        outer = self.depth == 0
        main = self.main_lane = self._main_lane()
        self.main_ends = self.end[outer & (self.lane == main)]
        backward = self.rows.purpose[self.host] == Purpose.BACKWARD
        others = distinct(self.lane[outer & backward])
        joined = np.append(others[others != main], main) if len(self.host) else others
        if len(joined) < 2:
            return
        mine = outer & np.isin(self.lane, joined)
        begins, ends = self.begin[mine], self.end[mine]
        order = np.argsort(self.time[ends], kind="stable")
        ends = ends[order]
        # Strictly before: events without duration would otherwise wait for what waits for them.
        at = np.searchsorted(self.time[ends], self.time[begins], side="left") - 1
        known = at >= 0
        begins, last, rows = begins[known], ends[at[known]], self.host[mine][known]
        self._edges.append((last, begins, Bound.HOST_GAP))
        current = self.before[begins]
        later = (current < 0) | (self.time[last] > self.time[current])
        self.before[begins[later]] = last[later]
        self.bound[begins[later]] = Bound.HOST_GAP
        self.row[begins[later]] = self._around(rows[later], self.time[last[later]])

    def _main_lane(self) -> int:
        """Return the lane that runs the steps, else the one that spends most time in operators."""
        if not len(self.host):
            return -1
        trace, rank = self.trace, self.trace.rank[self.host[0]]
        steps = trace.steps.row[(trace.steps.rank == rank) & (trace.steps.row >= 0)]
        steps = steps[trace.device[steps] < 0]
        if len(steps):
            return int(trace.lane[steps[0]])
        outer = self.depth == 0
        time = np.bincount(self.lane[outer], weights=trace.duration_ns[self.host[outer]])
        return int(np.argmax(time))

    # --- devices --------------------------------------------------------------------------------------

    def device_nodes(self) -> None:
        trace, device = self.trace, self.device
        self.dev_begin = 2 * len(self.host) + 2 * np.arange(len(device))
        self.dev_end = self.dev_begin + 1
        launch = self._places(trace.launch[device])
        self.launch = np.where(launch >= 0, self.begin[launch] if len(self.host) else -1, -1)
        start = trace.start_ns[device]
        # Device and host clocks can disagree by microseconds; nothing starts before it was launched.
        start = np.where(self.launch >= 0, np.maximum(start, self.time[self.launch]), start)
        self.time[self.dev_begin] = start
        self.time[self.dev_end] = np.maximum(start, trace.start_ns[device] + trace.duration_ns[device])
        self.before[self.dev_end] = self.dev_begin
        self.row[self.dev_end] = self.row[self.dev_begin] = device
        kinds = np.zeros(max(Kind) + 1, np.uint8)
        for kind, bound in _DEVICE_BOUND.items():
            kinds[kind] = bound
        self.bound[self.dev_end] = kinds[trace.kind[device]]

    def join_streams(self) -> None:
        """Choose for each piece of work the last of launch, stream and recorded waits."""
        lane = self.trace.lane[self.device]
        begin = self.time[self.dev_begin]
        order = np.lexsort((begin, lane))
        follows = np.zeros(len(order), bool)
        follows[1:] = lane[order[1:]] == lane[order[:-1]]
        previous = np.full(len(order), -1)
        previous[order[follows]] = self.dev_end[order[np.flatnonzero(follows) - 1]]
        self._choose(self.dev_begin, self.launch, Bound.LAUNCH)
        self._choose(self.dev_begin, previous, Bound.KERNEL_GAP)
        self._overlapping(previous)
        if len(self.trace.syncs):
            self._choose(self.dev_begin, self._stream_waits(), Bound.SYNC)
        else:
            self._infer_waits()

    def _overlapping(self, previous: Ints) -> None:
        """Keep the order of work that begins before the work ahead of it on its stream has ended."""
        known = np.flatnonzero(previous >= 0)
        early = known[self.time[previous[known]] > self.time[self.dev_begin[known]]]
        early = early[self.time[previous[early] - 1] <= self.time[self.dev_begin[early]]]
        self._edges.append((previous[early] - 1, self.dev_begin[early], Bound.COMPUTE))

    def _choose(self, nodes: Ints, candidate: Ints, bound: Bound) -> None:
        """Take a candidate if it is not later than the node and not earlier than the node's own."""
        usable = (candidate >= 0) & (self.time[candidate] <= self.time[nodes])
        self._edges.append((candidate[usable], nodes[usable], bound))
        current = self.before[nodes]
        later = usable & ((current < 0) | (self.time[candidate] >= self.time[current]))
        self.before[nodes[later]] = candidate[later]
        self.bound[nodes[later]] = bound

    def _infer_waits(self) -> None:
        """Find the work that ended last before each pause of a stream that had work launched.

        Work on a stream that had run dry, launched long before it begins, waited for work that ended as it
        began.
        """
        bound, before = self.bound[self.dev_begin], self.before[self.dev_begin]
        slow = self.time[self.dev_begin] - self.time[before] > KERNEL_WAIT_NS
        asked = slow & np.isin(bound, (Bound.KERNEL_GAP, Bound.LAUNCH))
        nodes, launched = self.dev_begin[asked], bound[asked] == Bound.LAUNCH
        ends = self.dev_end[np.argsort(self.time[self.dev_end], kind="stable")]
        at = np.searchsorted(self.time[ends], self.time[nodes], side="left") - 1
        last = np.where(at >= 0, ends[at], -1) if len(ends) else np.full(len(nodes), -1)
        near = self.time[nodes] - self.time[last] <= KERNEL_WAIT_NS
        other = (last != self.before[nodes]) & (
            ~launched | (near & (self.time[last] >= self.time[self.before[nodes]]))
        )
        self.inferred = int(other.sum())
        self._choose(nodes[other], last[other], Bound.SYNC)

    # --- recorded waits -------------------------------------------------------------------------------

    def _stream_waits(self) -> Ints:
        """Return for each piece of work the end of the work that its stream was told to wait for, or -1."""
        waits = np.full(len(self.device), -1)
        syncs, trace = self.trace.syncs, self.trace
        for n in self._syncs("Stream Wait Event"):
            call = self._call(int(trace.correlation[syncs.row[n]]))
            source = self._recorded_work(n)
            if call < 0 or source < 0:
                continue
            mine = np.flatnonzero((self.stream == syncs.stream[n]) & (self.launch > self.begin[call]))
            if len(mine):
                first = mine[np.argmin(self.launch[mine])]
                waits[first] = self.dev_end[source]
        return waits

    def join_waits(self) -> None:
        """Let a call that waits for a device end because of the work it waits for."""
        if not len(self.host):
            return
        trace = self.trace
        for call, source in self._recorded_waits():
            self._wait(call, source)
        blocked = self._stuck_launches()
        if not len(trace.syncs):
            waiting = self._places(self.rows.waiting)
            blocked = [*waiting[waiting >= 0].tolist(), *blocked]
        for call in blocked:
            self._wait(call, self._last_before(self._launched_before(call), self.time[self.end[call]]))
        copies = np.flatnonzero((trace.launch[self.device] >= 0) & (self.launch >= 0))
        copies = copies[self.rows.copying[trace.name[trace.launch[self.device[copies]]]]]
        calls = self._places(trace.launch[self.device[copies]])
        for n, call in zip(copies.tolist(), calls.tolist(), strict=True):
            self._wait(call, int(self.dev_end[n]))

    def _stuck_launches(self) -> list[int]:
        """Return the launch calls that were blocked because too much launched work had not begun.

        CUDA lets about a thousand launches wait, drivers and copies fewer; the call then returns only when
        the device has taken some. That is the device's time, not the cost of launching.
        """
        known = np.flatnonzero(self.launch >= 0)
        if not len(known):
            return []
        calls = distinct(self._places(self.trace.launch[self.device[known]]))
        calls = calls[calls >= 0]
        calls = calls[self.time[self.end[calls]] - self.time[self.begin[calls]] >= SLOW_LAUNCH_NS]
        at = self.time[self.begin[calls]]
        launched = np.searchsorted(np.sort(self.time[self.launch[known]]), at, side="left")
        begun = np.searchsorted(np.sort(self.time[self.dev_begin[known]]), at, side="right")
        return [int(call) for call in calls[launched - begun >= BACKLOG]]

    def _wait(self, call: int, source: int) -> None:
        """Let a call's end follow a device node that lies within the call."""
        begin, end = self.begin[call], self.end[call]
        if source < 0 or not self.time[begin] < self.time[source] <= self.time[end]:
            return
        self._edges.append((np.array([source]), np.array([end]), Bound.SYNC))
        current = self.before[end]
        if self.bound[end] == Bound.SYNC and self.time[current] >= self.time[source]:
            return
        self.before[end], self.bound[end], self.row[end] = source, Bound.SYNC, self.host[call]

    def _recorded_waits(self) -> Iterator[tuple[int, int]]:
        """Yield the call of each recorded wait of the host, and the end of the device work waited for."""
        syncs, trace = self.trace.syncs, self.trace
        for what in ("Stream Sync", "Context Sync", "Device Sync", "Event Sync"):
            for n in self._syncs(what):
                call = self._call(int(trace.correlation[syncs.row[n]]))
                if call < 0:
                    continue
                if what == "Event Sync":
                    source = self._recorded_work(n)
                else:
                    mine = self._launched_before(call)
                    if what == "Stream Sync":
                        mine = mine[self.stream[mine] == syncs.stream[n]]
                    source = int(mine[np.argmax(self.time[self.dev_end[mine]])]) if len(mine) else -1
                yield call, int(self.dev_end[source]) if source >= 0 else -1

    def _syncs(self, what: str) -> list[int]:
        number = self.trace.strings.find(what)
        rank = self.trace.rank[self.host[0]] if len(self.host) else -1
        rows = self.trace.syncs.row
        mine = (self.trace.syncs.what == number) & (self.trace.rank[rows] == rank)
        return [int(n) for n in np.flatnonzero(mine)]

    def _call(self, correlation: int) -> int:
        """Return which host row has a correlation, -1 if none has."""
        if not hasattr(self, "_calls"):
            self._calls = {int(c): n for n, c in enumerate(self.trace.correlation[self.host]) if c >= 0}
        return self._calls.get(correlation, -1) if correlation >= 0 else -1

    def _recorded_work(self, sync: int) -> int:
        """Return which device work was launched last on an event's stream before the event was recorded."""
        syncs = self.trace.syncs
        record = self._call(int(syncs.wait_correlation[sync]))
        if record < 0:
            return -1
        mine = self._launched_before(record)
        mine = mine[self.stream[mine] == syncs.wait_stream[sync]]
        return int(mine[np.argmax(self.time[self.launch[mine]])]) if len(mine) else -1

    def _launched_before(self, call: int) -> Ints:
        """Return which device work was launched before a call began."""
        if not hasattr(self, "_by_launch"):
            known = np.flatnonzero(self.launch >= 0)
            self._by_launch = known[np.argsort(self.time[self.launch[known]], kind="stable")]
            self._launch_times = self.time[self.launch[self._by_launch]]
        upto = np.searchsorted(self._launch_times, self.time[self.begin[call]], side="left")
        return self._by_launch[:upto]

    def _last_before(self, work: Ints, time: int) -> int:
        """Return the end of the work that ended last up to a time, -1 if there is none."""
        ends = self.dev_end[work]
        ends = ends[self.time[ends] <= time]
        return int(ends[np.argmax(self.time[ends])]) if len(ends) else -1
