"""stalled-training: nothing has been recorded for far longer than usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.ring import Ring, upper_median
from stepscope.health.rule import At, Rule, thresholds
from stepscope.health.series import Stream
from stepscope.health.worth import severity_of
from stepscope.names.roles import ROLES

STEPPED = ("step_time", "loss", "gradient_norm", "learning_rate")
"""Series that grow with the steps; the densest sets the pace."""
MIN_GAPS = 5
"""Intervals of a series that make a rhythm."""
NO_LIFE = "system/"
PAUSES = 3.0
"""Multiple of the longest earlier pause that a pause may last: evaluations and checkpoints recur."""


class StalledTraining(Rule):
    """Compares the time without a point with the run's own rhythm: its usual intervals and longest pauses.

    While the run is recorded, ``ask`` is called again and again; afterwards a stall is a gap in the series.
    One that ended by itself matters less than one that still lasts, and is medium.

    Formula: no point of any series for longer than max(floor_s, min(factor * the median interval of the
        densest series, longest_s), 3 * the longest pause so far, 3 * the usual time of the steps made
        during it), with 5 intervals known; next to an evaluation, for at least longest_s; not where a
        series resumes at a step that it had before; live also if the training thread stays at one place
        for that long, and with fewer intervals after begin_s; once the run continues, severity by the
        pause's share of its time
    Fires: live within 5 s of the limit; afterwards at the next point
    Chance: none while the rhythm continues: only a pause 3 times as long as any before is reported
    Source: SageMaker Debugger StalledTraining (1800 s), nvidia-resiliency-ext; the run's own rhythm: ours
    """

    id = "stalled-training"
    title = "Training stalled"
    severity = "high"
    fewest = "5 intervals between points of one series"
    roles = (*ROLES, "other")
    defaults = thresholds(floor_s=480, factor=40, longest_s=1800, begin_s=1200)
    action = (
        "the evidence shows where the training thread is: a collective that waits for a rank that is gone, a "
        "loader whose worker died, a file system that hangs; py-spy dump shows the other processes"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gaps: dict[Stream, Ring] = {}
        self._latest: dict[Stream, float] = {}
        self._pause = 0.0
        self._last: float | None = None
        self._begun = float("inf")
        self._lost: dict[int, float] = {}
        """Seconds that each stall took that is over, by its number."""
        self._place: tuple[float, int, str] = float("-inf"), 0, ""
        self._evaluated = False
        self._home: Stream | None = None
        self._steps: dict[Stream, int] = {}
        self._paces: dict[Stream, Ring] = {}
        """Seconds per step between the points of a series."""

    def look(self, batch: StreamBatch) -> None:
        """Look for gaps in the times of all series together."""
        # What the machine says of itself comes whether or not the training goes on.
        batch = StreamBatch([chunk for chunk in batch.chunks if not chunk.stream.tag.startswith(NO_LIFE)])
        walls = batch.walls
        if not len(walls):
            return
        if self._last is None:
            self._last = self._begun = float(walls[0])
        gaps = np.diff(walls, prepend=self._last)
        known: dict[Stream, int] = {}
        least = min(self.limits["floor_s"], self.limits["longest_s"]) / PAUSES
        for index in np.flatnonzero(gaps > least).tolist():
            self._keep_pace(batch, float(walls[index]), known)
            self._gap(batch, float(walls[index]), float(gaps[index]), known)
        if self._open:  # opened by ``ask``, and points have come since
            self._end(float(walls[0]))
        self._keep_pace(batch, float("inf"), known)
        self._last = float(walls[-1])
        if self._has_rhythm:
            self.judged()

    def ask(self, now: float, newest: float) -> None:
        """Judge the time since the newest point of a run that is being recorded.

        Args:
            now: Seconds since the epoch.
            newest: Time of the newest sign of life: a point, or that the training thread moved on.
        """
        if now - newest > self.limit_s:
            self._tell(newest)

    @property
    def _has_rhythm(self) -> bool:
        return any(ring.count >= MIN_GAPS for ring in self._gaps.values())

    @property
    def limit_s(self) -> float:
        """The longest time without a point that is not a stall."""
        limits = self.limits
        paces = [upper_median(ring.values) for ring in self._gaps.values() if ring.count >= MIN_GAPS]
        if not paces:
            return max(limits["begin_s"], PAUSES * self._pause)
        usual = min(limits["factor"] * min(paces), limits["longest_s"])
        return max(limits["floor_s"], usual, PAUSES * self._pause)

    def _gap(self, batch: StreamBatch, wall: float, gap: float, known: dict[Stream, int]) -> None:
        ends = [chunk for chunk in batch.chunks if self._next(chunk, known) == wall]
        again = any(
            int(c.steps[known.get(c.stream, 0)]) <= self._steps.get(c.stream, -(1 << 63)) for c in ends
        )
        evaluated = self._evaluated or any(chunk.stream.split == "eval" for chunk in ends)
        limit = max(self.limit_s, self.limits["longest_s"] if evaluated else 0.0, self._worth_of(ends, known))
        if gap <= limit or again or not self._has_rhythm:
            self._pause = max(self._pause, 0.0 if again else gap)
            return
        self._tell(wall - gap)
        self._end(wall)
        self._pause = gap  # what comes again is not a stall

    def _worth_of(self, ends: list[Chunk], known: dict[Stream, int]) -> float:
        """Return how long the steps that were made by the next point may have taken, by their usual time.

        If points come at irregular steps, a pause is as long as the steps in it.
        """
        longest = 0.0
        for chunk in ends:
            ring, before = self._paces.get(chunk.stream), self._steps.get(chunk.stream)
            if ring is not None and ring.count >= MIN_GAPS and before is not None:
                made = int(chunk.steps[known.get(chunk.stream, 0)]) - before
                longest = max(longest, PAUSES * made * upper_median(ring.values))
        return longest

    @staticmethod
    def _next(chunk: Chunk, known: dict[Stream, int]) -> float | None:
        """Return the time of the first point that is not known yet."""
        at = known.get(chunk.stream, 0)
        return float(chunk.walls[at]) if at < len(chunk) else None

    def _tell(self, last: float) -> None:
        if self._open:
            return
        limit, (_, step, tag) = self.limit_s, self._place
        self._home = Stream(tag, "other")
        text = f"nothing has been recorded for more than {limit:,.0f} s, after step {step}"
        self.open(At(self._home, step, last + limit, step), text, {"limit_s": limit})

    def _end(self, wall: float) -> None:
        """Close a stall that ended by itself; it matters by what it cost."""
        assert self._home is not None
        place = self._open.get((self._home, ""))
        self.close(At(self._home, self._place[1], wall, self._place[1]))
        if place is not None:
            self._lost[place] = wall - self._place[0]
            self._weigh(place, wall)

    def _weigh(self, place: int, until: float) -> None:
        """Set the severity of a stall that is over by its share of the time of the run."""
        share = self._lost[place] / max(until - self._begun, self._lost[place])
        self._put(place, replace(self.found[place], severity=severity_of(share)))

    def finish(self) -> None:
        """Compare what stalls cost with the time of the whole run."""
        for place in self._lost:
            self._weigh(place, self._place[0])

    def _keep_pace(self, batch: StreamBatch, until: float, known: dict[Stream, int]) -> None:
        """Take the points before a time that are not known yet."""
        for chunk in batch.chunks:
            stream, begin = chunk.stream, known.get(chunk.stream, 0)
            end = int(np.searchsorted(chunk.walls, until))
            if end <= begin:
                continue
            known[stream] = end
            earlier = self._steps.get(stream)
            self._steps[stream] = int(chunk.steps[end - 1])
            place = float(chunk.walls[end - 1]), self._steps[stream], stream.tag
            if place[0] > self._place[0]:
                self._evaluated = False
            self._place = max(self._place, place)
            self._evaluated = self._evaluated or (place[0] == self._place[0] and stream.split == "eval")
            if stream.role in STEPPED:
                walls = chunk.walls[begin:end]
                ring = self._gaps.setdefault(stream, Ring(64))
                before = self._latest.get(stream)
                ring.push(np.diff(walls) if before is None else np.diff(walls, prepend=before))
                self._take_pace(stream, chunk.steps[begin:end], walls, earlier, before)
                self._latest[stream] = float(walls[-1])

    def _take_pace(
        self, stream: Stream, steps: Any, walls: Any, earlier: int | None, before: float | None
    ) -> None:
        if earlier is None or before is None:
            made, took = np.diff(steps), np.diff(walls)
        else:
            made, took = np.diff(steps, prepend=earlier), np.diff(walls, prepend=before)
        if (made > 0).any():
            self._paces.setdefault(stream, Ring(64)).push(took[made > 0] / made[made > 0])

    @property
    def missing(self) -> str | None:
        """Any series that grows with the steps will do."""
        if self._judged:
            return None
        return (
            f"too few points to know the usual interval; it needs {self.fewest}"
            if self._seen
            else "not recorded: any series"
        )


ROWS = (StalledTraining,)
