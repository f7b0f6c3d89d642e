"""One source for each series: a program often prints, rounded, what it also gives to a tracker, or to two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRINTED = "printed"
"""The source of what is printed, logged or shown beside a bar; others are named after their package."""


class _Series:
    """The source of one series, and how far it is."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.values = 0
        self.step: int | None = None
        self.seen: dict[str, int] = {}
        """By other source: how many values there were when it gave its last one."""


class Sources:
    """Decides which values are new; the same measurement comes from one source, not from two in turns.

    A series keeps its source until that falls silent. The values of a tracker have all digits, so it takes a
    series over from what is printed.
    """

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def news(self, source: str, values: Mapping[str, Any], step: int | None) -> dict[str, Any]:
        """Return those values that no other source gives.

        Args:
            source: ``PRINTED`` or a package.
            values: By the name of the series.
            step: Theirs, None if it is unknown.
        """
        return {name: value for name, value in values.items() if self._is_new(source, name, step)}

    def _is_new(self, source: str, name: str, step: int | None) -> bool:
        series = self._series.get(name)
        if series is None:
            series = self._series[name] = _Series(source)
        elif series.source == PRINTED:
            series.source = source
        if source != series.source:
            # Lines may be read some time after they were printed, when their steps are long over.
            over = step is not None and series.step is not None and step <= series.step
            given = series.values > series.seen.get(source, 0)
            series.seen[source] = series.values
            if over or given:
                return False
            series.source = source
        series.values += 1
        series.step = step
        return True
