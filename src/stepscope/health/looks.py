"""Rules as rows over facts: when they look, what they see of a run, and at which place a finding opens."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import ceil, inf, nan
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk, StreamBatch, rank_order, stream_order
from stepscope.health.facts import CHANCE, Facts
from stepscope.health.finding import Finding, Severity
from stepscope.health.noise import standard_error
from stepscope.health.restarts import CHANGED, Restarts
from stepscope.health.ring import Floats, median
from stepscope.health.rule import At, Rule
from stepscope.health.series import Stream
from stepscope.health.spikes import Spikes
from stepscope.health.worth import severity_of
from stepscope.names.own import BACKWARD_LOSS
from stepscope.names.roles import is_accuracy, is_loss_by_kind
from stepscope.text import number

OFTEN = {"eval": 64, "train": 16, None: 16}
"""Points up to which rules look at each of them: evaluations are few."""
GROWTH = 1.25
"""Factor by which a longer series grows from one look to the next: what is noticed later than by a quarter of
the time that it took to happen is noticed in time."""
SERIES = CHANCE / 4
"""Chance of a false jump in one series: rows ask few of the series of a run for jumps."""
WARMS = 3
"""Points of a rate before a time, and after it, that show that it was rising then."""
FEWEST = 8
"""Points from which a trend can be clear: all of them rise by chance once in 40,000 times."""
NEVER = 1 << 62
"""Number of points that no series comes to."""
CHANCES = 1.5
"""Multiple of its accuracy, 1 / K, by which guessing among K classes may be right."""
NO_GAIN, NEARLY, GAINED = 16, 0.8, 0.05
"""Evaluations in which a score below ``NEARLY`` of the most possible should have gained something, and the
part of what it can gain that is something."""
BLOCK = 8
"""Points of a loss that are compared as one number."""
LEAST, WORSE = 0.01, 0.02
"""Share by which a series changes at least if it improves, and by which evaluations may be worse and hold."""
STILL = 3
"""Points of a series that show that it stays the same."""
COUNTS = ("activation_nonfinite", "gradient_nonfinite")
"""Roles of counts of values that are not finite, of which each above 0 is as bad as such a value."""


class Seen(NamedTuple):
    """A rule's view of the facts of a run.

    Attributes:
        text: One sentence with the number that matters.
        values: The numbers that show it.
        since_step: The step since which it holds.
        severity: By default the rule's, or by the cost if there is one.
        action: By default the rule's.
        at: Where it was noticed, by default at the newest point of the series.
        about: Distinguishes findings of one row.
        cost: Share of the run's time that is lost by it.
    """

    text: str
    values: dict[str, float]
    since_step: int
    severity: Severity | None = None
    action: str | None = None
    at: At | None = None
    about: str = ""
    cost: float | None = None


class Tail:
    """How many values of a series are how large, to three digits: what means of many do not tell.

    Args:
        skipped: First values, which do not count.
    """

    def __init__(self, skipped: int) -> None:
        self._left, self._counts = skipped, Counter[float]()

    def take(self, values: Floats) -> None:
        """Take further values; those that are not positive do not count."""
        values, self._left = values[self._left :], max(self._left - len(values), 0)
        values = values[np.isfinite(values) & (values > 0)]
        digit = 10.0 ** (2 - np.floor(np.log10(values)))
        rounded, counts = np.unique(np.round(values * digit) / digit, return_counts=True)
        self._counts.update(dict(zip(rounded.tolist(), counts.tolist(), strict=True)))

    @property
    def shape(self) -> tuple[Floats, NDArray[np.int64]]:
        """The values, the smallest first, and how many there are of each."""
        values = sorted(self._counts)
        return np.array(values), np.array([self._counts[value] for value in values], np.int64)


@dataclass
class Streak:
    """How many values in a row are finite, up to the newest one, and how many were not.

    Attributes:
        counts: Whether values are counts of what is not finite.
        length: Finite values in a row; those in a row that are not are negative.
        bad: How many of all values are not finite.
        longest: How many in a row were not, in the newest stretch of such values.
        first: Step, time and value of the first one of that stretch.
        last: The newest value.
    """

    counts: bool
    length: int = 0
    bad: int = 0
    longest: int = 0
    first: tuple[int, float, float] = 0, nan, nan
    last: float = nan

    def are_bad(self, values: Floats) -> NDArray[np.bool_]:
        """Return which values are not finite."""
        bad: NDArray[np.bool_] = ~(values <= 0) if self.counts else ~np.isfinite(values)
        return bad

    def lengths(self, values: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return ``length`` and ``bad`` as they will be after each of further values."""
        bad, place = self.are_bad(values), np.arange(len(values))
        if bad.all():  # as all values are once a layer has broken
            return -(place + 1 + max(-self.length, 0)), self.bad + place + 1
        begins = bad != np.concatenate([[self.length < 0], bad[:-1]])
        lengths = place - np.maximum.accumulate(np.where(begins, place, -abs(self.length))) + 1
        return np.where(bad, -lengths, lengths), self.bad + np.cumsum(bad)

    def take(self, chunk: Chunk) -> None:
        """Take further points."""
        if not len(chunk):
            return
        bad = np.flatnonzero(self.are_bad(chunk.values))
        if len(bad):
            lengths, bads = self.lengths(chunk.values)
            begun = int(bad[-1]) + int(lengths[bad[-1]]) + 1
            if begun >= 0:
                self.first = int(chunk.steps[begun]), float(chunk.walls[begun]), float(chunk.values[begun])
            self.longest, self.length, self.bad = -int(lengths[bad[-1]]), int(lengths[-1]), int(bads[-1])
        else:
            self.length = max(self.length, 0) + len(chunk)
        self.last = float(chunk.values[-1])

    def before(self, values: Floats) -> Floats:
        """Return the value before each of further values."""
        return np.concatenate([[self.last], values[:-1]])


