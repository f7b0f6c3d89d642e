"""Finishes the statistics of all ranks and records them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stepscope.events.kinds.histogram import summary
from stepscope.events.messages import Event
from stepscope.record.edges import EDGES
from stepscope.record.statistics.formulas import STATISTICS, finish
from stepscope.record.statistics.table import COUNT, SQUARES, Array, Counts

if TYPE_CHECKING:
    from stepscope.record.run import Run

MOST_KEPT = 64
"""Lists of tags kept; there are more where layers rotate or models change."""


class Writer:
    """Records statistics of named tensors in a run.

    Args:
        run: The run.
        stats: Which statistics.
    """

    def __init__(self, run: Run, stats: Sequence[str]) -> None:
        self.run, self.stats = run, tuple(stats)
        self._tags: dict[tuple[str, tuple[str, ...]], list[list[str]]] = {}

    def rows(self, prefix: str, names: Sequence[str], moments: Array, step: int) -> Mapping[str, Array]:
        """Record each statistic of each row that counts anything, as ``prefix/name/statistic``.

        Returns:
            All statistics, by name.
        """
        found = finish(moments)
        stats = [found[stat] for stat in self.stats if stat in found]
        if stats:
            tags, there = self._tags_of(prefix, tuple(names)), np.flatnonzero(moments[:, COUNT])
            wanted = chain.from_iterable(tags[row] for row in there.tolist())
            self.numbers(dict(zip(wanted, np.stack(stats, 1)[there].ravel().tolist(), strict=True)), step)
        return found

    def _tags_of(self, prefix: str, names: tuple[str, ...]) -> list[list[str]]:
        """Return the tags of each row, made once: they are the same at each sample."""
        found = self._tags.get((prefix, names))
        if found is None:
            if len(self._tags) >= MOST_KEPT:
                self._tags.clear()
            stats = [stat for stat in self.stats if stat in STATISTICS]
            found = [[f"{prefix}/{name}/{stat}" for stat in stats] for name in names]
            self._tags[prefix, names] = found
        return found

    def numbers(self, numbers: Mapping[str, float], step: int) -> None:
        """Record single numbers."""
        if numbers:
            self.run.scalars(numbers, step)

    def histograms(self, prefix: str, names: Sequence[str], counts: Counts, step: int) -> None:
        """Record the histogram of each row that counts anything, as ``prefix/name/histogram``."""
        if not len(counts) or "histogram" not in self.stats:
            return

        def make() -> Event | None:
            found = summary([f"{prefix}/{name}/histogram" for name in names], counts, EDGES)
            return Event(summary=found) if found.unknown else None

        self.run.event(make, step, nbytes=counts.nbytes, tag=f"{prefix}/histogram")


def total_norm(moments: Array) -> float:
    """Return the norm of all rows together; NaN where nothing was counted."""
    if not moments[:, COUNT].any():
        return float("nan")
    return float(np.sqrt(moments[:, SQUARES].sum()))
