"""Answer to ``GET curve``: a precision-recall curve at a step, and the area under it at all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analyze.curves import average_precision, meaningful
from stepscope.errors import EventFileError
from stepscope.serve.encode import encoded
from stepscope.serve.integers import whole
from stepscope.serve.records.ask import run_of, series_of, thinned
from stepscope.serve.records.view_types import MAX_CURVE_STEPS, CurveAnswer, CurveStep
from stepscope.serve.reply import Refusal

if TYPE_CHECKING:
    from stepscope.store import Log
    from stepscope.store import RecordSeries as StoredSeries

ROWS = ("true_positives", "false_positives", "true_negatives", "false_negatives", "precision", "recall")


class CurveAnswers:
    """Answers about curves, and keeps the areas that it has computed. Safe for threads."""

    def __init__(self) -> None:
        self._areas: dict[tuple[str, str, str, int], dict[int, float | None]] = {}

    def answer(self, query: Mapping[str, str], log: Log | None) -> bytes:
        """Return a curve.

        Raises:
            Refusal: No such run or tag, or the tag is not a curve.
        """
        series = series_of(run_of(query, log), query)[-1]
        if series.kind != "pr_curve":
            raise Refusal(404, f"{series.tag!r} is of kind {series.kind}, not a curve", "see api/v1/records")
        wanted = whole(query, "step", -1, 0, 1 << 62)
        at = len(series) - 1 if wanted < 0 else max(0, int(np.searchsorted(series.step, wanted, "right")) - 1)
        lists: dict[str, Any] = {name: [] for name in (*ROWS, "thresholds")}
        area, error = None, None
        try:
            curve = series[at]
            shown = meaningful(curve)
            lists = {name: shown[row].astype(float).tolist() for row, name in enumerate(ROWS)}
            lists["thresholds"] = np.linspace(0, 1, curve.shape[1])[: shown.shape[1]].tolist()
            area = average_precision(curve)
        except EventFileError as found:
            error = found.message
        answer = CurveAnswer(
            run=series.run, tag=series.tag, writer=series.writer, attempt=series.attempt, total=len(series),
            steps=self.steps(series), step=int(series.step[at]), wall=float(series.wall[at]), error=error,
            area=area, **lists,
        )  # fmt: skip
        return encoded(answer)

    def steps(self, series: StoredSeries) -> list[CurveStep]:
        """Return the steps of a series with the area at each."""
        key = (series.run, series.tag, series.writer, series.attempt)
        known = self._areas.setdefault(key, {})
        found = []
        for at in thinned(len(series), MAX_CURVE_STEPS):
            if at not in known:
                known[at] = area_of(series, at)
            found.append(CurveStep(at, int(series.step[at]), float(series.wall[at]), known[at]))
        return found


def area_of(series: StoredSeries, at: int) -> float | None:
    """Return the area under one curve, None if it cannot be read."""
    try:
        return average_precision(series[at])
    except EventFileError:
        return None