@dataclass
class Known:
    """The facts of one series, up to the time of the present look.

    Attributes:
        stage: The facts since it began anew, with another fold, stage or task; else those of all of it.
        at: The newest point.
        begun: The number of points before the stage.
        next: The number of points at which rules look at it next.
        tail: Its values by size, or those beyond its tail, if a row asks for them.
        due: Numbers of finite values at which rows look because of its tail.
    """

    stream: Stream
    facts: Facts
    at: At
    next: int = 1
    tail: Tail | Spikes | None = None
    due: set[int] = field(default_factory=set)
    begun: int = 0
    stage: Facts = field(init=False)
    streak: Streak = field(init=False)
    is_open: bool = field(init=False)
    """Whether its points may tell what its name does not."""
    _chunk: Chunk | None = None
    _done: int = 0
    _cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.stage = self.facts
        self.streak = Streak(self.stream.role in COUNTS)
        self.is_open = self.stream.is_open

    def order(self) -> tuple[float, int, str, int]:
        """Return its place among series at their newest points: by time, step, tag and rank."""
        return self.at.wall, self.at.step, self.stream.tag, rank_order(self.stream)

    def follow(self, chunk: Chunk, cuts: tuple[int, ...]) -> None:
        """Hold further points; they count once a look asks for their time."""
        self._chunk, self._done, self._cuts = chunk, 0, cuts

    def advance(self, wall: float) -> None:
        """Take the points until a time."""
        chunk = self._chunk
        if chunk is None:
            return
        end = int(np.searchsorted(chunk.walls, wall, side="right"))
        while self._done < end:
            if self._done in self._cuts:
                self.stage = Facts()
            stop = min([end, *(cut for cut in self._cuts if cut > self._done)])
            part = chunk.part(slice(self._done, stop))
            for facts in (self.facts, self.stage)[: 1 if self.stage is self.facts else 2]:
                facts.take(part.steps, part.values, part.walls)
            self.streak.take(part)
            if isinstance(self.tail, Tail):
                self.tail.take(part.values)
            self.at, self._done = replace(At.row(part, -1), stream=self.stream), stop
        if end == len(chunk):
            self._chunk = None

    @property
    def comes(self) -> float:
        """The time of the next held point, or infinity."""
        return inf if self._chunk is None else float(self._chunk.walls[self._done])


