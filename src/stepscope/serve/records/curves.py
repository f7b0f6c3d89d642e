"""Answer to ``GET curve``: a precision-recall curve at a step, and the area under it at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from stepscope.analyze.curves import average_precision, meaningful
from stepscope.errors import EventFileError
from stepscope.events.kinds.pr_curve import ROWS
from stepscope.serve.records.ask import AttemptRecords, Step, Tag, attempts_of, history, thinned
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get
from stepscope.store import RecordSeries as StoredSeries
from stepscope.store import StoredRun

MAX_CURVE_STEPS = 300
"""Most steps of a curve for which the area is given."""


class CurveStep(msgspec.Struct, frozen=True):
    """One step at which a curve was recorded."""

    at: int
    """Its place among all steps of the curve."""
    step: int
    wall: float
    area: float | None
    """Average precision, 0 to 1; null: nothing was positive, or it cannot be read."""


class CurveAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/curve?run=&tag=&step=``: a precision-recall curve.

    Attempts follow each other; of a step that several recorded, the newest counts.
    """

    run: str
    tag: str
    writer: str
    attempt: int
    total: int
    """Steps at which it was recorded."""
    steps: list[CurveStep]
    """Thinned evenly if they are many, the newest kept."""
    step: int
    """Step of the curve: the newest not after the requested one, or else the first."""
    wall: float
    error: str | None
    """Why it cannot be read."""
    thresholds: list[float]
    """Evenly from 0 to 1, as far as anything reaches."""
    true_positives: list[float]
    false_positives: list[float]
    true_negatives: list[float]
    false_negatives: list[float]
    precision: list[float]
    recall: list[float]
    area: float | None
    """Average precision."""


class CurveAnswers:
    """Answers about curves, and keeps the areas that it has computed. Safe for threads."""

    def __init__(self) -> None:
        self._areas: dict[tuple[str, str, str], dict[tuple[int, int], float | None]] = {}

    @get("curve")
    def answer(self, run: StoredRun, tag: Tag, step: Step = None) -> CurveAnswer:
        """Return a curve.

        Raises:
            Refusal: No such run or tag, or the tag is not a curve.
        """
        values = history(attempts_of(run, tag))
        kind = values[0][0].files[0].kind
        if kind != "pr_curve":
            raise Refusal(404, f"{tag!r} is of kind {kind}, not a curve", "see api/v1/records")
        steps = [int(series.step[place]) for series, place in (one.place(at) for one, at in values)]
        chosen = len(steps) - 1 if step is None else max(0, int(np.searchsorted(steps, step, "right")) - 1)
        attempt, at = values[chosen]
        series, place = attempt.place(at)
        lists: dict[str, Any] = {name: [] for name in (*ROWS, "thresholds")}
        area, error = None, None
        try:
            curve = series[place]
            shown = meaningful(curve)
            lists = {name: shown[row].astype(float).tolist() for row, name in enumerate(ROWS)}
            lists["thresholds"] = np.linspace(0, 1, curve.shape[1])[: shown.shape[1]].tolist()
            area = average_precision(curve)
        except EventFileError as damage:
            error = damage.message
        return CurveAnswer(
            run=series.run, tag=series.tag, writer=series.writer, attempt=series.attempt, total=len(values),
            steps=self.steps(values), step=steps[chosen], wall=float(series.wall[place]), error=error,
            area=area, **lists,
        )  # fmt: skip

    def steps(self, values: Sequence[tuple[AttemptRecords, int]]) -> list[CurveStep]:
        """Return the steps of a curve over all attempts, with the area at each."""
        first = values[0][0].files[0]
        known = self._areas.setdefault((first.run, first.tag, first.writer), {})
        curves = []
        for number in thinned(len(values), MAX_CURVE_STEPS):
            attempt, at = values[number]
            series, place = attempt.place(at)
            key = (attempt.attempt, at)
            if key not in known:
                known[key] = area_of(series, place)
            curves.append(CurveStep(number, int(series.step[place]), float(series.wall[place]), known[key]))
        return curves


def area_of(series: StoredSeries, at: int) -> float | None:
    """Return the area under one curve, None if it cannot be read."""
    try:
        return average_precision(series[at])
    except EventFileError:
        return None
