"""The time of steps without a given cause: the dependency graph run again with some of its time left out.

Every node of :mod:`stepscope.analyze.dependencies` happens as soon as all that it waits for has. The last
condition in the recording keeps its recorded delay, so that the unchanged graph gives the recorded times;
anything else may only come closer:

- on a host thread, the time after the last condition: a call that waited for a device takes the time after
the wait, if nothing is waited for
- a piece of work takes its recorded duration, and one that began before the one ahead of it on its stream had
  ended begins as long after that one's beginning
- from a launch to its work, and from one piece of work to the next on a stream, the usual delay of those that
  came last, at most the recorded one

Gain of a cause = recorded - replayed without it. A cause that only fills slack gains nothing. The idea is
that
of what-if analyses (Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis",
OSDI 2025) and of causal profiling (Curtsinger and Berger, "Coz", SOSP 2015).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepscope.analyze.dependencies import Bound, Graph
from stepscope.attribute.spans import Ints, Spans, Times
from stepscope.attribute.windows import Windows
from stepscope.kernels import replay
from stepscope.trace.model import Trace

TRUSTED_ERROR = 0.02
"""Largest share of the recorded time by which the unchanged graph may miss it."""
TRUSTED_LAUNCHES = 0.98
"""Least share of device time whose launches must be known."""


@dataclass(frozen=True)
class Without:
    """The time that a replay leaves out.

    Attributes:
        host: By lane, time in which a thread is taken to do nothing.
        device: Rows of device work that is taken to be shorter.
        device_share: Share of its duration that this work loses.
        waits: Rows of host calls that are taken not to wait for a device.
    """

    host: dict[int, Spans] = field(default_factory=dict)
    device: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    device_share: float = 1.0
    waits: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


class Replay:
    """The steps of one rank, to be run again.

    Args:
        trace: The graph's trace.
        made: The graph of one rank.
        steps: Windows of that rank, at least one.
    """

    def __init__(self, trace: Trace, made: Graph, steps: Windows) -> None:
        self._trace, self._made = trace, made
        self.start_ns, self.end_ns = int(steps.start_ns.min()), int(steps.end_ns.max())
        order = np.argsort(made.edges.target, kind="stable")
        self._source, self._target = made.edges.source[order], made.edges.target[order]
        self._bound = made.edges.bound[order]
        self._working = (
            (self._bound == Bound.COMPUTE)
            | (self._bound == Bound.COMMUNICATION)
            | (self._bound == Bound.COPY)
        )
        self._on_host = np.flatnonzero((self._bound == Bound.HOST) | (self._bound == Bound.HOST_GAP))
        self._weight = self._weights()
        nodes = len(made.time_ns)
        self._first = _first_of(self._target, nodes)
        self._order, self._complete = self._ordered(nodes)
        self._final = self._final_nodes()
        waits = np.diff(self._first) == 0
        self._anchored = np.flatnonzero(waits & (made.time_ns > self.start_ns))
        finish = max(int(made.time_ns[self._final].max(initial=self.end_ns)), self.end_ns)
        self.recorded_ns = finish - self.start_ns
        """From the beginning of the first step to the last effect of the last one."""

    def total_ns(self, without: Without | None = None) -> int:
        """Return how long the steps take without something."""
        weight = self._weight if without is None else self._less(without)
        time = np.array(self._made.time_ns, np.int64)
        if without is not None:
            time[self._anchored] -= self._before_anchors(without)
        replay.replay(self._source32, weight, self._first, self._order, time)
        last = self._last_on_main
        tail = 0
        if last >= 0:
            since = int(self._made.time_ns[last])
            idle = Spans.window(since, self.end_ns) if self.end_ns > since else Spans.empty()
            if without is not None and (gone := without.host.get(self._made.main_lane)) is not None:
                idle = idle.minus(gone)
            tail = int(time[last]) + idle.measure_ns
        return max(int(time[self._final].max(initial=0)), tail, self.start_ns) - self.start_ns

    def gain_ns(self, without: Without) -> int:
        """Return how much shorter all steps together would be without something; never negative."""
        return max(0, self._unchanged_ns - self.total_ns(without))

    def host_ns(self, lane: int, spans: Spans) -> int:
        """Return for how much of some time the graph assumes that a thread itself was working."""
        target = np.flatnonzero(
            ((self._bound == Bound.HOST) | (self._bound == Bound.HOST_GAP))
            & (self._made.lane[self._target] == lane)
            & (self._source == self._made.before[self._target])
        )
        end = self._made.time_ns[self._target[target]]
        return int(spans.within(end - self._weight[target], end).sum())

    @property
    def trusted(self) -> bool:
        """True if the unchanged graph gives the recorded time, and knows all launches of devices."""
        if not self._complete or self.recorded_ns <= 0:
            return False
        if abs(self._unchanged_ns - self.recorded_ns) > TRUSTED_ERROR * self.recorded_ns:
            return False
        rows, trace = self._made.device, self._trace
        inside = rows[(trace.start_ns[rows] >= self.start_ns) & (trace.start_ns[rows] < self.end_ns)]
        known = inside[trace.launch[inside] >= 0]
        every = int(trace.duration_ns[inside].sum())
        return int(trace.duration_ns[known].sum()) >= TRUSTED_LAUNCHES * every

    # --- how it is made ------------------------------------------------------------------------------

    def _weights(self) -> Times:
        made, time = self._made, self._made.time_ns
        gap = time[self._target] - time[self._source]
        last = made.before[self._target]
        chosen = self._source == last
        tail = np.where(last >= 0, time[self._target] - time[last], gap)
        usual = np.array(tail)
        for bound in (Bound.LAUNCH, Bound.KERNEL_GAP):
            mine = self._bound == bound
            if (mine & chosen).any():
                usual[mine] = np.maximum(usual[mine], int(np.median(gap[mine & chosen])))
        return np.where(chosen | self._working, gap, np.minimum(gap, usual)).astype(np.int64)

    def _ordered(self, nodes: int) -> tuple[npt.NDArray[np.int32], bool]:
        by_source = np.argsort(self._source, kind="stable")
        after = self._target[by_source].astype(np.int32)
        first_after = _first_of(self._source, nodes)
        self._source32 = np.ascontiguousarray(self._source, np.int32)
        order, waits = np.zeros(nodes, np.int32), np.zeros(nodes, np.int32)
        count = replay.ordered(self._source32, self._first, after, first_after, waits, order)
        return order[:count], count == nodes

    def _final_nodes(self) -> Ints:
        """Return the ends of the steps' device work; note the main thread's last node."""
        made, trace = self._made, self._trace
        reached = made.main_ends[made.time_ns[made.main_ends] <= self.end_ns]
        self._last_on_main = int(reached[np.argmax(made.time_ns[reached])]) if len(reached) else -1
        launched = trace.launch[made.device]
        at = np.where(launched >= 0, trace.start_ns[launched], -1)
        inside = (at >= self.start_ns) & (at < self.end_ns)
        self._unchanged: int | None = None
        ends: Ints = 2 * len(made.host) + 2 * np.flatnonzero(inside) + 1
        return ends

    @property
    def _unchanged_ns(self) -> int:
        if self._unchanged is None:
            self._unchanged = self.total_ns()
        return self._unchanged

    def _before_anchors(self, without: Without) -> Times:
        """Return the time left out before nodes that have no recorded predecessor."""
        nodes, lane = self._anchored, self._made.lane[self._anchored]
        gone = np.zeros(len(nodes), np.int64)
        for number, spans in without.host.items():
            mine = np.flatnonzero(lane == number)
            end = self._made.time_ns[nodes[mine]]
            gone[mine] = spans.within(np.full(len(mine), self.start_ns), end)
        return gone

    def _less(self, without: Without) -> Times:
        made, weight = self._made, np.array(self._weight, np.int64)
        for number, spans in without.host.items():
            mine = self._on_host[made.lane[self._target[self._on_host]] == number]
            end = made.time_ns[self._target[mine]]
            weight[mine] -= spans.within(end - weight[mine], end)
        if len(without.device):
            places = np.flatnonzero(np.isin(made.device, without.device))
            begins = 2 * len(made.host) + 2 * places
            mine = np.flatnonzero(self._working & np.isin(self._source, begins))
            weight[mine] -= (weight[mine] * without.device_share).astype(np.int64)
        if len(without.waits):
            weight = self._unwaited(weight, without.waits)
        return weight

    def _unwaited(self, weight: Times, calls: Ints) -> Times:
        """Let calls end without the device: the edge goes as far back as the call's own begin allows."""
        made = self._made
        nodes = np.flatnonzero(np.isin(made.row[: 2 * len(made.host)], calls))
        nodes = nodes[made.bound[nodes] == Bound.SYNC]
        gone = (self._bound == Bound.SYNC) & np.isin(self._target, nodes)
        # An edge of this weight can never be what is waited for last.
        weight[gone] = -(1 << 60)
        return weight


def _first_of(node: Ints, nodes: int) -> Ints:
    """Return int64[nodes + 1], the start of each node's edges among edges in the order of their nodes."""
    return np.concatenate([[0], np.cumsum(np.bincount(node, minlength=nodes))]).astype(np.int64)