class RunFacts:
    """The facts of all series of a run that rows ask for.

    Rows look at each series when it has certain numbers of points, in the order of time, and see of all other
    series the points until that time: the portions in which points come make no difference.

    Args:
        rows: The rules that look.
        restarts: Where series start over.
        taken_for: Returns a series with what its points show it to be, None if they show nothing.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        restarts: Restarts,
        taken_for: Callable[[Known, RunFacts], Stream | None],
    ) -> None:
        self._rows, self._restarts, self._taken_for = rows, restarts, taken_for
        self._leads: dict[Stream, list[Row]] = {}
        self._known: dict[Stream, Known | None] = {}
        """None for series that no row looks at."""
        self._of_role: dict[tuple[str, str], list[Known]] = {}
        self._now = -inf
        self._looks: list[tuple[float, tuple[str, str, int, str], Known]] = []
        """A heap of the looks of the present stretch of time."""
        self._waiting: defaultdict[Stream, dict[Stream, Known]] = defaultdict(dict)
        """For each series those that rows look at once it has a further point."""

    def take(self, batch: StreamBatch) -> None:
        """Take the points of a stretch of time, and let the rows look."""
        looks = self._looks
        for chunk in batch.chunks:
            known = self._of(chunk)
            if known is None:
                continue
            # A learning rate goes on where a setting changes; it starts over with its steps alone.
            of_rate = chunk.stream.role == "learning_rate"
            begins = self._restarts.cuts(chunk.stream)
            cuts = tuple(index for index, is_whole in begins if is_whole or not of_rate)
            known.follow(chunk, cuts)
            walls = dict.fromkeys(self._urgent(known, chunk))
            walls.update(_looks(known, chunk, cuts))
            walls.update(self._moments(known, chunk, cuts))
            looks += [(wall, stream_order(chunk.stream), known) for wall in walls]
            first = float(chunk.walls[0])
            looks += [(first, stream_order(s), k) for s, k in self._waiting.pop(known.stream, {}).items()]
        heapify(looks)
        while looks:
            wall, _, known = heappop(looks)
            self._now = wall
            known.advance(wall)
            self._take_for(known)
            for row in self._leads[known.stream]:
                row.judge(known, self)
        self._now = inf
        for chunk in batch.chunks:
            if (known := self._known[chunk.stream]) is not None:
                known.advance(inf)

    def finish(self) -> None:
        """Let the rows look at the end of what is recorded."""
        self._now = inf
        for known in list(filter(None, self._known.values())):
            self._take_for(known)
        for row in self._rows:
            row.ended = True
            for known in sorted(filter(None, self._known.values()), key=Known.order):
                if row in self._leads[known.stream]:
                    row.judge(known, self)
            row.ended = False

    def _of(self, chunk: Chunk) -> Known | None:
        stream = chunk.stream
        if stream in self._known:
            return self._known[stream]
        known = self._known[stream] = None
        if any(row.looks_at(stream) for row in self._rows):
            known = self._known[stream] = Known(stream, Facts(), At.row(chunk, 0))
            self._of_role.setdefault((stream.run, stream.role), []).append(known)
            self._leads[stream] = [row for row in self._rows if row.is_led_by(stream)]
            known.tail = next((tail for row in self._leads[stream] if (tail := row.tail())), None)
            if not any(row.looks_often for row in self._leads[stream]):
                known.next = FEWEST if known.is_open else NEVER
        return known

    def _take_for(self, known: Known) -> None:
        """Take a series for what its points show, once that is clear and no finding about it is open."""
        before = known.stream
        if not known.is_open or any(before in row.holding for row in self._leads[before]):
            return
        stream = self._taken_for(known, self)
        if stream is None:
            return
        self._of_role[before.run, before.role].remove(known)
        known.stream, known.at = stream, replace(known.at, stream=stream)
        known.is_open = stream.is_open
        self._of_role.setdefault((stream.run, stream.role), []).append(known)
        self._leads[stream] = [row for row in self._rows if row.is_led_by(stream)]

    def look_again(self, known: Known, other: Known) -> None:
        """Let the rows look at a series again at the next point of another one."""
        if other.comes < inf:
            heappush(self._looks, (other.comes, stream_order(known.stream), known))
        else:
            self._waiting[other.stream][known.stream] = known

    def _urgent(self, known: Known, chunk: Chunk) -> list[float]:
        """Return when points come that a row looks at once at."""
        urgent = (row.urgent(known, chunk.values) for row in self._leads[known.stream])
        places = {place for which in urgent if which is not False for place in np.flatnonzero(which).tolist()}
        at = sorted(places)
        if len(at) and known.next == NEVER:
            known.next = known.facts.count + at[0] + 2
        walls: list[float] = chunk.walls[at].tolist()
        return walls

    def _moments(self, known: Known, chunk: Chunk, cuts: tuple[int, ...]) -> dict[float, None]:
        """Return when rows look because of values beyond the tail of a series."""
        if not isinstance(known.tail, Spikes):
            return {}
        for begin, end in pairwise([0, *cuts, len(chunk)]):
            if begin in cuts:
                known.tail.begin()
            if known.tail.take(chunk.part(slice(begin, end))):
                known.due |= {place for row in self._leads[known.stream] for place in row.moments(known.tail)}
        places = known.facts.finite + np.cumsum(np.isfinite(chunk.values))
        due = [place for place in known.due if place <= places[-1]]
        known.due -= set(due)
        new = np.searchsorted(places, [place for place in due if place > known.facts.finite])
        return dict.fromkeys(chunk.walls[new].tolist())

    def of(self, run: str | None, *roles: str, split: str | None = None) -> Iterator[Known]:
        """Return what is known of the series of some roles, those of each in the order in which they began.

        Args:
            run: Name of the run, None for those of all its parts.
            roles: Of the series.
            split: "eval" for those of an evaluation, "train" for all others, None for both.
        """
        runs = dict.fromkeys(name for name, _ in self._of_role) if run is None else (run,)
        for known in [one for role in roles for name in runs for one in self._of_role.get((name, role), ())]:
            if split is None or (split == "eval") == (known.stream.split == "eval"):
                known.advance(self._now)
                if known.facts.count:
                    yield known

    def beside(self, known: Known, *roles: str) -> list[Known]:
        """Return what is known of the series of some roles of the same run and rank as a series."""
        stream = known.stream
        return [other for other in self.of(stream.run, *roles) if other.stream.rank == stream.rank]

    def constants(self, run: str, role: str) -> set[float]:
        """Return the values that series of a role have kept since their first points; none if one moves."""
        known = [one.facts for one in self.of(run, role)]
        still = [facts.only for facts in known if facts.only is not None]
        few = max((facts.count for facts in known), default=0) < STILL
        return set() if few or len(still) < len(known) else set(still)

    def learns(self, run: str, since: float, *, falls: bool = True) -> bool:
        """Return whether a training loss fell, or rose, after a time, more clearly than noise explains."""
        return any(improves(one.facts, since, falls=falls) for one in self.of(run, "loss", split="train"))

    def stands(self, run: str, since: float) -> bool:
        """Return whether a training loss goes on after a time, and none fell in the second half of that."""
        losses = [one.facts for one in self.of(run, "loss", split="train") if one.facts.last_wall > since]
        return bool(losses) and not any(improves(one, (since + one.last_wall) / 2) for one in losses)

    def weights_alone(self, run: str, since: float) -> bool:
        """Return whether several parts of the loss are recorded, and none rose after a time."""
        every = (one.facts for one in self.of(run, "part_loss", split="train"))
        parts = [one for one in every if one.first_wall < since < one.last_wall]
        return len(parts) > 1 and not any(improves(part, since, falls=False) for part in parts)

    def is_second(self, stream: Stream) -> bool:
        """Return whether a series is a loss only by its kind, and the run records one that is named so.

        The loss of backward passes is second, too, where the program gives its own nearly as often.
        """
        if stream.tag == BACKWARD_LOSS:
            every = {one.stream.tag: one.facts.count for one in self.of(stream.run, "loss", split="train")}
            return any(
                2 * count > every[BACKWARD_LOSS] for tag, count in every.items() if tag != BACKWARD_LOSS
            )
        return is_loss_by_kind(stream.tag) and any(
            other.stream.split == "train" and not is_loss_by_kind(other.stream.tag)
            for other in self.of(stream.run, "loss")
        )

    def holds(self, since: float) -> bool:
        """Return whether evaluations after a time are as good as just before it; False if none tells.

        Metrics decide if there are any: the loss of a classifier may rise while it is right as often, for
        instance when its inputs are perturbed more and more.
        """
        good: dict[str, bool] = {}
        for known in self.of(None, "metric", "loss", split="eval"):
            means, middle = known.facts.curve[1], int(np.searchsorted(known.facts.walls, since, side="right"))
            before, after = means[max(0, middle - 5) : middle], means[middle:]
            if known.stream.because or min(len(before), len(after)) < 2:
                continue
            usual = median(before)
            worse = (median(after) - usual) * (-1 if known.stream.lower_is_better is False else 1)
            role = known.stream.role
            good[role] = good.get(role, True) and worse <= max(float(np.ptp(before)), WORSE * abs(usual))
        return good.get("metric", good.get("loss", False))

    def rate(self, run: str, wall: float = inf) -> float | None:
        """Return the largest learning rate at a time, None if none is recorded."""
        every = [one.facts for one in self.of(run, "learning_rate")]
        if wall == inf:
            return largest(facts.last for facts in every)
        ends = (int(np.searchsorted(facts.walls, wall)) for facts in every)
        return largest(facts.curve[1][end - 1] for facts, end in zip(every, ends, strict=True) if end)

    def largest_rate(self, run: str) -> float | None:
        """Return the largest learning rate that the run had."""
        return largest(one.facts.most[0] for one in self.of(run, "learning_rate") if one.facts.finite)

    def rises_to(self, run: str, wall: float) -> float | None:
        """Return the learning rate at a time, if it was rising then, to twice as much; else None."""
        then, largest_ = self.rate(run, wall), self.largest_rate(run)
        for one in self.of(run, "learning_rate"):
            at = int(np.searchsorted(one.facts.walls, wall))
            before, after = one.facts.curve[1][max(at - WARMS, 0) : at], one.facts.curve[1][at : at + WARMS]
            if min(len(before), len(after)) == WARMS and (np.diff([*before, *after]) > 0).all():
                return then if then and largest_ and largest_ > 2 * then else None
        return None

    def rescheduled(self, run: str, since: float) -> bool:
        """Return whether a learning rate of the run changed after a time."""
        for one in self.of(run, "learning_rate"):
            rates = one.facts.curve[1][max(int(np.searchsorted(one.facts.walls, since)) - 1, 0) :]
            if len(rates) and rates.max() - rates.min() > CHANGED * abs(float(rates[0])):
                return True
        return False

    def waits(self, known: Known) -> Floats:
        """Return the share of the time of each kept mean in which its process waited for a processor.

        NaN where it is not known; a reading is of the time since the one before it.
        """
        walls, shares = self._waits(known)
        return np.asarray(np.append(shares, nan)[np.searchsorted(walls, known.facts.walls)])

    def waited(self, known: Known, soon: float) -> float:
        """Return the seconds since its first point in which a process may have waited for a processor.

        Args:
            known: A series of the process.
            soon: When a run that records waits has some; what no reading reaches counts whole until then.
        """
        (walls, shares), facts = self._waits(known), known.facts
        if not len(walls):
            return facts.last_wall - facts.first_wall if facts.last_wall < soon else 0.0
        edges = [facts.first_wall, *walls[walls > facts.first_wall], facts.last_wall]
        spans = np.append(shares[walls > facts.first_wall], 1.0)
        return float(np.diff(edges) @ spans)

    def _waits(self, known: Known) -> tuple[Floats, Floats]:
        every = (one.facts for one in self.beside(known, "cpu_wait"))
        first = next(every, Facts())
        return first.walls, np.clip(first.curve[1], 0.0, 1.0)

    def classifies(self) -> bool:
        """Return whether a metric of a classifier is recorded."""
        return any(is_accuracy(known.stream.tag) for known in self.of(None, "metric"))

    def gains(self) -> bool:
        """Return whether a metric or an evaluation loss has become better since the beginning."""
        every = [*self.of(None, "metric"), *self.of(None, "loss", split="eval")]
        named = (one for one in every if not one.stream.because)
        return any(improves(one.facts, falls=bool(one.stream.lower_is_better), rare=True) for one in named)

    def accuracies(self, run: str, guess: float = 0.0) -> list[tuple[str, float]]:
        """Return the accuracies of a run, or what is taken for one: each with its name and level from 0 to 1.

        Args:
            run: Its name.
            guess: If there are none, series whose names tell nothing count if they are at least half of this
                share and at most ``CHANCES`` times it.
        """
        named, taken, shares = [], [], []
        for known in self.of(run, "metric", "other"):
            stream, facts = known.stream, known.facts
            if not 0 <= facts.least[0] <= facts.most[0] <= 1:
                continue
            if is_accuracy(stream.tag):
                named.append(("the accuracy", facts.level))
            elif stream.because and stream.lower_is_better is False:
                taken.append((stream.tag, facts.level))
            elif known.is_open and guess / 2 <= facts.level <= CHANCES * guess:
                shares.append((stream.tag, facts.level))
        return named or taken or shares

    def evaluated(self, run: str, begin: float, end: float) -> int:
        """Return the most points of an evaluation between two times; a series with as many is of epochs."""
        every = (known.facts for known in self.of(run, "loss", "metric", split="eval"))
        counts = (int(((begin <= one.walls) & (one.walls <= end)).sum()) * one.width for one in every)
        return max(counts, default=0)

    def training_loss(self, run: str) -> Known | None:
        """Return the main training loss: the first one, of another part of the run if this part has none.

        A part of a loss that is the only one is all of it. So is the only error where there is no loss, if an
        evaluation beside it shows that it is of the training.
        """
        others = [other for other, role in self._of_role if role == "loss" and other != run]
        losses = (known for part in (run, *others) for known in self.of(part, "loss", split="train"))
        first = next(losses, None)
        if first is not None and first.stream.tag == BACKWARD_LOSS:
            first = next(losses, first)  # the program's own is what its evaluations are compared with
        if first is None:
            every = list(self.of(run, "part_loss", split="train"))
            if not every and any(self.of(run, "metric", "loss", split="eval")):
                every = [one for one in self.of(run, "metric", split="train") if one.stream.lower_is_better]
            first = every[0] if len(every) == 1 else None
        return first

    def lowered(self, known: Known) -> Known | None:
        """Return the loss that an evaluation is compared with: of the training, or of a set before its own.

        Of several parts without their sum it is the first. The loss of a backward pass may hold more than an
        evaluation measures.
        """
        run = known.stream.run
        losses = (*self.of(run, "part_loss", split="train"), *self.of(run, "loss", split="eval"))
        first = self.training_loss(run)
        if first is None or first.stream.tag == BACKWARD_LOSS:
            first = next(iter(losses), None)
        return None if first is known else first


def _looks(known: Known, chunk: Chunk, cuts: tuple[int, ...]) -> dict[float, None]:
    """Return the times at which rules look at a series, each once."""
    walls: dict[float, None] = {}
    before, often = known.facts.count, OFTEN[known.stream.split]
    for begin, end in pairwise([0, *cuts, len(chunk)]):
        if begin in cuts and known.next < NEVER:
            known.begun, known.next = before + begin, before + begin + 1
        while known.next <= before + end:
            walls[float(chunk.walls[known.next - before - 1])] = None
            own = known.next - known.begun
            known.next += max(1, ceil(own * GROWTH) - own if own >= often else 0)
    return walls


class Row(Rule):
    """A rule as a row over facts: which series, which fact against which reference, one sentence."""

    leads: ClassVar[tuple[str, ...]] = ()
    """The roles of the series that it judges; by default all that it looks at."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Roles of further series whose facts it asks for."""
    splits: ClassVar[tuple[str | None, ...] | None] = None
    """Which parts of the data it judges; None: all."""

    keeps_onset: ClassVar[bool] = False
    """Whether a finding keeps the step since which it held at first: later looks know less of it."""
    again: ClassVar[bool] = False
    """Whether it tells only what it sees at two looks that follow each other."""
    withdraws: ClassVar[bool] = False
    """Whether it says that something does not happen: once it has, its finding is for information."""
    looks_often: ClassVar[bool] = True
    """Whether it looks at certain numbers of points, and not only from the first urgent one on."""

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self.ended = False
        """Whether the run has ended, so that no more points come."""
        self.holding: dict[Stream, int] = {}
        """Series of which something was wrong at the last look, and the step since which it is."""
        self._about: dict[Stream, str] = {}
        self._before: dict[Stream, int] = {}
        """Number of points of a series at the first of the looks at which something was wrong."""

    @abstractmethod
    def see(self, known: Known, run: RunFacts) -> Seen | None:
        """Return what is wrong with a series; None if nothing is."""

    def tail(self) -> Tail | Spikes | None:
        """Return the tail that it asks for of a series; by default none."""
        return None

    def moments(self, tail: Spikes) -> list[int]:
        """Return the numbers of finite values at which it looks because of a tail."""
        return []

    def urgent(self, known: Known, values: Floats) -> NDArray[np.bool_] | Literal[False]:
        """Return which further points of a series it looks at once at; by default at none."""
        return False

    def looks_at(self, stream: Stream) -> bool:
        """Return whether it needs the facts of a series."""
        return stream.role in self.roles or stream.role in self.beside

    def is_led_by(self, stream: Stream) -> bool:
        """Return whether it judges a series."""
        return self._leads_role(stream.role) and self.looks_at(stream) and self.is_of(stream)

    def is_of(self, stream: Stream) -> bool:
        return self.splits is None or stream.split in self.splits or not self._leads_role(stream.role)

    def words_of(self, role: str) -> str:
        words = super().words_of(role)
        if self.splits != ("eval",) or not self._leads_role(role):
            return words
        return words.replace(", as train/", " of an evaluation, as eval/")

    def _leads_role(self, role: str) -> bool:
        return role in (self.leads or self.roles)

    def look(self, batch: StreamBatch) -> None:
        """Do nothing: the facts call ``judge`` when it is time to look."""

    def judge(self, known: Known, run: RunFacts) -> None:
        """Open a finding about a series, bring it up to date, or close it."""
        self.tell(known, self.see(known, run))

    def tell(self, known: Known, seen: Seen | None) -> None:
        """Open a finding about a series, bring it up to date, or close it if nothing is seen any more."""
        if seen is None:
            self._before.pop(known.stream, None)
            if self.holding.pop(known.stream, None) is not None:
                about = self._about.pop(known.stream)
                place = self._open.get((known.stream, about))
                self.close(known.at, about=about)
                if self.withdraws and place is not None:
                    self._put(place, replace(self.found[place], severity="info"))
            return
        if self.again and self._before.setdefault(known.stream, known.facts.count) == known.facts.count:
            return
        if self._about.get(known.stream, seen.about) != seen.about:
            self.close(known.at, about=self._about.pop(known.stream))
        at = seen.at or known.at
        onset = self.holding.get(known.stream) if self.keeps_onset else None
        since = self.holding[known.stream] = min(seen.since_step if onset is None else onset, at.step)
        at = replace(at, first_step=min(since, at.first_step))
        about = self._about.setdefault(known.stream, seen.about)
        grade = seen.severity if seen.cost is None else severity_of(seen.cost)
        self.open(at, seen.text, seen.values, grade, about=about, since_step=since, action=seen.action)

    def _renew(self, place: int, newest: Finding) -> None:
        """Bring the figures of an open finding up to date: they are of the time since its onset."""
        before = self.found[place]
        now = replace(before, since_step=min(newest.since, before.step), severity=newest.severity)
        self._put(place, replace(now, summary=newest.summary, values=newest.values, action=newest.action))


