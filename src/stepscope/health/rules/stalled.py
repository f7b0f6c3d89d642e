"""stalled-training: nothing has been recorded for far longer than usual."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscope.health.batch import Batch
from stepscope.health.ring import Ring, median
from stepscope.health.rule import At, Rule, thresholds
from stepscope.health.series import ROLES, Stream

STEPPED = ("step_time", "loss", "gradient_norm", "learning_rate")
"""Series that grow with the steps; the densest sets the pace."""
FEWEST = 8
NO_LIFE = "system/"
PAUSES = 3.0
"""A pause may be so many times as long as the longest before it: evaluations and checkpoints come again."""


class StalledTraining(Rule):
    """Compares the time without a point with the usual time between two points of the densest series.

    While the run is recorded, ``ask`` is asked again and again; afterwards a stall is a gap in the series.
    """

    id = "stalled-training"
    title = "Training stalled"
    severity = "high"
    formula = (
        "no point of any series for longer than max(floor_s, factor * the median time between points, 3 * "
        "the longest pause so far), but at most longest_s; before 8 points longer than begin_s"
    )
    source = (
        "SageMaker Debugger StalledTraining (1800 s) and MaxInitializationTime (20 min), "
        "nvidia-resiliency-ext"
    )
    window = "live within 5 s of the limit; afterwards at the next point"
    roles = (*ROLES, "other")
    defaults = thresholds(floor_s=120, factor=20, longest_s=1800, begin_s=1200)
    action = (
        "the evidence shows where the training thread stands: a collective that waits for a rank that is "
        "gone, a "
        "loader whose worker died, a file system that hangs; py-spy dump shows the other processes"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._gaps: dict[Stream, Ring] = {}
        self._latest: dict[Stream, float] = {}
        self._pause = 0.0
        self._last: float | None = None
        self._home: Stream | None = None
        self._step = 0

    def look(self, batch: Batch) -> None:
        """Look for gaps in the times of all series together."""
        # What the machine says of itself comes whether or not the training goes on.
        batch = Batch([chunk for chunk in batch.chunks if not chunk.stream.tag.startswith(NO_LIFE)])
        walls = batch.walls
        if not len(walls):
            return
        if self._home is None or self._last is None:
            first = min(batch.chunks, key=lambda chunk: (chunk.walls[0], chunk.stream.run, chunk.stream.tag))
            self._home, self._step, self._last = first.stream, int(first.steps[0]), float(walls[0])
        gaps = np.diff(walls, prepend=self._last)
        known: dict[Stream, int] = {}
        least = min(self.limits["floor_s"], self.limits["longest_s"]) / PAUSES
        for index in np.flatnonzero(gaps > least).tolist():
            self._keep_pace(batch, float(walls[index]), known)
            self._gap(float(walls[index]), float(gaps[index]))
        if self._open:  # opened by ``ask``, and points have come since
            self.close(At(self._home, self._step, float(walls[0]), self._step))
        self._keep_pace(batch, float("inf"), known)
        self._last = float(walls[-1])
        self.judged()

    def ask(self, now: float, newest: float) -> None:
        """Judge the time since the newest point of a run that is being recorded.

        Args:
            now: Seconds since the epoch.
            newest: Time of the newest point, or of the beginning where there is none.
        """
        if now - newest > self.limit_s:
            self._tell(newest)

    @property
    def limit_s(self) -> float:
        """The longest time without a point that is no stall."""
        limits = self.limits
        paces = [median(ring.values) for ring in self._gaps.values() if ring.count >= FEWEST]
        if not paces:
            return limits["begin_s"]
        usual = max(limits["floor_s"], limits["factor"] * min(paces), PAUSES * self._pause)
        return min(usual, limits["longest_s"])

    def _gap(self, wall: float, gap: float) -> None:
        if gap <= self.limit_s:
            self._pause = max(self._pause, gap)
            return
        self._tell(wall - gap)
        assert self._home is not None
        self.close(At(self._home, self._step, wall, self._step))

    def _tell(self, last: float) -> None:
        stream, limit = self._home or Stream("", "other"), self.limit_s
        text = f"nothing has been recorded for more than {limit:,.0f} s, after step {self._step}"
        self.open(At(stream, self._step, last + limit, self._step), text, {"limit_s": limit})

    def _keep_pace(self, batch: Batch, until: float, known: dict[Stream, int]) -> None:
        """Take in the points before a time, as far as they are not known yet."""
        for chunk in batch.chunks:
            stream, begin = chunk.stream, known.get(chunk.stream, 0)
            end = int(np.searchsorted(chunk.walls, until))
            if end <= begin:
                continue
            known[stream] = end
            if stream == self._home:
                self._step = int(chunk.steps[end - 1])
            if stream.role in STEPPED:
                walls = chunk.walls[begin:end]
                ring = self._gaps.setdefault(stream, Ring(64))
                before = self._latest.get(stream)
                ring.push(np.diff(walls) if before is None else np.diff(walls, prepend=before))
                self._latest[stream] = float(walls[-1])

    @property
    def missing(self) -> str | None:
        """Any series will do."""
        return None if self._judged else "not recorded: any series"
