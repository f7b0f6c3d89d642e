"""Waits of the steps of one rank, and the steps' time without a cause."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepscope.analyze.dependencies import Graph
from stepscope.analyze.replay import TRUSTED_ERROR, Replay, Without
from stepscope.attribute.activity import WRAPPERS, Activities
from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import executor_lanes, rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.origin import line_of, origins
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.sampled import Sampled
from stepscope.attribute.source_lines import MOST_LINES, Share, responsible
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.step_tree import loading_rows
from stepscope.attribute.windows import NO_STEP, Windows, ranks
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

AHEAD = 0.1
"""Share of the time from the first step to the last in which XLA's threads ran anything: below it the steps
only dispatched their work."""
_TO_COMPILED = re.compile(r"(?:^|/)torch/_dynamo/eval_frame\.py\(\d+\): (?:compile_wrapper|_fn|__call__)$")
"""Calls of compiled code; within them is the compiled function, which calls nothing."""
KNOWN = 0.9
"""Least share of the time in which XLA's threads are idle that the graph has to find as gain."""
OUR_THREADS = "stepscope-"
"""How the names of our own threads begin."""
AWAITED = 0.1
"""Share of a wait from which on, if XLA's threads ran something in it, it is a wait for them."""


@dataclass(frozen=True)
class Worth:
    """The cost of a cause, and the gain without it, over all steps of a rank.

    Attributes:
        cost_ns: Time of the steps in which nothing but the cause went on; of a host cause, while no device
        worked.
        gain_ns: How much shorter the steps would be.
        how: ``replay`` of the dependency graph, or ``bound``: the exposed time, if the graph cannot tell.
        steps: The parts of the cost that lie in each step, which sum to 1; None if they are not known.
    """

    cost_ns: int
    gain_ns: int
    how: str
    steps: npt.NDArray[np.float64] | None = None

    @property
    def spread_ns(self) -> tuple[int, int]:
        """The gain of a step that gains little and of one that gains much: the 10 % and 90 % quantiles."""
        if self.steps is None:
            return 0, 0
        low, high = np.quantile(self.steps, (0.1, 0.9)) * self.gain_ns
        return round(low), round(high)