class AcrossSeries(Row):
    """A row that compares all series of a role with each other, such as the layers of a model.

    The first one of a role, a run and a rank leads: when it is looked at, all of them are.
    """

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._first: dict[tuple[str, int | None, str], Stream] = {}

    def is_led_by(self, stream: Stream) -> bool:
        """Return whether a series is the first of its run and rank."""
        leads = super().is_led_by(stream)
        return leads and self._first.setdefault((stream.run, stream.rank, stream.role), stream) is stream

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        """Return nothing: all series are seen together."""
        return None

    @abstractmethod
    def see_all(self, known: Known, run: RunFacts) -> dict[Stream, Seen]:
        """Return what is wrong with each series of the run and rank of one."""

    def judge(self, known: Known, run: RunFacts) -> None:
        """Open, renew and close findings about all series."""
        seen = self.see_all(known, run)
        every = run.beside(known, known.stream.role)
        told = [other for other in every if other.stream in seen or other.stream in self.holding]
        for other in sorted(told, key=Known.order):
            self.tell(other, seen.get(other.stream))


class AcrossLayers(AcrossSeries):
    """A row that compares layers at steps that all have, ``samples`` times in a row, as ``InARow`` does."""

    grouped = keeps_onset = True
    fewest_layers: ClassVar[int]

    @abstractmethod
    def counts(self, stream: Stream) -> bool:
        """Return whether a series is of a layer that is compared."""

    @abstractmethod
    def bad(self, layers: list[Known], values: Floats, run: RunFacts) -> NDArray[np.bool_]:
        """Return which values are bad, of the shape [layers, samples]."""

    @abstractmethod
    def told(self, layers: list[Known], at: int, values: Floats, run: RunFacts) -> Seen:
        """Return what is wrong with the layer of an index, given the values of all at one step."""

    def is_led_by(self, stream: Stream) -> bool:
        """Return whether a series is the first of a layer that is compared."""
        return stream.role in self.leads and self.counts(stream) and super().is_led_by(stream)

    def see_all(self, known: Known, run: RunFacts) -> dict[Stream, Seen]:
        """Compare the newest samples of all layers."""
        every = run.beside(known, known.stream.role)
        layers = [layer for layer in every if self.counts(layer.stream) and len(layer.facts.curve[0])]
        steps, count = known.facts.curve[0], self.limit("samples")
        # Within a step the first layer is recorded before the others.
        if len(steps) and min(layer.facts.last_step for layer in layers) < steps[-1]:
            steps = steps[:-1]
        if len(layers) < self.fewest_layers or len(steps) < count:
            return {}
        self.judged()
        recent = self.bad(layers, _values_at(layers, steps[-count:]), run)
        held = np.array([layer.stream in self.holding for layer in layers])
        wrong = np.flatnonzero(np.where(held, recent.any(axis=1), recent.all(axis=1))).tolist()
        seen: dict[Stream, Seen] = {}
        values = _values_at(layers, steps) if wrong else np.empty((0, 0))
        bad = self.bad(layers, values, run) if wrong else values.astype(bool)
        for at in wrong:
            view = self.told(layers, at, values[:, int(np.flatnonzero(bad[at])[-1])], run)
            seen[layers[at].stream] = view._replace(since_step=int(steps[since_index(bad[at])]))
        return seen


