"""The change log of a run: what changed, when, and in which order, over all of its series and events.

Changes whose time of onset may be the same form a group. Within a group, settings and restarts come before
losses, and losses before evaluations: a cause is recorded before its consequences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk
from stepscope.health.facts import CHANCE, SCALES, Change, Facts, Kind, around
from stepscope.health.finding import plain
from stepscope.health.restarts import STEADY
from stepscope.health.ring import median
from stepscope.health.series import Stream, stream_of
from stepscope.health.spikes import FAR, Spikes
from stepscope.health.spikes import repeated as repeated_marks
from stepscope.names.kinds import measure_of, title_and_unit
from stepscope.names.roles import MEASURED
from stepscope.names.splits import JudgedSplit
from stepscope.text import levels, number

Source = Literal["attempt", "rank", "setting", "code", "series", "capture", "finding", "checkpoint"]

SETTINGS = ("learning_rate", "setting", "loss_scale")
"""Roles whose values somebody or a schedule sets: they have no noise."""
MAIN = ("loss", "part_loss", "metric", "reward", "gradient_norm", "step_time", "data_wait", "memory")
"""Roles by which a run is judged."""
MAIN_SHARE = 0.8
"""Share of the chance of a false change that goes to main series: there are few, and they matter."""
LAG = 2 * SCALES[0]
"""Points of the densest series by which a consequence may be dated after its cause: twice the shortest line
that dates a change."""
SET_RATIO = 1.25
"""Factor between two values of a setting that is a change and no part of a smooth schedule."""
REPEATS = 4
"""Changes of one series at equal distances, or settings that change again in the same direction, that are one
fact."""


@dataclass(frozen=True, eq=False)
class RecordedSeries:
    """A series as the rules and the change log take it.

    Attributes:
        step: Integers, in recorded order.
        value: Numbers, of any kind.
        wall: Seconds since the epoch.
        rank: The rank that recorded it; None if unknown or if there is only one.
        run: Name of the run, or part of a run, that it belongs to.
        split: Of the run, for a tag that names none.
    """

    tag: str
    step: NDArray[Any]
    value: NDArray[Any]
    wall: NDArray[Any]
    rank: int | None = None
    run: str = ""
    split: JudgedSplit | None = None


@dataclass(frozen=True)
class Event:
    """Something that happened at one time: an attempt began, a rank was lost, a finding opened.

    Attributes:
        begins: Whether nothing of the run was recorded for a while before it.
    """

    source: Source
    text: str
    step: int
    wall: float
    begins: bool = False


@dataclass(frozen=True)
class LoggedChange:
    """One line of the change log.

    Attributes:
        source: Where it is from.
        tag: The series; empty for an event.
        role: The meaning of the series; empty if its name has none.
        text: One sentence without its step.
        change: The fact.
        main: Whether the run is judged by such a series, or it is a setting or an event.
    """

    source: Source
    tag: str
    role: str
    rank: int | None
    run: str
    text: str
    change: Change
    main: bool

    @property
    def place(self) -> int:
        """Its place among changes of one time: causes first, then losses and the like, then evaluations."""
        if self.source in ("attempt", "rank", "setting", "code"):
            return 0
        if self.source == "series":
            return 3 if not self.main else 2 if self.role == "metric" else 1
        return 4

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        facts = asdict(self)
        change = facts.pop("change")
        return {name: plain(value) for name, value in {**facts, **change}.items()}


@dataclass(frozen=True)
class ChangeGroup:
    """Changes whose onset may be the same.

    Attributes:
        changes: Causes first.
    """

    changes: tuple[LoggedChange, ...]

    @property
    def first_step(self) -> int:
        """First step at which it may have begun."""
        return self._leader.change.first_step

    @property
    def last_step(self) -> int:
        """Last such step."""
        return self._leader.change.last_step

    @property
    def wall(self) -> float:
        """When its first line is certain, seconds since the epoch."""
        return self._leader.change.wall

    @property
    def main(self) -> bool:
        """Whether it holds more than changes of side series."""
        return any(change.main for change in self.changes)

    @property
    def _leader(self) -> LoggedChange:
        return self.changes[0]

    @property
    def text(self) -> str:
        """Return it as a sentence, each change with its own onset if that differs from the first one's."""
        parts = [f"step {steps_of(self._leader.change)}: {self._leader.text}"]
        for logged in self.changes[1:]:
            same = logged.change.first_step == self.first_step and logged.change.last_step == self.last_step
            parts.append(logged.text if same else f"{logged.text} (step {steps_of(logged.change)})")
        return "; ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "first_step": self.first_step,
            "last_step": self.last_step,
            "wall": plain(self.wall),
            "main": self.main,
            "text": self.text,
            "changes": [change.as_dict() for change in self.changes],
        }


