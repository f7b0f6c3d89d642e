"""Hands the series of one attempt to the rules in chronological order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.health import Alert, Monitor, Verdict
from stepscope.health.batch import rising_times
from stepscope.health.changes import RecordedSeries
from stepscope.health.monitor import Choice
from stepscope.names.meanings import NAMED, Meanings

MOST_AT_ONCE = 2_000_000
"""Points handed over at once; it bounds the memory that ordering them takes."""


@dataclass(frozen=True, eq=False)
class AttemptSeries:
    """All series of one attempt of a run: of its evaluation and of all its ranks too."""

    number: int
    series: list[RecordedSeries] = field(default_factory=list)


def judge(
    attempt: AttemptSeries,
    *,
    rules: Choice | None = None,
    meanings: Meanings = NAMED,
    alerts: Iterable[str | Alert] = (),
    config: Mapping[str, Any] | None = None,
) -> Verdict:
    """Apply the rules to one attempt.

    Args:
        attempt: Its series.
        rules: As for ``HealthHook``.
        meanings: The meanings of tags.
        alerts: As for ``HealthHook``.
        config: The recorded configuration of the run.

    Raises:
        UsageError: An unknown rule or threshold, or a malformed condition.
    """
    monitor = Monitor(rules, meanings, alerts=alerts)
    monitor.configured(config or {})
    several = len({points.run for points in attempt.series}) > 1
    times = [rising_times(np.asarray(points.wall, np.float64)) for points in attempt.series]
    for until in stretches(times):
        for points, walls in zip(attempt.series, times, strict=True):
            rows = slice(*np.searchsorted(walls, until).tolist())
            if rows.stop > rows.start:
                monitor.take(
                    points.tag,
                    points.step[rows],
                    points.value[rows],
                    points.wall[rows],
                    rank=points.rank,
                    run=points.run if several else "",
                    split=points.split,
                )
        monitor.advance(until[1])
    monitor.finish()
    return monitor.verdict


def stretches(times: list[NDArray[np.float64]]) -> list[tuple[float, float]]:
    """Return stretches of time that together hold everything, each of them a bounded number of points."""
    parts = -(-sum(map(len, times)) // MOST_AT_ONCE)
    ends: list[float] = []
    if parts > 1:
        every = np.concatenate(times)
        every = every[np.isfinite(every)]
        ends = np.unique(np.quantile(every, np.arange(1, parts) / parts)).tolist() if len(every) else []
    return list(pairwise([float("-inf"), *ends, float("inf")]))