def _values_at(layers: list[Known], steps: NDArray[np.int64]) -> Floats:
    return np.array([at_steps(layer.facts, steps, 1) for layer in layers])


class InARow(Row):
    """A row on values beyond a limit, ``samples`` times in a row; over once ``calms`` in a row are not."""

    grouped = keeps_onset = True
    name: ClassVar[str]
    """Of the value in the evidence; ``{}`` stands for the role."""
    judges: ClassVar[tuple[Callable[[str | None], bool], ...]] = ()
    """A condition on the names of the layers that it judges."""

    def is_led_by(self, stream: Stream) -> bool:
        return super().is_led_by(stream) and all(holds(stream.layer) for holds in self.judges)

    @abstractmethod
    def bad(self, known: Known, values: Floats) -> NDArray[np.bool_]:
        """Return which values of a series are beyond the limit."""

    @abstractmethod
    def sentence(self, known: Known, value: float) -> str:
        """Return the sentence with a value."""

    def samples(self, known: Known) -> int:
        """Return how many it takes."""
        return self.limit("samples")

    def calms(self, known: Known) -> int:
        """Return how many in a row end it."""
        return self.samples(known)

    def curve(self, known: Known, run: RunFacts) -> tuple[NDArray[np.int64], Floats]:
        """Return the steps and means that count."""
        return known.facts.curve

    def excused(self, known: Known, since: int, run: RunFacts) -> bool:
        """Return whether something else shows that nothing is wrong, from a kept mean on."""
        return False

    def rank(self, value: float) -> Severity | None:
        """Return the severity by the value, None for the rule's."""
        return None

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        """Look at the newest values."""
        steps, means = self.curve(known, run)
        count = self.samples(known)
        if len(means) < count:
            return None
        self.judged()
        bad, holds = self.bad(known, means), known.stream in self.holding
        first = since_index(bad)
        if not (bad[-self.calms(known) :].any() if holds else bad[-count:].all()):
            return None
        if not holds and self.excused(known, first, run):
            return None
        value = float(means[np.flatnonzero(bad)[-1]])
        values = {self.name.format(known.stream.role): value}
        return Seen(self.sentence(known, value), values, int(steps[first]), self.rank(value))