class Recurring(NamedTuple):
    """A change, how often it came, and the step by which it came last, or by which a slow one is over."""

    change: Change
    times: int
    last_step: int


def steps_of(change: Change) -> str:
    """Return the steps between which a change began."""
    first, last = change.first_step, change.last_step
    return f"{first:,}" if first >= last else f"{first:,} to {last:,}"


def change_log(series: Iterable[RecordedSeries], events: Iterable[Event] = ()) -> list[ChangeGroup]:
    """Return all changes of a run, in groups, in the order of time.

    Limits are those of a chance of 0.1 % in a run of plain noise, of which main series share four fifths.

    Args:
        series: All that the run recorded; points of later attempts follow those of earlier ones.
        events: What happened besides.
    """
    known: list[tuple[Stream, Facts, RecordedSeries]] = []
    for column in series:
        stream = stream_of(column.tag, rank=column.rank, run=column.run, split=column.split)
        if stream is not None and len(column.step) and not _is_extreme(column.tag):
            facts = Facts()
            facts.take(column.step, column.value, column.wall)
            known.append((stream, facts, column))
    until = max((facts.last_wall for _, facts, _ in known), default=math.inf)
    until_step = max((facts.last_step for _, facts, _ in known), default=math.inf)
    main = sum(stream.role in MAIN for stream, _, _ in known)
    chances = {
        True: CHANCE * MAIN_SHARE / max(main, 1),
        False: CHANCE * (1 - MAIN_SHARE) / max(len(known) - main, 1),
    }
    events = list(events)
    begun = [event.wall for event in events if event.source == "attempt" and event.begins]
    logged = [_of_event(event) for event in events if event.source != "checkpoint"]
    for stream, facts, columns in known:
        changes = (
            set_changes(facts)
            if stream.role in SETTINGS
            else repeated(
                change
                for change in facts.changes(chances[stream.role in MAIN], until=until, until_step=until_step)
                if not _is_progress(stream, change)
            )
        )
        if (again := _comes_again(stream, columns)) is not None:
            changes = [*changes, again]
        logged += [
            _of_series(stream, change._replace(change=_since_attempt(change.change, begun)))
            for change in changes
        ]
    saved = [_of_event(event) for event in events if event.source == "checkpoint"]
    return [
        _with_way_back(group, saved)
        for group in grouped(logged, LAG * _spacing([(stream, facts) for stream, facts, _ in known]))
    ]


def _comes_again(stream: Stream, columns: RecordedSeries) -> Recurring | None:
    """Return single values far above the others that come again at equal distances."""
    if stream.role not in ("loss", "gradient_norm") or stream.split == "eval":
        return None
    tail = Spikes(FAR)
    walls = np.asarray(columns.wall, np.float64)
    tail.take(Chunk(stream, np.asarray(columns.step), np.asarray(columns.value, np.float64), walls))
    marks = repeated_marks(tail.marks)
    if marks is None:
        return None
    first = marks[0]
    change = Change(
        "jump", first.step, first.step, first.wall, first.wall, first.middle, first.value, lasts=False
    )
    return Recurring(change, len(marks), marks[-1].step)


def _since_attempt(change: Change, begun: Sequence[float]) -> Change:
    """Return a change that lies between two attempts as of the second one: it did not happen in the pause."""
    within = [wall for wall in begun if change.first_wall < wall <= change.wall]
    return replace(change, first_wall=max(within)) if within else change


def _with_way_back(group: ChangeGroup, saved: Sequence[LoggedChange]) -> ChangeGroup:
    """Return a group in which main series changed with the last checkpoint from before it."""
    begins = min(logged.change.first_wall for logged in group.changes)
    before = [earlier for earlier in saved if earlier.change.wall <= begins]
    if not before or not any(logged.main and logged.source == "series" for logged in group.changes):
        return group
    return ChangeGroup((*group.changes, max(before, key=lambda saving: saving.change.wall)))


