"""The answers of a rule: a finding with its evidence, or an abstention that names the missing data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analyze.advise.waited import Waited, Worth
from stepscope.analyze.breakdown import Breakdown, breakdown_of
from stepscope.analyze.dependencies import Graphs
from stepscope.analyze.memory import DeviceMemory, memory
from stepscope.analyze.views.measure import Measures, measure
from stepscope.attribute.activity import Activities
from stepscope.attribute.sampled import Sampled
from stepscope.attribute.source_lines import Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.step_tree import StepTree, step_tree
from stepscope.attribute.windows import Windows, ranks, windows
from stepscope.health.worth import WORTH as WORTH  # the rules take it from here
from stepscope.text import most, readable, share, time
from stepscope.trace.sampled import load_samples

if TYPE_CHECKING:
    from stepscope.trace.model import Trace
    from stepscope.trace.tfprof import Profile

SEVERITIES = ("high", "medium", "low", "info")
ONE_RUN_EACH = ("timeline", "step_stats", "tfprof")
"""Formats of TensorFlow's sessions, with one trace per run: saving it takes longer than the run."""


@dataclass(frozen=True)
class Finding:
    """Something slow or wrong.

    Attributes:
        rule: Its id, such as ``input-bound``.
        severity: One of :data:`SEVERITIES`.
        summary: One sentence with the number that matters.
        evidence: Numbers, and places: JSON types; times in ns, ratios 0 to 1.
        threshold: The limits that the evidence passed.
        action: The remedy.
        cost_ns: Time of a step in which nothing else happened; None if it costs no time.
        cost_ratio: That as a share of the step.
        gain_ns: How much shorter a step would be without it.
        gain_ratio: That as a share of the step.
        gain_range_ns: The gain of a step that gains little, and of one that gains much; equal if unknown.
        gain_from: ``replay`` or ``bound``, see :class:`~stepscope.analyze.advise.waited.Worth`; ``ranks`` if
            the steps of all ranks were replayed; empty without.
        place: ``rank``, ``host``, ``file``, ``line``, ``function``, as far as known.
        chain: Its effects or causes, as sentences, the symptom first.
        events: The longest events behind it: ``row``, ``name``, ``rank``, ``start_ns``, ``duration_ns``.
        command: A command that shows it, or that records the missing data.
        withdrawn: The condition under which this would no longer be reported.
        short: The sentence without the time that the change leaves; empty if it tells none. Not in JSON.
        spans: The time of the thread that runs the steps that it is about, None if that is not known; only
            for joining it with others.
    """

    rule: str
    severity: str
    summary: str
    evidence: dict[str, Any]
    threshold: dict[str, float]
    action: str
    cost_ns: int | None = None
    cost_ratio: float | None = None
    gain_ns: int | None = None
    gain_ratio: float | None = None
    gain_from: str = ""
    gain_range_ns: tuple[int, int] = (0, 0)
    place: dict[str, Any] = field(default_factory=dict)
    chain: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    command: str = ""
    withdrawn: str = ""
    short: str = field(default="", compare=False)
    spans: Spans | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON types."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.compare}

    @property
    def evidence_lines(self) -> list[str]:
        """The evidence for people: numbers on one line, then each list."""
        plain = [
            readable(name, value) for name, value in self.evidence.items() if not isinstance(value, list)
        ]
        lines = [", ".join(plain)] if plain else []
        for name, value in self.evidence.items():
            if isinstance(value, list) and value:
                lines.append(f"{name.replace('_', ' ')}:")
                lines += [f"  {line}" for entry in value for line in _entry(entry).splitlines()]
        return lines

    @property
    def gain_text(self) -> str:
        """Cost and gain for people, empty if it costs no time."""
        if self.cost_ns is None or self.gain_ns is None:
            return ""
        unit = "a step" if self.evidence.get("steps") else "of the recording"
        cost = f"{time(self.cost_ns)} {unit} ({share(self.cost_ratio or 0)})"
        return f"{cost}; saves {self.estimate_text}"

    @property
    def estimate_text(self) -> str:
        """The gain with its range, for people; empty if it is not known. A bound is said to be one."""
        if self.gain_ns is None:
            return ""
        low, high = map(time, self.gain_range_ns)
        varies = f", {low} to {high} in most steps" if low != high else ""
        most = "at most" if self.gain_from == "bound" else "about"
        if_so = ", if this rank were as fast as the median of the others" if self.gain_from == "ranks" else ""
        return f"{most} {time(self.gain_ns)} ({share(self.gain_ratio or 0)}){varies}{if_so}"


