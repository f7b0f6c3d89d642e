"""Facts of a run that every rule may use besides the series that it judges.

All questions are asked as of a time: the answer depends on the data recorded before it and not on the
portions in which it came, so that a run is judged in the same way while it trains and afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf, nan

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.kind import hint_of, kind_of
from stepscope.health.noise import standard_error
from stepscope.health.restarts import Restarts, note
from stepscope.health.ring import Floats, median
from stepscope.health.series import Stream
from stepscope.names.roles import is_accuracy, is_loss_by_kind

BLOCK = 8
"""Number of points of a series that are kept as one number; it grows with the series."""
RARELY = 2
"""The same number for evaluations, of which there are few."""
BLOCKS = 1024
READINGS_S = 10.0
"""Seconds in which a run that records waits for a processor has recorded some: twice their interval."""
WORSE = 0.02
"""Relative amount by which later evaluations may be worse and still count as holding."""

Noted = tuple[list[float], list[float]]
"""Times and values of a series."""


@dataclass
class History:
    """A series in blocks of points: times, and means of the finite values."""

    walls: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    count: int = 0
    first: float = inf
    block: int = BLOCK
    _part: list[float] = field(default_factory=list)

    def take(self, chunk: Chunk) -> None:
        """Take further points."""
        good = np.isfinite(chunk.values)
        values, walls = chunk.values[good].tolist(), chunk.walls[good].tolist()
        if values:
            self.first = min(self.first, walls[0])
        begin = 0
        while begin < len(values):
            # By the points before the block: so the blocks do not depend on the portions.
            left = max(self.block, (self.count - len(self._part)) // BLOCKS) - len(self._part)
            end = min(len(values), begin + left)
            self._part += values[begin:end]
            self.count += end - begin
            if end - begin >= left:
                self.walls.append(walls[end - 1])
                self.means.append(sum(self._part) / len(self._part))
                self._part.clear()
            begin = end

    def improves(self, since: float, until: float, *, falls: bool = True) -> bool:
        """Return whether values after a time are better than before it, more clearly than noise explains.

        Args:
            since: Where the stretch begins that is compared with what was before; minus infinity for the
                beginning.
            until: All that came later does not count.
            falls: Whether less is better.
        """
        end = bisect_left(self.walls, until)
        begin = bisect_left(self.walls, since)
        if since == -inf:
            begin = min(4, end // 4)
        before, after = np.array(self.means[max(0, begin - 8) : begin]), np.array(self.means[begin:end])
        if not len(before):
            before, after = after[:2], after[2:]
        if not len(before) or len(after) < 2:
            return False
        recent = after[-8:]
        gain = float(before.mean() - recent.mean()) * (1 if falls else -1)
        # Two or less have the noise of the others.
        few = float(recent.std()) if self.block < BLOCK and len(recent) > 2 else 0.0
        errors = [
            few / len(means) ** 0.5 if len(means) < 3 else standard_error(means) for means in (before, recent)
        ]
        noise = float(np.hypot(errors[0], errors[1]))
        return gain > max(3 * noise, 0.01 * abs(float(before.mean())))

    def falls_within(self, since: float, until: float) -> bool | None:
        """Return whether the second half of a stretch is lower than the first; None if it is too short."""
        means = np.array(self.means[bisect_left(self.walls, since) + 1 : bisect_left(self.walls, until)])
        if len(means) < 4:
            return None
        first, second = np.array_split(means, 2)
        noise = float(np.hypot(first.std(), second.std())) / len(second) ** 0.5
        return bool(first.mean() - second.mean() > max(2 * noise, 0.01 * abs(float(first.mean()))))

    def is_known(self, since: float, until: float) -> bool:
        """Return whether there are blocks before and after a time."""
        begin = bisect_left(self.walls, since)
        return begin > 0 and bisect_left(self.walls, until) - begin > 1


class Context:
    """The facts of one attempt of a run.

    Attributes:
        kinds: When each kind of training was first indicated, and by which tag.
        restarts: The restarts of its series, and changes of settings.
        practices: What it does already, by its configuration.
    """

    def __init__(self) -> None:
        self.practices: frozenset[str] = frozenset()
        self.kinds: dict[str, tuple[float, str]] = {}
        self.restarts = Restarts()
        self._hints: dict[str, dict[str, tuple[float, str]]] = {}
        self._losses: dict[Stream, History] = {}
        self._metrics: dict[Stream, History] = {}
        self._rates: dict[Stream, Noted] = {}
        self._held: dict[Stream, Noted] = {}
        self._parts: dict[Stream, History] = {}
        self._begun = inf
        self._recorded: dict[tuple[str, str], float] = {}
        """When the first series of each run and role began."""
        self._waits: dict[tuple[str, int | None], Noted] = {}

    def hear(self, tag: str, wall: float) -> None:
        """Note that a series was recorded, by its first point's time."""
        self._begun = min(self._begun, wall if wall > -inf else inf)
        kind = kind_of(tag)
        if kind is None and (hint := hint_of(tag)) is not None:
            kind, name = hint
            known = self._hints.setdefault(kind, {})
            known[name] = min((wall, tag), known.get(name, (inf, "")))
            if len(known) < 2:
                return
            wall, tag = sorted(known.values())[1]  # it takes two
        if kind is not None and wall < self.kinds.get(kind, (inf, ""))[0]:
            self.kinds[kind] = wall, tag

    def take(self, batch: StreamBatch) -> None:
        """Take the points that the rules are about to judge."""
        self.restarts.take(batch)
        for chunk in batch.chunks:
            stream = chunk.stream
            place = stream.run, stream.role
            self._recorded[place] = min(float(chunk.walls[0]), self._recorded.get(place, inf))
            rarely = BLOCK if stream.split == "train" else RARELY
            if stream.role == "loss":
                self._losses.setdefault(stream, History(block=rarely)).take(chunk)
            elif stream.role == "part_loss" and stream.split != "eval":
                self._parts.setdefault(stream, History(block=BLOCK // 2)).take(chunk)
            elif stream.role == "metric":
                self._metrics.setdefault(stream, History(block=rarely)).take(chunk)
            elif stream.role == "learning_rate":
                note(self._rates, chunk)
            if stream.split == "eval" and stream.role in ("loss", "metric"):
                _keep(self._held.setdefault(stream, ([], [])), chunk)
            elif stream.role == "cpu_wait":
                _keep(self._waits.setdefault((stream.run, stream.rank), ([], [])), chunk)

    # --- questions ------------------------------------------------------------------------------------

    def unfit(self, kinds: Collection[str], wall: float) -> str | None:
        """Return the first of these kinds that the run is known to be by a time, None if none applies."""
        return next((kind for kind in kinds if kind in self.kinds and self.kinds[kind][0] <= wall), None)

    def records(self, role: str, run: str, wall: float) -> bool:
        """Return whether the run had recorded a series of a role by a time."""
        return self._recorded.get((run, role), inf) <= wall

    def rate(self, run: str, wall: float) -> float | None:
        """Return the largest learning rate of the run at a time, None if none is recorded."""
        return largest(values[end - 1] for values, end in _before(self._rates, run, wall))

    def largest_rate(self, run: str, wall: float) -> float | None:
        """Return the largest learning rate that the run had before a time."""
        return largest(largest(values[:end]) for values, end in _before(self._rates, run, wall))

    def rescheduled(self, run: str, since: float, until: float) -> bool:
        """Return whether a learning rate of the run changed between two times."""
        return any(
            bisect_left(walls, until) > bisect_left(walls, since, lo=1)
            for stream, (walls, _) in self._rates.items()
            if stream.run == run and walls
        )

    def waits(self, stream: Stream, walls: Floats, until: float) -> Floats:
        """Return the share of the time around given times in which its process waited for a processor.

        Args:
            stream: A series of the process.
            walls: Times, seconds since the epoch.
            until: All that came later does not count.

        Returns:
            Between 0 and 1, and NaN for times of which it is not known: of the shape of ``walls``.
        """
        known, values = self._waits.get((stream.run, stream.rank), ([], []))
        # A reading is of the time since the one before it.
        count = bisect_right(known, until)
        shares: Floats = np.clip([*values[:count], nan], 0.0, 1.0)[np.searchsorted(known[:count], walls)]
        return shares

    def waited(self, stream: Stream, since: float, until: float) -> float:
        """Return the seconds of a stretch of time in which a process may have waited for a processor.

        What the newest reading does not reach counts whole; a run that has none soon will have none.
        """
        known = self._waits.get((stream.run, stream.rank), ([], []))[0]
        if not bisect_right(known, until):
            return until - since if until < self._begun + READINGS_S else 0.0
        edges = np.array([since, *known[bisect_right(known, since) : bisect_right(known, until)], until])
        shares = self.waits(stream, edges[1:], until)
        return float(np.diff(edges) @ np.where(np.isfinite(shares), shares, 1.0))

    def trains(self, run: str, until: float) -> bool:
        """Return whether a training loss was recorded before a time."""
        return any(history.first < until for history in self._trained(run))

    def learns(self, run: str, since: float, until: float) -> bool:
        """Return whether the main training loss fell after a time, more clearly than noise explains."""
        return any(history.improves(since, until) for history in self._trained(run))

    def rises(self, run: str, since: float, until: float) -> bool:
        """Return whether the main training loss rose after a time, more clearly than noise explains."""
        return any(history.improves(since, until, falls=False) for history in self._trained(run))

    def weights_alone(self, run: str, since: float, until: float) -> bool:
        """Return whether several parts of the loss are recorded, and none rose after a time."""
        parts = [h for s, h in self._parts.items() if s.run == run and h.is_known(since, until)]
        return len(parts) > 1 and not any(part.improves(since, until, falls=False) for part in parts)

    def stands(self, run: str, since: float, until: float) -> bool:
        """Return whether a training loss is known in a stretch of time, and none fell in it."""
        falls = [history.falls_within(since, until) for history in self._trained(run)]
        return False in falls and True not in falls

    def _trained(self, run: str) -> list[History]:
        return [
            history
            for stream, history in self._losses.items()
            if stream.run == run and stream.split != "eval"
        ]

    def is_second(self, stream: Stream) -> bool:
        """Return whether a series is a loss only by its kind, and the run records one that is named so."""
        return is_loss_by_kind(stream.tag) and any(
            other.run == stream.run and other.split == "train" and not is_loss_by_kind(other.tag)
            for other in self._losses
        )

    def holds(self, since: float, until: float) -> bool:
        """Return whether evaluations after a time are as good as just before it; False if none tells.

        Metrics decide if there are any: the loss of a classifier may rise while it is right as often, for
        instance when its inputs are perturbed more and more.
        """
        all_good: bool | None = None
        right = False
        for stream, (walls, values) in self._held.items():
            middle, end = bisect_right(walls, since), bisect_right(walls, until)
            before, after = np.array(values[max(0, middle - 5) : middle]), np.array(values[middle:end])
            if len(before) < 2 or len(after) < 2:
                continue
            usual = median(before)
            worse = median(after) - usual
            metric = stream.role == "metric"
            if metric and not stream.lower_is_better:
                worse = -worse
            good = worse <= max(float(np.ptp(before)), WORSE * abs(usual))
            if metric and not good:
                return False
            right, all_good = right or metric, good and all_good is not False
        return right or bool(all_good)

    def classifies(self, wall: float) -> bool:
        """Return whether a metric of a classifier was recorded before a time."""
        return any(
            is_accuracy(stream.tag) and history.first < wall for stream, history in self._metrics.items()
        )

    def gains(self, wall: float) -> bool:
        """Return whether a metric or an evaluation loss has become better since the beginning, by a time."""
        for stream, history in self._metrics.items():
            if history.improves(-inf, wall, falls=bool(stream.lower_is_better)):
                return True
        evaluated = (h for s, h in self._losses.items() if s.split == "eval")
        return any(history.improves(-inf, wall) for history in evaluated)


def _keep(noted: Noted, chunk: Chunk) -> None:
    noted[0].extend(chunk.walls.tolist())
    noted[1].extend(chunk.values.tolist())


def _before(table: dict[Stream, Noted], run: str, wall: float) -> Iterator[tuple[list[float], int]]:
    """Return what is noted of each series of a run, how much of it before a time; none that lack it."""
    for stream, (walls, values) in table.items():
        if stream.run == run and walls and walls[0] < wall:
            yield values, bisect_left(walls, wall)


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest number; NaN if there are only those, None if there is nothing.

    Python's own ``max`` returns NaN if that comes first, so that the order of the series would matter.
    """
    known = [value for value in values if value is not None]
    return max((value for value in known if value == value), default=nan if known else None)