def set_changes(facts: Facts) -> list[Recurring]:
    """Return the changes of a setting; those in the same direction in a row are one.

    A value that stood still before and stands still after was set, by whatever amount, unless that happens
    all the time. A value that moves at each point is a schedule. Of that it is told where it begins and where
    it ends, and where it goes further at once than around it, by a factor if it keeps its sign.
    """
    (steps, values), walls = facts.curve, facts.walls
    apart = np.abs(np.diff(values))
    if not (apart > 0).any():
        return []
    with np.errstate(all="ignore"):
        ratio = np.maximum(values[:-1] / values[1:], values[1:] / values[:-1])
    far = (apart > 4 * around(apart)) & ~(ratio <= SET_RATIO)
    moves = np.concatenate([[False], apart > 0, [False]])
    begins = np.flatnonzero(moves[1:] & ~moves[:-1])
    ends = np.flatnonzero(moves[:-1] & ~moves[1:]) - 1
    # Of means of several points, one may hold some of before a change and some of after it.
    was_set = ends - begins < (2 if facts.width > 1 else 1)
    rare = int(was_set.sum()) * STEADY <= len(values)
    marks: list[tuple[Kind, int, int]] = []
    for begin, end, one in zip(begins.tolist(), ends.tolist(), was_set.tolist(), strict=True):
        inside = np.flatnonzero(far[begin : end + 1]) + begin
        if one:
            marks += [("jump", begin, end)] if rare or len(inside) else []
            continue
        marks += [("jump", at, at) for at in inside.tolist()]
        before = begin - int(ends[ends < begin].max(initial=-1)) - 1
        after = int(begins[begins > end].min(initial=len(apart))) - end - 1
        if end - begin >= LAG and before >= LAG:
            marks.append(("drift", begin, end))
        if end - begin >= LAG and after >= LAG:
            marks.append(("constant", end, end))
    changes: list[Recurring] = []
    for kind, begin, end in sorted(marks, key=lambda mark: mark[1]):
        low, high = float(values[begin]), float(values[end + 1])
        last = int(steps[begin + 1])
        first = last if kind == "constant" else min(int(steps[begin]) + 1, last)
        change = Change(kind, first, last, float(walls[begin]), float(walls[begin + 1]), low, high)
        if changes and kind == changes[-1].change.kind == "jump":
            earlier, times, _ = changes[-1]
            if ((earlier.after or 0.0) > (earlier.before or 0.0)) == (high > low):
                changes[-1] = Recurring(replace(earlier, after=high), times + 1, last)
                continue
        is_over = kind == "drift" and end + 2 < len(steps)
        changes.append(Recurring(change, 1, int(steps[end + 1]) if is_over else last))
    return changes


def _is_progress(stream: Stream, change: Change) -> bool:
    """Return whether a series moves slowly, and the way that it moves while a model learns."""
    if change.kind != "drift" or stream.role not in MAIN or change.before is None or change.after is None:
        return False
    falls = stream.role != "reward" and stream.lower_is_better is not False
    return falls == (change.after < change.before)


def repeated(changes: Iterable[Change]) -> list[Recurring]:
    """Return changes, of which those that come again at equal distances are one."""
    changes = list(changes)
    jumps = [change for change in changes if change.kind == "jump"]
    rises = [change for change in jumps if (change.after or 0) > (change.before or 0)]
    counts: list[Recurring] = []
    left = list(changes)
    for same in (rises, [change for change in jumps if change not in rises]):
        apart = np.diff([change.last_step for change in same])
        if len(same) >= REPEATS and float(np.ptp(apart)) <= 0.2 * median(apart):
            counts.append(Recurring(same[0], len(same), same[-1].last_step))
            left = [change for change in left if change not in same]
    counters = [change for change in left if change.kind == "counter"]
    if len(counters) >= REPEATS:
        counts.append(Recurring(counters[0], len(counters), counters[-1].last_step))
        left = [change for change in left if change.kind != "counter"]
    counts += [Recurring(change, 1, change.last_step) for change in left]
    return sorted(counts, key=lambda count: count.change.wall)


def grouped(logged: Iterable[LoggedChange], lag_s: float) -> list[ChangeGroup]:
    """Return changes in groups: those whose time of onset may be one, or follows it closely.

    Groups are the fewest that are possible, by stabbing: all intervals of a group hold one time. A chain of
    intervals of which each overlaps only with the next one is not one group.

    Args:
        logged: In any order.
        lag_s: Seconds by which a consequence may be dated after its cause.
    """
    waiting = sorted(
        logged, key=lambda change: (change.change.wall, change.place, change.tag, change.rank or 0)
    )
    groups: list[ChangeGroup] = []
    while waiting:
        first, *others = waiting
        end = first.change.wall + lag_s
        inside = [first, *(other for other in others if other.change.first_wall <= end)]
        waiting = [other for other in others if not other.change.first_wall <= end]
        if any(change.source == "attempt" for change in inside):  # which says that steps start over
            inside = [change for change in inside if change.change.kind != "counter"]
        inside.sort(key=lambda change: (change.place, change.change.wall, change.tag, change.rank or 0))
        groups.append(ChangeGroup(tuple(inside)))
    return groups


