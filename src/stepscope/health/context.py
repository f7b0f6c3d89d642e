"""Facts of a run that every rule may use besides the series that it judges.

All questions are asked as of a time: the answer depends on the data recorded before it and not on the
portions in which it came, so that a run is judged in the same way while it trains and afterwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from math import inf, nan

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.kind import hint_of, kind_of
from stepscope.health.restarts import Restarts, note
from stepscope.health.ring import Floats
from stepscope.health.series import Stream

READINGS_S = 10.0
"""Seconds in which a run that records waits for a processor has recorded some: twice their interval."""
Noted = tuple[list[float], list[float]]
"""Times and values of a series."""


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
        self._rates: dict[Stream, Noted] = {}
        self._trained: dict[str, float] = {}
        """When the first training loss of each run began."""
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
            if stream.role == "loss" and stream.split != "eval" and np.isfinite(chunk.values).any():
                first = float(chunk.walls[np.isfinite(chunk.values)][0])
                self._trained[stream.run] = min(first, self._trained.get(stream.run, inf))
            elif stream.role == "learning_rate":
                note(self._rates, chunk)
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
        return self._trained.get(run, inf) < until


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
