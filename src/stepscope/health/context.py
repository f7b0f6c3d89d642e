"""Facts of a run that every rule may use besides the series that it judges.

All questions are asked as of a time: the answer depends on the data recorded before it and not on the
portions in which it came, so that a run is judged in the same way while it trains and afterwards.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

import numpy as np

from stepscope.health.batch import StreamBatch
from stepscope.health.kind import hint_of, kind_of
from stepscope.health.restarts import Restarts


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
        self._trained: dict[str, float] = {}
        """When the first training loss of each run began."""
        self.begun = inf
        self._recorded: dict[tuple[str, str], float] = {}
        """When the first series of each run and role began."""

    def hear(self, tag: str, wall: float) -> None:
        """Note that a series was recorded, by its first point's time."""
        self.begun = min(self.begun, wall if wall > -inf else inf)
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
            if stream.role == "loss" and stream.split != "eval":
                walls = chunk.walls[np.isfinite(chunk.values)]
                if len(walls):
                    self._trained[stream.run] = min(float(walls[0]), self._trained.get(stream.run, inf))

    # --- questions ------------------------------------------------------------------------------------

    def unfit(self, kinds: Collection[str], wall: float) -> str | None:
        """Return the first of these kinds that the run is known to be by a time, None if none applies."""
        return next((kind for kind in kinds if kind in self.kinds and self.kinds[kind][0] <= wall), None)

    def records(self, role: str, run: str, wall: float) -> bool:
        """Return whether the run had recorded a series of a role by a time."""
        return self._recorded.get((run, role), inf) <= wall

    def trains(self, run: str, until: float) -> bool:
        """Return whether a training loss was recorded before a time."""
        return self._trained.get(run, inf) < until
