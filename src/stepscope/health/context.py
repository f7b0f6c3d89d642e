"""Facts of a run that every rule may use besides the series that it judges.

All questions are asked as of a time: the answer depends on what was recorded before it and not on the
portions in which it came, so that a run is judged in the same way while it trains and afterwards.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.kind import hint_of, kind_of
from stepscope.health.noise import Floats, standard_error
from stepscope.health.series import Stream

BLOCK = 8
"""Number of points of a series that are kept as one number; it grows with the series."""
BLOCKS = 1024
CHANGED = 0.01
"""Relative change below which a learning rate counts as unchanged."""
MOST = 100_000
"""Changes of learning rates that are kept."""
BEGINS = ("loss", "gradient_norm", "learning_rate")
"""Roles of series that begin again with another fold, stage or task."""
JUMPED = 0.2
"""Rise of a loss, as a share of the points before it, with which a new part of it comes in."""
SLOW = 10
"""Factor of ``STEADY`` for rounds: those of active learning begin anew, those of federated learning go on."""
FIRST = 3
"""Points at the beginning of a series to which a restarted one is compared."""
LAST = 8
STEADY = 10
"""Points between two changes of a setting, on average; what changes more often is not a setting."""
FREE = 16
"""Changes of an integer that need no points in between: it may be recorded only when it changes."""
ERRORS = ("error", "errors", "mae", "mse", "rmse", "mape", "smape", "wer", "cer", "ppl", "perplexity", "fid")
"""Words in the names of metrics of which less is better."""
MOVES = 4
"""Values of a setting that show where it goes."""
MOVED = 0.1
"""Share of its largest value by which it must have changed."""
STILL = 3
"""Points of a series that show that it stays the same."""
WORSE = 0.02
"""Relative amount by which later evaluations may be worse and still count as holding."""


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
            until: What came later does not count.
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
        errors = [0.0 if len(each) < 3 else standard_error(each) for each in (before, recent)]
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

    def newest(self, until: float) -> float | None:
        """Return the mean of the last block that ended before a time."""
        end = bisect_left(self.walls, until)
        return self.means[end - 1] if end else None

    def is_known(self, since: float, until: float) -> bool:
        """Return whether there are blocks before and after a time."""
        begin = bisect_left(self.walls, since)
        return begin > 0 and bisect_left(self.walls, until) - begin > 1


@dataclass
class Signs:
    """When a series was first seen, and when it first had another value than one."""

    value: float
    walls: list[float] = field(default_factory=list)
    other: float = inf

    def take(self, chunk: Chunk) -> None:
        """Take further points."""
        if len(self.walls) < STILL:
            self.walls += chunk.walls[: STILL - len(self.walls)].tolist()
        if self.other == inf:
            others = np.flatnonzero(chunk.values != self.value)
            self.other = float(chunk.walls[others[0]]) if len(others) else inf


def all_still(signs: dict[Stream, Signs], run: str, wall: float) -> bool:
    """Return whether series of a run are known that never had another value before a time."""
    known = [each for stream, each in signs.items() if stream.run == run and each.walls[0] < wall]
    enough = any(len(each.walls) == STILL and each.walls[-1] < wall for each in known)
    return enough and all(each.other >= wall for each in known)


@dataclass
class Beginning:
    """How a series began, and how far it has come; a restart begins a new record."""

    step: int
    last_step: int
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    settings: int = 0
    parts: int = 0

    def take(self, values: Floats) -> None:
        """Take further values."""
        if len(self.first) < FIRST:
            self.first += values[: FIRST - len(self.first)].tolist()
        self.last = [*self.last, *values[-LAST:].tolist()][-LAST:]

    def is_again(self, value: float) -> bool:
        """Return whether a value is nearer to where the series began than to where it arrived."""
        if len(self.last) < LAST:
            return False
        first, last = float(np.mean(self.first)), float(np.median(self.last))
        return abs(value - first) < abs(value - last)


class Context:
    """The facts of one attempt of a run.

    Attributes:
        kinds: When each kind of training was first indicated, and by which tag.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, tuple[float, str]] = {}
        self._hints: dict[str, dict[str, tuple[float, str]]] = {}
        self._losses: dict[Stream, History] = {}
        self._metrics: dict[Stream, History] = {}
        self._rates: dict[Stream, tuple[list[float], list[float]]] = {}
        self._evaluated: dict[str, list[float]] = {}
        self._updates: dict[Stream, tuple[list[float], list[float]]] = {}
        self._gradients: dict[Stream, Signs] = {}
        self._weights: dict[Stream, Signs] = {}
        self._held: dict[Stream, tuple[list[float], list[float]]] = {}
        self._settings: dict[Stream, tuple[float, int, int]] = {}
        self._set_to: dict[Stream, tuple[list[float], list[float]]] = {}
        self._changes: list[float] = []
        self._parts: dict[Stream, History] = {}
        self._active: dict[Stream, bool] = {}
        self._joined: list[float] = []
        """When another part of the loss was first recorded, or was first other than 0."""
        self._beginnings: dict[Stream, Beginning] = {}
        self._begun: dict[Stream, list[float]] = {}
        self._cuts: dict[Stream, list[tuple[int, bool]]] = {}

    def hear(self, tag: str, wall: float) -> None:
        """Note that a series was recorded, by its first point's time."""
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
        self._cuts = {}
        changed = [wall for chunk in batch.of(("setting",)) for wall in self._set(chunk)]
        self._changes += sorted(changed)
        joined = [wall for chunk in batch.of(("part_loss",)) for wall in self._join(chunk)]
        self._joined += sorted(joined)
        for chunk in batch.of(BEGINS):
            self._begin(chunk)
        for chunk in batch.chunks:
            stream = chunk.stream
            if stream.role == "loss":
                self._losses.setdefault(stream, History()).take(chunk)
            elif stream.role == "part_loss" and stream.split != "eval":
                self._parts.setdefault(stream, History(block=BLOCK // 2)).take(chunk)
            elif stream.role == "metric":
                self._metrics.setdefault(stream, History()).take(chunk)
            elif stream.role == "learning_rate":
                self._note(self._rates, chunk)
            elif stream.role == "setting":
                self._note(self._set_to, chunk)
            elif stream.role == "gradient_norm":
                self._gradients.setdefault(stream, Signs(0.0)).take(chunk)
            elif stream.role == "weight_norm":
                self._weights.setdefault(stream, Signs(float(chunk.values[0]))).take(chunk)
            if stream.split == "eval" and stream.role in ("loss", "metric"):
                walls, values = self._held.setdefault(stream, ([], []))
                walls += chunk.walls.tolist()
                values += chunk.values.tolist()
            elif stream.role == "update_ratio":
                self._note(self._updates, chunk)

    def _set(self, chunk: Chunk) -> list[float]:
        """Return when a setting changed."""
        values, walls = chunk.values, chunk.walls
        last, count, changes = self._settings.get(chunk.stream, (float(values[0]), 0, 0))
        found = []
        for index in np.flatnonzero(values != np.concatenate([[last], values[:-1]])).tolist():
            changes += 1
            slow = chunk.stream.tag.lower().endswith("round")
            counts = changes <= FREE and float(values[index]).is_integer() and not slow
            steady = STEADY * (SLOW if slow else 1) * changes
            if np.isfinite(values[index]) and (counts or count + index >= steady):
                found.append(float(walls[index]))
        self._settings[chunk.stream] = float(values[-1]), count + len(values), changes
        return found

    def _join(self, chunk: Chunk) -> list[float]:
        """Return when a part of the training loss came in."""
        stream = chunk.stream
        if stream.split == "eval" or self._active.get(stream):
            return []
        active = np.flatnonzero(np.isfinite(chunk.values) & (chunk.values != 0))
        self._active[stream] = len(active) > 0
        return [float(chunk.walls[active[0]])] if len(active) else []

    def _raised(self, begun: Beginning, chunk: Chunk) -> list[int]:
        """Return where another part of the loss came in and raised a series."""
        values, walls, found = np.concatenate([begun.last, chunk.values]), chunk.walls, []
        while begun.parts < len(self._joined) and self._joined[begun.parts] <= walls[-1]:
            index = int(np.searchsorted(walls, self._joined[begun.parts]))
            begun.parts += 1
            end = len(begun.last) + index
            before = values[max(0, end - LAST) : end]
            usual = float(np.median(before)) if len(before) >= LAST // 2 else inf
            if values[end] > usual + JUMPED * abs(usual):
                found.append(index)
        return found

    def _begin(self, chunk: Chunk) -> None:
        """Find where a series starts over: with its first steps and values, or when a setting changes."""
        stream, steps, values, walls = chunk.stream, chunk.steps, chunk.values, chunk.walls
        begun = self._beginnings.get(stream)
        if begun is None:
            begun = self._beginnings[stream] = Beginning(
                int(steps[0]),
                int(steps[0]),
                settings=bisect_right(self._changes, float(walls[0])),
                parts=bisect_right(self._joined, float(walls[0])),
            )
        cuts: dict[int, bool] = {}
        while begun.settings < len(self._changes) and self._changes[begun.settings] <= walls[-1]:
            cuts[int(np.searchsorted(walls, self._changes[begun.settings]))] = False
            begun.settings += 1
        if stream.role != "learning_rate":
            cuts.update((index, False) for index in self._raised(begun, chunk))
        back = np.flatnonzero(steps < np.concatenate([[begun.last_step], steps[:-1]]))
        done = 0
        for index in back[steps[back] <= begun.step].tolist():
            begun.take(values[done:index])
            done = index
            # A rate that is tried from the first step on need not be near the one before.
            if stream.role == "learning_rate" or begun.is_again(float(values[index])):
                cuts[index] = True
                begun.first, begun.last = [], []
        begun.take(values[done:])
        begun.last_step = int(steps[-1])
        if cuts:
            self._cuts[stream] = sorted(cuts.items())
            self._begun.setdefault(stream, []).extend(float(walls[index]) for index, _ in self._cuts[stream])

    @staticmethod
    def _note(table: dict[Stream, tuple[list[float], list[float]]], chunk: Chunk) -> None:
        walls, values = table.setdefault(chunk.stream, ([], []))
        if values and (np.abs(chunk.values - values[-1]) <= CHANGED * abs(values[-1])).all():
            return
        for value, wall in zip(chunk.values.tolist(), chunk.walls.tolist(), strict=True):
            same = bool(values) and abs(value - values[-1]) <= CHANGED * abs(values[-1])
            if not same and len(values) < MOST:
                walls.append(wall)
                values.append(value)

    def cuts(self, chunk: Chunk) -> list[tuple[int, bool]]:
        """Return where a series of the batch starts over, and whether its training does, too."""
        return self._cuts.get(chunk.stream, [])

    # --- questions ------------------------------------------------------------------------------------

    def unfit(self, kinds: Collection[str], wall: float) -> str | None:
        """Return the first of these kinds that the run is known to be by a time, None if none applies."""
        return next((kind for kind in kinds if kind in self.kinds and self.kinds[kind][0] <= wall), None)

    def beginnings(self, stream: Stream, wall: float) -> int:
        """Return how often a series has started over by a time."""
        return bisect_right(self._begun.get(stream, []), wall)

    def rate(self, run: str, wall: float) -> float | None:
        """Return the largest learning rate of the run at a time, None if none is recorded."""
        found = [
            values[bisect_left(walls, wall) - 1]
            for stream, (walls, values) in self._rates.items()
            if stream.run == run and walls and walls[0] < wall
        ]
        return max(found, default=None)

    def largest_rate(self, run: str, wall: float) -> float | None:
        """Return the largest learning rate that the run had before a time."""
        found = [
            max(values[: bisect_left(walls, wall)])
            for stream, (walls, values) in self._rates.items()
            if stream.run == run and walls and walls[0] < wall
        ]
        return max(found, default=None)

    def rescheduled(self, run: str, since: float, until: float) -> bool:
        """Return whether a learning rate of the run changed between two times."""
        return any(
            bisect_left(walls, until) > bisect_left(walls, since, lo=1)
            for stream, (walls, _) in self._rates.items()
            if stream.run == run and walls
        )

    def update(self, run: str, wall: float) -> float | None:
        """Return the largest update ratio of a layer at a time, None if none is recorded."""
        found = [
            values[bisect_left(walls, wall) - 1]
            for stream, (walls, values) in self._updates.items()
            if stream.run == run and walls and walls[0] < wall
        ]
        return max(found, default=None)

    def lacks_gradient(self, run: str, wall: float) -> bool:
        """Return whether every gradient norm before a time was 0, and there were some."""
        return all_still(self._gradients, run, wall)

    def keeps_weights(self, run: str, wall: float) -> bool:
        """Return whether no weight norm changed before a time, to the last bit, and there were some."""
        return all_still(self._weights, run, wall)

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
        return len(parts) > 1 and not any(each.improves(since, until, falls=False) for each in parts)

    def moved(self, run: str, since: float, until: float) -> tuple[str, float, float] | None:
        """Return a setting that went one way from a time on, with its values then and now, or None."""
        for stream, (walls, values) in self._set_to.items():
            begin, end = bisect_right(walls, since) - 1, bisect_left(walls, until)
            within = np.array(values[max(begin, 0) : end])
            if stream.run != run or len(within) < MOVES:
                continue
            steps, whole = np.diff(within), float(within[-1] - within[0])
            if (steps * whole > 0).all() and abs(whole) > MOVED * float(np.abs(within).max()):
                return stream.tag, float(within[0]), float(within[-1])
        return None

    def stands(self, run: str, since: float, until: float) -> bool:
        """Return whether a training loss is known in a stretch of time, and none fell in it."""
        told = [history.falls_within(since, until) for history in self._trained(run)]
        return False in told and True not in told

    def is_zero(self, run: str, wall: float) -> bool:
        """Return whether the newest block of a training loss before a time is 0, or none is recorded."""
        newest = [h.newest(wall) for h in self._trained(run)]
        return all(value is None or value == 0 for value in newest)

    def _trained(self, run: str) -> list[History]:
        return [
            history
            for stream, history in self._losses.items()
            if stream.run == run and stream.split != "eval"
        ]

    def holds(self, since: float, until: float) -> bool:
        """Return whether evaluations after a time are as good as just before it; False if none tells.

        Metrics decide if there are any: the loss of a classifier may rise while it is right as often, for
        instance when its inputs are perturbed more and more.
        """
        told: bool | None = None
        right = False
        for stream, (walls, values) in self._held.items():
            middle, end = bisect_right(walls, since), bisect_right(walls, until)
            before, after = np.array(values[max(0, middle - 5) : middle]), np.array(values[middle:end])
            if len(before) < 2 or len(after) < 2:
                continue
            usual = float(np.median(before))
            worse = float(np.median(after)) - usual
            metric = stream.role == "metric"
            if metric and not lower_is_better(stream.tag):
                worse = -worse
            good = worse <= max(float(np.ptp(before)), WORSE * abs(usual))
            if metric and not good:
                return False
            right, told = right or metric, good and told is not False
        return right or bool(told)

    def classifies(self, wall: float) -> bool:
        """Return whether a metric of a classifier was recorded before a time."""
        return any(
            "acc" in stream.tag.lower() and history.first < wall for stream, history in self._metrics.items()
        )

    def gains(self, wall: float) -> bool:
        """Return whether a metric or an evaluation loss has become better since the beginning, by a time."""
        for stream, history in self._metrics.items():
            if history.improves(-inf, wall, falls=lower_is_better(stream.tag)):
                return True
        evaluated = (h for s, h in self._losses.items() if s.split == "eval")
        return any(history.improves(-inf, wall) for history in evaluated)


def lower_is_better(tag: str) -> bool:
    """Return whether a metric is an error: the last word of its name that says what it is decides."""
    words = re.findall(r"[a-z]+|\d+", tag.rpartition("/")[2].lower()) or [tag.lower()]
    return any(word in ERRORS for word in words)