# --- facts that several rows ask for -----------------------------------------------------------------------


def gained(known: Known) -> bool:
    """Return whether an evaluation gained part of what it could; true if that is little, or not known."""
    falls, facts = known.stream.lower_is_better, known.facts
    means = facts.curve[1]
    if falls is None or len(means) < NO_GAIN:
        return True
    begin, smooth = facts.first, medians_of_three(means)
    best = float(smooth.min() if falls else smooth.max())
    top = 1.0 if facts.most[0] <= 1 else 100.0 if facts.most[0] <= 100 else inf
    if falls or top == inf:
        return bool(abs(best - begin) >= GAINED * abs(begin))
    # Below 0 is a score that is worse than that of a constant, as a share of the variance is.
    return bool(begin > NEARLY * top or best - begin >= min(GAINED * (top - begin), abs(begin) / 2 or inf))


def largest(values: Iterable[float]) -> float | None:
    """Return the largest number; NaN if there are only those, None if there is nothing.

    Python's own ``max`` returns NaN if that comes first, so that the order of the series would matter.
    """
    known = list(values)
    return max((value for value in known if value == value), default=nan if known else None)


def improves(facts: Facts, since: float = -inf, *, falls: bool = True, rare: bool = False) -> bool:
    """Return whether values after a time are better than before it, more clearly than noise explains.

    Args:
        facts: Of a series.
        since: Where the stretch begins that is compared with what was before; minus infinity for the
            beginning.
        falls: Whether less is better.
        rare: Whether it comes rarely, as evaluations do.
    """
    # Blocks of so many points; those of a long series hold more.
    size, means = max((2 if rare else BLOCK) // facts.width, 1), facts.curve[1]
    whole = len(means) // size
    means, walls = (
        means[: whole * size].reshape(whole, size).mean(axis=1),
        facts.walls[size - 1 :: size][:whole],
    )
    begin = min(4, len(means) // 4) if since == -inf else int(np.searchsorted(walls[:whole], since))
    before, recent = means[max(0, begin - 8) : begin], means[begin:]
    if not len(before):
        before, recent = recent[:2], recent[2:]
    if not len(before) or len(recent) < 2:
        return False
    recent = recent[-8:]
    gain = float(before.mean() - recent.mean()) * (1 if falls else -1)
    # Two or less have the noise of the others.
    few = float(recent.std()) if rare and len(recent) > 2 else 0.0
    was, now = (few / len(one) ** 0.5 if len(one) < 3 else standard_error(one) for one in (before, recent))
    return gain > max(3 * float(np.hypot(was, now)), LEAST * abs(float(before.mean())))


def levels(facts: Facts, parts: int) -> Floats:
    """Return the medians of equal stretches of a series; empty if it has fewer kept means."""
    _, means = facts.curve
    if len(means) < parts:
        return np.empty(0)
    edges = np.linspace(0, len(means), parts + 1).astype(int)
    return np.array([median(means[a:b]) for a, b in pairwise(edges.tolist())])


def at_steps(facts: Facts, steps: NDArray[Any], few: int = 3) -> Floats:
    """Return a series near some steps: the median of its newest kept means up to each, at most ``few``.

    NaN if the series has no kept mean.
    """
    own, means = facts.curve
    if not len(means):
        return np.full(len(steps), np.nan)
    ends = np.searchsorted(own, steps, side="right")
    if few == 1:
        return np.asarray(means[np.maximum(ends - 1, 0)])
    return np.array([median(means[max(end - few, 0) : max(end, 1)]) for end in ends.tolist()])


def given_back(values: Floats, first: float) -> tuple[float, int]:
    """Return what was given back of a gain, times the share of the time for which it is gone.

    A gain that is lost for an eighth of a run costs as much as half of one that is lost for a quarter.

    Args:
        values: Equally far apart, the lower the better.
        first: Where the gain began.

    Returns:
        The cost, and the index of the best value; 0 without a gain.
    """
    best = int(values.argmin())
    gained = first - float(values[best])
    if not gained > 0:
        return 0.0, best
    lost = np.clip((values - values[best]) / gained, 0.0, 1.0)
    least = np.minimum.accumulate(lost[::-1])[::-1]
    return float((least * np.arange(len(values), 0, -1)).max()) / len(values), best


def medians_of_three(values: Floats) -> Floats:
    """Return the median of each value and its neighbours, at both ends of two, without a call for each."""
    if len(values) < 3:
        return np.full(len(values), median(values)) if len(values) else values
    before, middle, after = values[:-2], values[1:-1], values[2:]
    inner = np.maximum(np.minimum(before, middle), np.minimum(np.maximum(before, middle), after))
    return np.concatenate([[values[:2].mean()], inner, [values[-2:].mean()]])


def since_index(bad: NDArray[np.bool_]) -> int:
    """Return the index since which all values are bad; the last one if it is not."""
    fine = np.flatnonzero(~bad)
    return min(int(fine[-1]) + 1 if len(fine) else 0, len(bad) - 1)


def since_when(facts: Facts, bad: Callable[[Floats], NDArray[np.bool_]]) -> int:
    """Return the step since which all kept means are on the bad side; the last step if none is."""
    steps, means = facts.curve
    return int(steps[since_index(bad(means))])


def course(before: float, after: float) -> str:
    """Return how a level, a median or a mean, went from one to another, as the two are printed."""
    if number(before) == number(after):
        return f"stayed at about {number(after)}"
    return f"{'fell' if after < before else 'rose'} from about {number(before)} to about {number(after)}"


def now(facts: Facts) -> str:
    """Return where a series is: its newest value, or about its level if that is another one."""
    last, level = number(facts.last), number(facts.level)
    return last if last == level else f"about {level}"


def means_between(facts: Facts, edges: NDArray[np.int64]) -> Floats:
    """Return the means of a series between ascending steps; 0 if it has no value."""
    at, means = facts.curve
    at = np.append(at, facts.last_step + 1)
    counts = np.diff(np.interp(edges, at, np.arange(len(at))))
    sums = np.diff(np.interp(edges, at, np.concatenate([[0.0], np.cumsum(means)])))
    return np.asarray(np.divide(sums, counts, out=np.zeros(len(sums)), where=counts > 0))