def _entry(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    # A name says what it is without being called "name".
    return ", ".join(str(value) if name == "name" else readable(name, value) for name, value in entry.items())


@dataclass(frozen=True)
class Abstention:
    """A rule that could not judge, and the data that it needs."""

    rule: str
    missing: str


class Abstain(Exception):  # noqa: N818  no error: a verdict that a rule leaves open
    """Raised by a rule that lacks data; the message names the missing data."""


@dataclass(frozen=True)
class Facts:
    """The facts that rules judge; shared inputs are computed once.

    Attributes:
        trace: The profile, if it has a timeline.
        profile: tfprof's own data, if the source is one of its.
        path: Path of the profile, for commands; by default the trace's first file.
        ranks: The ranks whose steps are judged; by default all.
    """

    trace: Trace | None = None
    profile: Profile | None = None
    path: str = ""
    ranks: tuple[int, ...] = ()

    @cached_property
    def timeline(self) -> Trace:
        """The trace.

        Raises:
            Abstain: There is none, or nothing in it took time.
        """
        if self.trace is None or not len(self.trace):
            raise Abstain("no timeline of events")
        if not self.trace.duration_ns.any():
            raise Abstain("no event has a duration")
        return self.trace

    @cached_property
    def measures(self) -> Measures:
        """The measures of each event."""
        return measure(self.timeline, tree=self.step_tree)

    @cached_property
    def step_tree(self) -> StepTree:
        """The event that each instant of the steps belongs to."""
        return step_tree(self.timeline)

    @cached_property
    def breakdown(self) -> Breakdown:
        """The breakdown of each step's time."""
        return breakdown_of(self.timeline, self.step_tree)

    @cached_property
    def sampled(self) -> dict[int, Sampled]:
        """Stacks that were sampled beside the profile, by rank."""
        return {rank: Sampled(samples) for rank, samples in load_samples(self.timeline).items()}

    @cached_property
    def activities(self) -> Activities:
        """The activities of the threads."""
        return Activities(self.timeline, self.sampled.values())

    @cached_property
    def graphs(self) -> Graphs:
        """The last event that each event waited for, by rank."""
        return Graphs(self.timeline)

    @cached_property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """Level and peak of every device's memory.

        Raises:
            EmptyTraceError: No allocations were recorded.
        """
        return memory(self.timeline)

    @cached_property
    def waited(self) -> list[Waited]:
        """The waits of each rank's steps; ranks without any work are left out.

        Raises:
            Abstain: No rank did anything, or the work of the steps ran after them.
        """
        trace = self.timeline
        every, working = windows(trace), []
        for rank in self.ranks or ranks(trace):
            mine = every.of_rank(rank)
            if not len(mine) or int((mine.end_ns - mine.start_ns).sum()) <= 0:
                continue
            made = self.graphs.of(rank)
            known, sampled = made if len(made.host) else None, self.sampled.get(rank)
            steps = _with_stacks(mine, sampled)
            working.append(Waited(trace, rank, steps, known, self.activities, sampled, mine))
        if not working:
            raise Abstain("no steps or events with a duration")
        if all(waited.only_dispatched for waited in working):
            raise Abstain(
                "the recorded steps only dispatch their work, which ran after all of them: wait for a result "
                "in each step"
            )
        return working

    def require(self, *features: str) -> Trace:
        """Return the trace if it recorded these features.

        Raises:
            Abstain: One was not; the message says why.
        """
        for feature in features:
            if feature not in self.timeline.recorded:
                from stepscope.trace.model import FEATURES

                reason = self.timeline.not_recorded.get(feature, "")
                raise Abstain(f"no {FEATURES[feature]}" + (f" ({reason})" if reason else ""))
        return self.timeline


def _with_stacks(steps: Windows, sampled: Sampled | None) -> Windows:
    """Return the steps of the captures that sampled stacks, if there are any, else all.

    Those of other captures would count as steps in which no code ran.
    """
    if sampled is None or not sampled.samples.steps:
        return steps
    return steps.where(np.isin(steps.number, list(sampled.samples.steps)))


Check = Callable[[Facts], Iterable[Finding]]
"""A rule: yields findings, or raises :class:`Abstain`."""


@dataclass(frozen=True)
class Case:
    """A cause on one rank: its worth there, with its evidence."""

    waited: Waited
    worth: Worth
    evidence: dict[str, Any]
    line: Share | None = None
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    chain: tuple[str, ...] = ()
    rule: str = ""
    spans: Spans | None = None

    def bounded(self, bound: bool) -> Case:
        """Return it with its gain as a bound, if it is one."""
        return replace(self, worth=replace(self.worth, how="bound")) if bound else self

    @property
    def ratio(self) -> float:
        """The gain as a share of the steps."""
        return self.worth.gain_ns / self.waited.own_ns

    @property
    def cost_ratio(self) -> float:
        """The cost as a share of the steps."""
        return self.worth.cost_ns / self.waited.own_ns

    @property
    def cost_text(self) -> str:
        """``25.8 ms of 36.6 ms a step (70%)``, and how much longer it is by waits for a processor."""
        spent = time(self.worth.cost_ns / self.waited.count)
        queued_ns = (self.waited.wall_ns - self.waited.own_ns) / self.waited.count
        queued = f"; {time(queued_ns)} more wait for a processor" if self._is_queued else ""
        return f"{spent} of {self.per_step(self.waited.own_ns)} ({most(self.cost_ratio)}{queued})"

    @property
    def cost(self) -> str:
        """The same with the line, if it is known."""
        return f"{self.cost_text}{self.where}"

    def per_step(self, ns: float) -> str:
        """Format a time per step; of the whole recording if no step was marked."""
        return f"{time(ns / self.waited.count)} {'a step' if self.waited.marked else 'of the recording'}"

    def left_text(self) -> str:
        """Return the time of a step without it, as ``a step takes about 10.8 ms``, or ``at best``."""
        about = "at best" if self.worth.how == "bound" else "about"
        left = time((self.waited.own_ns - self.worth.gain_ns) / self.waited.count)
        free = " on a free processor" if self._is_queued else ""
        return f"{'a step takes' if self.waited.marked else 'it takes'} {about} {left}{free}"

    @property
    def _is_queued(self) -> bool:
        """Whether a step reads longer with its waits for a processor, as other views show it."""
        return time(self.waited.own_ns / self.waited.count) != time(self.waited.wall_ns / self.waited.count)

    @property
    def where(self) -> str:
        """`` in train.py:31 fetch, mostly in np.sort``, empty if the line is not known."""
        if self.line is None:
            return ""
        return f" in {self.line.line}" + (f", mostly in {self.line.calls}" if self.line.calls else "")


def place_of(waited: Waited, line: Share | None) -> dict[str, Any]:
    """Return rank, host and line, as far as they are known."""
    place = place_of_rank(waited.trace, waited.rank)
    if line is not None:
        place |= {"file": line.line.file, "line": line.line.line, "function": line.line.function}
    return place


def place_of_rank(trace: Trace, rank: int, device: int | None = None) -> dict[str, Any]:
    """Return rank, host and device, as far as they are known."""
    place: dict[str, Any] = {"rank": rank}
    host = next((one.host for one in trace.sources if one.rank == rank), "")
    return place | ({"host": host} if host else {}) | ({} if device is None else {"device": device})


def first(lines: list[Share]) -> Share | None:
    """Return the line that has most of the time, None if none is known."""
    return lines[0] if lines else None


def lines_told(lines: list[Share], whole_ns: float) -> list[dict[str, Any]]:
    """Return the lines that account for enough of some time to be named."""
    named = [one for one in lines[:3] if one.time_ns >= _TOLD * whole_ns]
    return [{"name": str(one.line), "total_ns": one.time_ns} for one in named]


_TOLD = 0.05
_MOST_EVENTS = 5


def events_of(trace: Trace, rows: Ints) -> list[dict[str, Any]]:
    """Return the longest of these rows, as a page finds them."""
    longest = rows[np.argsort(-trace.duration_ns[rows], kind="stable")[:_MOST_EVENTS]] if len(rows) else rows
    return [
        {
            "row": int(row),
            "name": trace.name_of(int(row)),
            "rank": int(trace.rank[row]),
            "start_ns": int(trace.start_ns[row]),
            "duration_ns": int(trace.duration_ns[row]),
        }
        for row in longest
    ]


def longest(trace: Trace, rows: Any) -> list[dict[str, Any]]:
    """Return the names of these rows that took most time."""
    return [{"name": name, "total_ns": int(ns)} for name, ns in top(trace, rows, trace.duration_ns[rows])]


def most_frequent(trace: Trace, rows: Any) -> list[dict[str, Any]]:
    """Return the names that most of these rows have."""
    return [{"name": name, "calls": int(count)} for name, count in top(trace, rows, np.ones(len(rows)))]


def top(trace: Trace, rows: Any, amounts: Any, *, count: int = 3) -> list[tuple[str, float]]:
    """Return the names of these rows with the greatest sums of amounts, greatest first."""
    sums = np.bincount(trace.name[rows], weights=amounts, minlength=len(trace.strings))
    order = np.argsort(-sums, kind="stable")[:count]
    return [(str(trace.strings[int(number)]), float(sums[number])) for number in order if sums[number] > 0]


MOST_PLACES = 8


@dataclass(frozen=True)
class Places:
    """The ranks or devices at which one rule fires, as one finding: a thousand ranks are one problem.

    Attributes:
        worst: Evidence of the worst one.
        label: Its name, empty if there is only one place in the profile.
        others: ``affected`` and ``of``, and the next places with the number that matters.
    """

    worst: dict[str, Any]
    label: str
    others: dict[str, Any]


def gathered(places: list[dict[str, Any]], key: str, *, of: int, least: bool = False) -> Places:
    """Gather the places at which a rule fires.

    Args:
        places: Evidence of each, with ``rank`` and perhaps ``device``; at least one.
        key: The number that matters.
        of: Number of places examined.
        least: Whether the smallest number is the worst.
    """
    ordered = sorted(places, key=lambda place: place[key] if least else -place[key])
    names = [name for name in ("rank", "device") if name in ordered[0]]
    label = " ".join(f"{name} {ordered[0][name]}" for name in names) if of > 1 else ""
    others: dict[str, Any] = {}
    if of > 1:
        others = {"affected": len(ordered), "of": of}
        listed = ordered[1 : 1 + MOST_PLACES]
        others["next"] = [{name: place[name] for name in (*names, key)} for place in listed]
    return Places(ordered[0], f"{label}, the worst of {len(ordered)}: " if label else "", others)
