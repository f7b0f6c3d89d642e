"""Restarts of series: settings that change, parts of the loss that come in, steps that begin again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from math import inf

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.noise import Floats
from stepscope.health.ring import median
from stepscope.health.series import Stream

CHANGED = 0.01
"""Relative change below which a learning rate, an update ratio or a setting counts as unchanged."""
MAX_CHANGES = 100_000
"""Changes of a series that are kept."""
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
"""Points between two changes of a setting, on average; a value that changes more often is not a setting."""
FREE = 16
"""Changes of an integer that need no points in between: it may be recorded only when it changes."""
MOVES = 4
"""Values of a setting that show its direction."""
MOVED = 0.1
"""Share of its largest value by which it must have changed."""


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
        first, last = float(np.mean(self.first)), median(self.last)
        return abs(value - first) < abs(value - last)


class Restarts:
    """The stages, folds and tasks of one attempt, and their settings."""

    def __init__(self) -> None:
        self._settings: dict[Stream, tuple[float, int, int]] = {}
        self._set_to: dict[Stream, tuple[list[float], list[float]]] = {}
        self._changes: list[float] = []
        self._active: dict[Stream, bool] = {}
        self._joined: list[float] = []
        """When another part of the loss was first recorded, or was first other than 0."""
        self._beginnings: dict[Stream, Beginning] = {}
        self._cuts: dict[Stream, list[tuple[int, bool]]] = {}

    def take(self, batch: StreamBatch) -> None:
        """Take the points that the rules are about to judge."""
        self._cuts = {}
        settings = batch.of(("setting",))
        self._changes += sorted(wall for chunk in settings for wall in self._set(chunk))
        for chunk in settings:
            note(self._set_to, chunk)
        self._joined += sorted(wall for chunk in batch.of(("part_loss",)) for wall in self._join(chunk))
        for chunk in batch.of(BEGINS):
            self._begin(chunk)

    def _set(self, chunk: Chunk) -> list[float]:
        """Return when a setting changed."""
        values, walls = chunk.values, chunk.walls
        last, count, changes = self._settings.get(chunk.stream, (float(values[0]), 0, 0))
        walls_set = []
        for index in np.flatnonzero(values != np.concatenate([[last], values[:-1]])).tolist():
            changes += 1
            slow = chunk.stream.tag.lower().endswith("round")
            counts = changes <= FREE and float(values[index]).is_integer() and not slow
            steady = STEADY * (SLOW if slow else 1) * changes
            if np.isfinite(values[index]) and (counts or count + index >= steady):
                walls_set.append(float(walls[index]))
        self._settings[chunk.stream] = float(values[-1]), count + len(values), changes
        return walls_set

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
        values, walls, raised = np.concatenate([begun.last, chunk.values]), chunk.walls, []
        while begun.parts < len(self._joined) and self._joined[begun.parts] <= walls[-1]:
            index = int(np.searchsorted(walls, self._joined[begun.parts]))
            begun.parts += 1
            end = len(begun.last) + index
            before = values[max(0, end - LAST) : end]
            usual = median(before) if len(before) >= LAST // 2 else inf
            if values[end] > usual + JUMPED * abs(usual):
                raised.append(index)
        return raised

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
        back = np.flatnonzero(steps < np.concatenate([[begun.last_step], steps[:-1]]))
        done = 0
        for index in back[steps[back] <= begun.step].tolist():
            self._go_on(begun, chunk, slice(done, index), cuts)
            done = index
            # A rate that is tried from the first step on need not be near the one before.
            if stream.role == "learning_rate" or begun.is_again(float(values[index])):
                cuts[index] = True
                begun.first, begun.last = [], []
        self._go_on(begun, chunk, slice(done, len(chunk)), cuts)
        begun.last_step = int(steps[-1])
        if cuts:
            self._cuts[stream] = sorted(cuts.items())

    def _go_on(self, begun: Beginning, chunk: Chunk, rows: slice, cuts: dict[int, bool]) -> None:
        """Take points among which the series does not start over, and note where a part of a loss came in.

        A rise is compared with points of the same beginning alone.
        """
        part = chunk.part(rows)
        if not len(part):
            return
        if chunk.stream.role != "learning_rate":
            for index in self._raised(begun, part):
                cuts.setdefault(rows.start + index, False)
        begun.take(part.values)

    def cuts(self, stream: Stream) -> list[tuple[int, bool]]:
        """Return where a series of the batch starts over, and whether its training does, too."""
        return self._cuts.get(stream, [])

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


def note(table: dict[Stream, tuple[list[float], list[float]]], chunk: Chunk) -> None:
    """Add when a series changed, and to what value, to a table."""
    walls, values = table.setdefault(chunk.stream, ([], []))
    if values and (np.abs(chunk.values - values[-1]) <= CHANGED * abs(values[-1])).all():
        return
    for value, wall in zip(chunk.values.tolist(), chunk.walls.tolist(), strict=True):
        same = bool(values) and abs(value - values[-1]) <= CHANGED * abs(values[-1])
        if not same and len(values) < MAX_CHANGES:
            walls.append(wall)
            values.append(value)