def only_in(groups: Sequence[ChangeGroup], others: Sequence[ChangeGroup]) -> list[ChangeGroup]:
    """Return what changed in one run and not in another: no change of the same series in the same direction.

    Args:
        groups: Of the run.
        others: Of the other run. Its steps may differ; the order and the direction of changes count.
    """
    left = Counter(_likeness(change) for group in others for change in group.changes)
    unmatched = []
    for group in groups:
        only: list[LoggedChange] = []
        for change in group.changes:
            like = _likeness(change)
            if left[like]:
                left[like] -= 1
            elif change.source != "checkpoint" or only:
                only.append(change)
        if only:
            unmatched.append(ChangeGroup(tuple(only)))
    return unmatched


def _likeness(logged: LoggedChange) -> tuple[str, str, str, bool]:
    change = logged.change
    rises = change.before is not None and change.after is not None and change.after > change.before
    return logged.source, logged.tag or logged.text, change.kind, rises


def _is_extreme(tag: str) -> bool:
    """Return whether a series is the smallest or largest value of a layer: a statistic of outliers."""
    return tag.startswith(MEASURED) and tag.rsplit("/", 1)[-1] in ("min", "max", "minimum", "maximum")


def _spacing(known: Sequence[tuple[Stream, Facts]]) -> float:
    """Return the seconds between two points of the densest series that the run is judged by."""
    spans = [
        (facts.last_wall - facts.first_wall) / (facts.count - 1)
        for stream, facts in known
        if facts.count > 1 and stream.role in MAIN
    ]
    return min((span for span in spans if span > 0), default=0.0)


def _of_event(event: Event) -> LoggedChange:
    change = Change("jump", event.step, event.step, event.wall, event.wall)
    main = event.source not in ("capture", "checkpoint")
    return LoggedChange(event.source, "", "", None, "", event.text, change, main)


def _of_series(stream: Stream, recurring: Recurring) -> LoggedChange:
    change = recurring.change
    setting = stream.role in SETTINGS
    name = stream.tag if stream.rank is None else f"{stream.tag} of rank {stream.rank}"
    text = f"{name} {_told(recurring, title_and_unit(stream.tag)[1], setting=setting)}"
    main = setting or stream.role in MAIN or change.kind == "not finite"
    source: Source = "setting" if setting else "series"
    role = "metric" if stream.split == "eval" and stream.role in ("loss", "part_loss") else stream.role
    return LoggedChange(
        source, stream.tag, "" if role == "other" else role, stream.rank, stream.run, text, change, main
    )


def _told(recurring: Recurring, unit: str | None, *, setting: bool) -> str:
    """Return the words for a change of values in a unit."""
    change, times, last = recurring
    if change.kind == "not finite":
        return "is not finite" if change.lasts else "was not finite for a while"
    if change.kind == "finite again":
        return "is finite again"
    if change.kind == "stopped":
        return "stops: it has no later points"
    if change.kind == "counter":
        again = f", the first of {times} times" if times > 1 else ""
        return f"starts over from step {change.before:,.0f}{again}"
    values = change.before or 0.0, change.after or 0.0
    measure = measure_of(unit, max(map(abs, values)))
    before, after = levels(values[0] * measure.factor, values[1] * measure.factor)
    stays = before == after
    after += "" if measure.unit in ("", "/s") else f" {measure.unit}"
    if change.kind == "constant":
        return f"stands still at {after}"
    if stays:
        return f"moves by {number(change.size)} times its noise, and its level stays {after}"
    if change.kind == "drift":
        way = "rises" if (change.after or 0) > (change.before or 0) else "falls"
        until = f"until step {last:,}" if last > change.last_step else "from here on"
        return f"{way} {until}, from {before} to {after}"
    if setting:
        often = f", changed {times} times from step {change.last_step:,} to step {last:,}"
        return f"{before} → {after}" + (often if times > 1 else "")
    again = f", the first of {times} times at equal distances, the last at step {last:,}" if times > 1 else ""
    return f"{before} → {after}{again}" + ("" if change.lasts or times > 1 else ", and comes back")