class Waited:
    """One rank's steps.

    Args:
        trace: The trace.
        rank: The rank.
        steps: Its windows, at least one with a length.
        made: Its graph, None if no operator of the host was recorded.
        activities: The activities of the trace's threads.
        sampled: Stacks of the training thread that were sampled beside the trace, None without.
        every_step: Windows of all captures, also of those that recorded less; by default ``steps``.
    """

    def __init__(
        self,
        trace: Trace,
        rank: int,
        steps: Windows,
        made: Graph | None,
        activities: Activities,
        sampled: Sampled | None = None,
        every_step: Windows | None = None,
    ) -> None:
        self.trace, self.rank, self.steps, self.graph = trace, rank, steps, made
        self.activities, self.sampled = activities, sampled
        self.every_step = steps if every_step is None else every_step
        self.spans = Spans.of(steps.start_ns, steps.end_ns)
        self.wall_ns = self.spans.measure_ns
        self.count = len(steps)
        self.marked = bool((steps.number != NO_STEP).any())
        work = trace.device_work()
        self.device_rows: Ints = work[trace.rank[work] == rank]
        self.lane = made.main_lane if made is not None else _main_lane(trace, rank)

    def lines(
        self,
        spans: Spans,
        *,
        around: Purpose | None = None,
        outside: re.Pattern[str] | None = None,
        most: int = MOST_LINES,
        own: bool = False,
    ) -> list[Share]:
        """Return the user's lines that the training thread ran in some time, most time first.

        Samples give the line that ran, recorded calls the line at which a function begins.

        Args:
            spans: The time.
            around: An activity that the lines must lie around, not within.
            outside: Frames that sampled lines must lie around, if there are any, by their text.
            most: Number of lines returned, at most.
            own: Whether the waits for a processor are left out of the time of sampled lines.
        """
        if self.sampled is not None and self.sampled.lane == self.lane:

            def chosen(text: str) -> bool:
                if outside is not None:
                    return bool(outside.search(text))
                compiling = around == Purpose.COMPILING and bool(_TO_COMPILED.search(text))
                return compiling or self.activities.of(text) == around

            within = chosen if outside is not None or around is not None else None
            lines = self.sampled.lines(spans, around=within, most=most, own=own)
            if lines:
                return lines
        return [] if around is not None else responsible(self.trace, self.lane, spans, most=most)

    def compiled_lines(self, rows: Ints) -> list[Share]:
        """Return the user's lines that compiled instructions come from, most time first, if recorded."""
        trace, compiled = self.trace, self.trace.instructions
        at = np.flatnonzero(np.isin(compiled.row, rows) & (compiled.line >= 0))
        total = np.bincount(compiled.line[at], weights=trace.duration_ns[compiled.row[at]])
        lines = []
        for number in np.argsort(-total, kind="stable")[:MOST_LINES].tolist():
            text = trace.strings[number]
            line = line_of(text if self.sampled is None else self.sampled.shown(text))
            if total[number] > 0 and line is not None and origins(trace).is_own(text):
                lines.append(Share(line, int(total[number]), 0, text))
        return lines

    def launching_lines(self, rows: Ints) -> list[Share]:
        """Return the user's lines from which the training thread launched some work of devices."""
        trace = self.trace
        launch = trace.launch[rows]
        calls = launch[launch >= 0]
        held = np.where(trace.operator[calls] >= 0, trace.operator[calls], calls)
        # What a thread of the backward pass launches comes from the operators of the forward pass.
        ahead = trace.forward[held]
        held = np.where((ahead >= 0) & (trace.lane[np.maximum(ahead, 0)] == self.lane), ahead, held)
        held = distinct(held[trace.lane[held] == self.lane]).astype(np.int64)
        return self.lines(rows_spans(trace, held)) if len(held) else []

    def origin_lines(self, rows: Ints, span: Callable[[Ints], Spans]) -> list[Share]:
        """Return the user's lines that operators of the training thread come from, most time first.

        Those of the backward pass come from the lines of the forward operators that made them, because the
        thread is in one call of ``backward`` meanwhile. Their time is divided like that of these lines.

        Args:
            rows: The operators, in order of time.
            span: Gives the time of some of them.
        """
        trace = self.trace
        behind = attribution(trace).purpose[rows] == Purpose.BACKWARD
        forwards = distinct(trace.forward[rows[behind]])
        ahead = outermost(trace, forwards[(forwards >= 0) & (trace.lane[forwards] == self.lane)])
        forward = span(ahead) if len(ahead) else Spans.empty()
        made = self.lines(forward) if len(forward) else []
        if not made:
            return self.lines(span(rows))
        backward = span(rows[behind])
        scale = backward.measure_ns / forward.measure_ns
        total = {one.line: replace(one, time_ns=round(scale * one.time_ns)) for one in made}
        for one in self.lines(span(rows).minus(backward)):
            known = total.get(one.line)
            total[one.line] = one if known is None else replace(known, time_ns=known.time_ns + one.time_ns)
        return sorted(total.values(), key=lambda one: -one.time_ns)[:MOST_LINES]

    def worker_lines(self, spans: Spans, *, most: int = MOST_LINES) -> list[Share]:
        """Return the user's lines that workers of its data loader ran, as far as they were sampled."""
        return [] if self.sampled is None else self.sampled.worker_lines(spans, most=most)

    @property
    def label(self) -> str:
        """The beginning of a sentence about this rank, empty if the trace has no other."""
        return f"rank {self.rank}: " if len(ranks(self.trace)) > 1 else ""

    @property
    def step_rows(self) -> Ints:
        """The marks of the steps; if there are none, the outermost events of the training thread."""
        steps = self.trace.steps
        marks: Ints = steps.row[(steps.rank == self.rank) & (steps.row >= 0)].astype(np.int64)
        if len(marks):
            return marks
        rows = np.flatnonzero((self.trace.lane == self.lane) & (self.trace.rank == self.rank))
        return outermost(self.trace, rows)

    @property
    def period_ns(self) -> int:
        """The usual time from one step's beginning to the next one's; a step's own if none is known."""
        own = self.own_ns // self.count
        following = np.diff(self.steps.number) == 1
        if not following.any():
            return own
        between = int(np.median(np.diff(self.steps.start_ns)[following]))
        return max(own, round(between * self.own_ns / self.wall_ns))

    @property
    def has_stacks(self) -> bool:
        """True if it is known which code the training thread ran."""
        return "stacks" in self.trace.recorded or self.sampled is not None

    @property
    def has_device(self) -> bool:
        """True if work of an accelerator was recorded."""
        return bool(len(self.device_rows))

    def work_in_steps(self, *kinds: Kind) -> Ints:
        """Return the work of devices of some kinds that begins in a step."""
        rows = self.device_rows[among(*kinds)[self.trace.kind[self.device_rows]]]
        inside: Ints = rows[self.spans.holds(self.trace.start_ns[rows])]
        return inside

    @cached_property
    def operators(self) -> Ints:
        """The operators of the training thread, in order of time."""
        return np.flatnonzero((self.trace.lane == self.lane) & (self.trace.kind == Kind.HOST_OP))

    @cached_property
    def frames(self) -> Ints:
        """The recorded frames of Python of the training thread, in order of time."""
        mine = (self.trace.lane == self.lane) & (self.lane >= 0)
        return np.flatnonzero(mine & (self.trace.kind == Kind.PYTHON_FRAME))

    @cached_property
    def operators_in_steps(self) -> Ints:
        """Those of them that begin in a step."""
        start = self.trace.start_ns[self.operators]
        return self.operators[self.spans.holds(start)]

    @cached_property
    def replay(self) -> Replay | None:
        """The graph to replay, None if it would not reproduce the recorded steps."""
        if self.graph is None:
            return None
        made = Replay(self.trace, self.graph, self.steps)
        return made if made.trusted and not self._unexplained_waits(made) else None

    def _unexplained_waits(self, made: Replay) -> bool:
        """Return whether the main thread waited for something that the graph does not know."""
        waiting = self.activities.waiting(self.lane).intersect(self.spans)
        # What loads or saves may wait for a file: that is its own time.
        waiting = waiting.minus(self.activities.spans(self.lane))
        return made.host_ns(self.lane, waiting) > TRUSTED_ERROR * self.wall_ns

    @cached_property
    def busy(self) -> Spans:
        """Time in which a device of the rank worked, or the threads that are XLA's device on a host."""
        if self.has_device:
            return rows_spans(self.trace, self.device_rows)
        return rows_spans(self.trace, self._executed)

    @cached_property
    def executing(self) -> Spans:
        """Time in which XLA's or TensorFlow's threads on a host had anything to run or to wait for.

        A wait in one place in which they ran something is for them, because not everything that they do is
        recorded. Waits of Python's own library are not for them.
        """
        ran = rows_spans(self.trace, self._executor_rows)
        if self.sampled is None or not len(ran):
            return ran
        start, end, stack = self.sampled.waits
        for_them = ran.within(start, end) >= AWAITED * (end - start)
        for_them &= ~self.sampled.waits_of_python(stack)
        # What reads a value waits for them even if they wait for a processor themselves.
        for_them |= self.sampled.reads(stack)
        return ran.union(Spans.of(start[for_them], end[for_them]))

    @cached_property
    def _executor_rows(self) -> Ints:
        trace = self.trace
        mine = np.isin(trace.lane, executor_lanes(trace, self.rank)) & (trace.kind == Kind.HOST_OP)
        return np.flatnonzero(mine & (trace.lane != self.lane))

    @cached_property
    def _executed(self) -> Ints:
        rows, waits = self._executor_rows, self.activities.waits
        # What only holds others may stand still in between.
        executed: Ints = rows[~(waits | named(self.trace, WRAPPERS))[self.trace.name[rows]]]
        return executed

    @property
    def only_dispatched(self) -> bool:
        """True if the steps only dispatched work that XLA's or TensorFlow's threads ran after all of them.

        Such steps are short, and how long their work takes is not known from them.
        """
        if self.has_device or not self.marked:
            return False
        ran = rows_spans(self.trace, self._executed)
        begun, ended = int(self.steps.start_ns.min()), int(self.steps.end_ns.max())
        during = ran.intersect(Spans.window(begun, ended)).measure_ns
        # What the profile holds of later steps ran after these, too: that alone says nothing.
        after = ran.minus(Spans.window(np.iinfo(np.int64).min // 2, ended)).measure_ns
        # Work of all but the last step that was done by then means that something waited for it in between.
        return during < AHEAD * (ended - begun) and after > max(self.wall_ns, during)

    @cached_property
    def dry(self) -> Spans:
        """Time of the steps in which no device worked; all of it if the host alone computes."""
        return self.spans.minus(self.busy) if len(self.busy) else self.spans

    @cached_property
    def host_lanes(self) -> list[int]:
        """The thread that runs the steps, and those that launch a tenth of the device's work or more."""
        if self.lane < 0:
            return []
        trace = self.trace
        launch = trace.launch[self.device_rows]
        lanes, counts = np.unique(trace.lane[launch[launch >= 0]], return_counts=True)
        launching = lanes[counts >= 0.1 * max(int(counts.sum()), 1)].tolist()
        return [
            self.lane,
            *(int(lane) for lane in launching if lane != self.lane and trace.lanes[lane].device < 0),
        ]

    @cached_property
    def loading(self) -> Spans:
        """Time in which data was loaded, on the thread that runs the steps or, if it loads none, on any.

        Loading for an evaluation does not count.
        """
        mine = np.flatnonzero(self.trace.rank == self.rank)
        loading = rows_spans(self.trace, loading_rows(self.trace, mine)).intersect(self.spans)
        evaluating = Spans.empty() if self.lane < 0 else self.activities.spans(self.lane, Purpose.EVALUATING)
        return loading.minus(evaluating)

    def worth(
        self,
        *,
        host: dict[int, Spans] | None = None,
        device: Ints | None = None,
        device_share: float = 1.0,
        waits: Ints | None = None,
        queued: bool = True,
    ) -> Worth:
        """Return the cost of something and the gain without it; see :class:`Without`.

        Waits of the training thread for a processor are part of neither, nor of the steps. They are taken
        from the time given, unless ``queued`` is false because none lies in it.
        """
        worth = self._worth(host, device, device_share, waits)
        mine = (host or {}).get(self.lane)
        return worth if mine is None or self.has_device or not queued else self._without_queue(worth, mine)

    def whole(self, spans: Spans, *, queued: bool = True) -> Worth:
        """Return the worth of some time if all of it would disappear: what runs on devices in it, too.

        Args:
            spans: The time.
            queued: As in ``worth``.
        """
        spans = spans.intersect(self.spans)
        time_ns = spans.measure_ns
        parts = spans.within(self.steps.start_ns, self.steps.end_ns) / time_ns if time_ns else None
        worth = Worth(time_ns, time_ns, "bound", parts)
        return worth if self.has_device or not queued else self._without_queue(worth, spans)

    def _worth(
        self, host: dict[int, Spans] | None, device: Ints | None, device_share: float, waits: Ints | None
    ) -> Worth:
        exposed = self._exposed(host, device)
        cost = exposed.measure_ns
        parts = exposed.within(self.steps.start_ns, self.steps.end_ns) / cost if cost else None
        if self.replay is None:
            return Worth(cost, int(cost * (device_share if device is not None else 1.0)), "bound", parts)
        nothing = np.zeros(0, np.int64)
        inside = {lane: spans.intersect(self.spans) for lane, spans in (host or {}).items()}
        left_out = Without(
            inside, nothing if device is None else device, device_share, nothing if waits is None else waits
        )
        gain = min(self.replay.gain_ns(left_out), self.wall_ns)
        if host is not None and not self.has_device and len(self.busy):
            # What XLA's own threads wait for, the graph does not know: what is handed to them earlier they
            # do earlier, until they never stand still.
            return Worth(cost, cost, "replay" if gain >= KNOWN * cost else "bound", parts)
        return Worth(cost if host or device is not None else gain, gain, "replay", parts)

    @cached_property
    def queued_ns(self) -> int | None:
        """How long the training thread waited for a processor while no device worked, None if unknown."""
        sampled = self.sampled
        if sampled is None or sampled.lane != self.lane or sampled.samples.queued_ns is None:
            return None
        return sampled.queued_ns(self.dry if self.has_device else self.spans)

    @property
    def own_ns(self) -> int:
        """Length of the steps without the training thread's waits for a processor, as far as known."""
        return self.wall_ns if self.has_device else max(self.wall_ns - (self.queued_ns or 0), 1)

    @property
    def queued_ratio(self) -> float:
        """The share of the steps in which the training thread waited for a processor, 0 if unknown."""
        return min((self.queued_ns or 0) / self.wall_ns, 1.0)

    @cached_property
    def held_up(self) -> Spans:
        """Time of the steps in which the training thread waited for the interpreter, which another one had.

        It waits where it comes back from an operator, or from a wait for XLA's threads, so these are the
        longest gaps between operators, as long in all as it was held up.
        """
        sampled = self.sampled
        if sampled is None or sampled.lane != self.lane:
            return Spans.empty()
        within, kept_ns = sampled.held_up
        if not len(within):
            return within
        gaps = within.intersect(self.spans).minus(self.busy)
        if not len(self.executing):
            gaps = gaps.minus(rows_spans(self.trace, outermost(self.trace, self.operators)))
        order = np.argsort(gaps.start - gaps.end, kind="stable")
        share = within.intersect(self.spans).measure_ns / within.measure_ns
        length = (gaps.end - gaps.start)[order]
        left = np.clip(round(share * kept_ns) - (np.cumsum(length) - length), 0, length)
        return Spans.of(gaps.end[order] - left, gaps.end[order])

    @cached_property
    def holders(self) -> list[tuple[str, Share | None, int]]:
        """Threads of the program that held the interpreter, most time first; none if it was mostly ours."""
        if self.sampled is None or self.sampled.lane != self.lane:
            return []
        every = self.sampled.holders(self.sampled.held_up[0])
        # Our own threads hold it for what the capture itself costs.
        mine = [one for one in every if not one[0].startswith(OUR_THREADS)]
        return mine if 2 * sum(ns for *_, ns in mine) > sum(ns for *_, ns in every) else []

    def own_lengths(self, start: Ints, end: Ints) -> Ints:
        """Return how long stretches are without the thread's waits for a processor or the interpreter."""
        length: Ints = np.asarray(end - start) - self.held_up.within(start, end)
        if self.has_device or not self.queued_ns or self.sampled is None:
            return length
        own: Ints = np.maximum(length - self.sampled.queued_within(start, end), 0)
        return own

    def kept_ns(self, spans: Spans) -> int:
        """Return for how much of some time the thread waited for a processor or for the interpreter."""
        if self.sampled is None:
            return 0
        time_ns = self.sampled.queued_ns(spans) + spans.intersect(self.held_up).measure_ns
        return min(time_ns, spans.measure_ns)

    def _without_queue(self, worth: Worth, spans: Spans) -> Worth:
        """Return a worth without the part in which the thread waited for a processor or the interpreter.

        While others had all processors, or the interpreter, it could not run: no cost of the code there.
        """
        if self.sampled is None or self.sampled.lane != self.lane:
            return worth
        ran = 1 - self.kept_ns(spans.intersect(self.spans)) / max(spans.measure_ns, 1)
        cost, gain = round(worth.cost_ns * ran), round(worth.gain_ns * ran)
        return replace(worth, cost_ns=min(cost, self.own_ns), gain_ns=min(gain, self.own_ns))

    def but_one(
        self, worth: Worth, pieces: float, parts: Ints | None = None, spans: Spans | None = None
    ) -> Worth:
        """Return a worth with one of the pieces of each step left: one piece does the work of all of them.

        Every step has such pieces, so the median step tells; a step in which something held them up does not.

        Args:
            worth: The worth of all pieces.
            pieces: Their number in all steps.
            parts: Their time in each step without waits for a processor, None if devices run them.
            spans: Their time as recorded, if ``parts`` leaves out what held up some of them: the steps that
                they are compared with have to do without it, too.
        """
        left = 1 - min(self.count / max(pieces, 1), 1.0)
        if parts is None or self.has_device or not worth.cost_ns:
            return replace(worth, gain_ns=round(worth.gain_ns * left))
        whole = self.own_parts(self.spans)
        if spans is not None:
            whole = np.maximum(whole - self.own_parts(spans), 0) + parts
        # Waits for the interpreter remain, unless it is held by the recording, which is in no training.
        ran = self.own_ns - (self.held_up.measure_ns if self.holders else 0)
        usual = float(np.median(parts / np.maximum(whole, 1))) * ran / worth.cost_ns
        return replace(
            worth,
            cost_ns=min(round(worth.cost_ns * usual), self.own_ns),
            gain_ns=min(round(worth.gain_ns * left * usual), self.own_ns),
            steps=parts / max(parts.sum(), 1),
        )

    def own_parts(self, spans: Spans) -> Ints:
        """Return how much of some time each step has, without the thread's waits for a processor."""
        inside = [spans.intersect(step) for step in self._each_step]
        return np.array([int(self.own_lengths(one.start, one.end).sum()) for one in inside], np.int64)

    @cached_property
    def _each_step(self) -> list[Spans]:
        times = zip(self.steps.start_ns.tolist(), self.steps.end_ns.tolist(), strict=True)
        return [Spans.window(start, end) for start, end in times]

    def _exposed(self, host: dict[int, Spans] | None, device: Ints | None) -> Spans:
        exposed = Spans.empty().union(*(host or {}).values()).intersect(self.dry)
        if device is not None and len(device):
            others = np.setdiff1d(self.device_rows, device)
            alone = rows_spans(self.trace, device).minus(rows_spans(self.trace, others))
            exposed = exposed.union(alone.intersect(self.spans))
        return exposed


def outermost(trace: Trace, rows: Ints) -> Ints:
    """Return those of one lane's rows, in order of time, that lie in none of the others."""
    if not len(rows):
        return rows
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(trace.end_ns[rows])[:-1]))
    outer: Ints = rows[trace.start_ns[rows] >= reached]
    return outer


def _main_lane(trace: Trace, rank: int) -> int:
    """Return the thread that runs the steps, else the one with most time in frames."""
    steps = trace.steps.row[(trace.steps.rank == rank) & (trace.steps.row >= 0)]
    if len(steps) and trace.device[steps[0]] < 0:
        return int(trace.lane[steps[0]])
    frames = np.flatnonzero((trace.rank == rank) & (trace.kind == Kind.PYTHON_FRAME))
    if not len(frames):
        return -1
    return int(np.argmax(np.bincount(trace.lane[frames], weights=trace.self_ns[frames])))
