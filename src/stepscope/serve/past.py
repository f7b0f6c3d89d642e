"""A run among the earlier runs of its log directory: the store's facts about them, for the comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analyze.health.batch_size import BatchSize, batch_size
from stepscope.analyze.health.forecast import Forecast, forecast
from stepscope.analyze.health.past import MAX_RUNS, Past, compare, reached
from stepscope.health import Finding
from stepscope.health.kind import kind_of

if TYPE_CHECKING:
    from stepscope.names.meanings import Meanings
    from stepscope.store import Log, StoredRun

NOISE = "gradients/noise_scale"
TAGS = 2
"""Losses that are compared, those of training first."""
UNFIT = ("adversarial", "reinforcement")
"""Kinds of training whose losses follow no law."""
POINTS = 20_000
"""Most points of a series that are looked at; of longer ones, every n-th."""


def unlike(log: Log, run: StoredRun, meanings: Meanings) -> Iterator[Finding]:
    """Yield the differences of a run from the last finished ones that recorded the same losses."""
    for tag in losses_of(run, meanings)[:TAGS]:
        past = list(islice(earlier(log, run, tag), MAX_RUNS))
        own = run.columns(tag)[-1]
        wall = float(own.wall[-1]) if len(own) else run.info.started or 0.0
        departure = compare(series_of(run, tag), past, tag=tag, wall=wall)
        if departure is not None:
            yield departure


def earlier(log: Log, run: StoredRun, tag: str) -> Iterator[Past]:
    """Yield a series of the finished runs that began before a run, the newest first."""
    begun = run.info.started or 0.0
    others = (
        (other.info, other)
        for other in log.runs()
        if other.name != run.name and other.whole is other and tag in other.files.tags
    )
    before = [
        (info.started or 0.0, other)
        for info, other in others
        if info.status == "finished" and (info.started or 0.0) < begun
    ]
    for _, previous in sorted(before, key=lambda pair: pair[0], reverse=True):
        yield series_of(previous, tag)


def forecasts_of(log: Log, run: StoredRun, meanings: Meanings) -> dict[str, Forecast]:
    """Return forecasts of the final training losses of a run, as far as possible."""
    total, forecasts = run.info.total_steps, {}
    if total is None or run.state != "running" or any(kind_of(tag) in UNFIT for tag in run.tags()):
        return {}
    roles = {tag: meaning.role for tag in run.tags() if (meaning := meanings.role(tag))}
    rates = next((series_of(run, tag).values for tag, role in roles.items() if role == "learning_rate"), None)
    for tag in losses_of(run, meanings)[:1]:
        series = series_of(run, tag)
        ahead = forecast(series.steps, series.values, total - 1, rates)
        if ahead is not None:
            steps = (
                (other.name, reached(other, ahead.value))
                for other in islice(earlier(log, run, tag), MAX_RUNS)
            )
            forecasts[tag] = replace(
                ahead, reached=tuple((name, step) for name, step in steps if step is not None)
            )
    return forecasts


def batch_of(run: StoredRun) -> BatchSize | None:
    """Return the verdict of a run's gradient noise scale on its batch; None if it is not recorded."""
    if NOISE not in run.tags():
        return None
    return batch_size(series_of(run, NOISE).values, run.info.world_size)


def losses_of(run: StoredRun, meanings: Meanings) -> list[str]:
    """Return the tags of a run that are losses, those of training first."""
    losses = [tag for tag in run.tags() if (meaning := meanings.role(tag)) and meaning.role == "loss"]
    return sorted(losses, key=lambda tag: (meanings.part(tag) in ("eval", "test"), tag))


def series_of(run: StoredRun, tag: str) -> Past:
    """Return the newest attempt of a series."""
    newest = run.columns(tag)[-1]
    every = max(1, -(-len(newest) // POINTS))
    steps = np.asarray(newest.step, np.float64)[::every]
    return Past(run.name, steps, np.asarray(newest.value, np.float64)[::every], run.info.config)
