"""The summary of each run on the page, made from the store after every reading."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscope.analyze.sweep import configurations
from stepscope.events.hparams import EXPERIMENT_TAG
from stepscope.health.ring import median
from stepscope.names.kinds import measure_of
from stepscope.names.settings import flatten, is_seed
from stepscope.reading import Problem
from stepscope.serve.feed import Feed
from stepscope.serve.run_series import StepTag, step_tags
from stepscope.serve.types import RunSummary, StepNote, StepTime
from stepscope.store import charts
from stepscope.store.captures import stolen_seconds
from stepscope.store.charts import measured
from stepscope.store.run import RECENT
from stepscope.text import plain_line

if TYPE_CHECKING:
    from stepscope.store import Changes, Log, StoredRun
    from stepscope.store.annotations import Notes, RunNote

CHANGING = ("running", "stalled")
"""States that time alone can change."""
OVERHEAD, OVERHEAD_US = "stepscope/overhead_ratio", "stepscope/overhead_us_per_step"
REPORT_S = 5.0
"""Seconds after which a run reports what recording costs."""
MAX_PROBLEMS = 100
"""Problems of one run that are sent; the rest is one line with their number."""


def publish(
    feed: Feed,
    log: Log,
    changes: Changes,
    notes: Notes,
    names: Iterable[str] = (),
    *,
    now: float,
) -> None:
    """Publish the changes from a reading of the log and from the passing of time.

    Args:
        feed: Receives the changes.
        log: The open log.
        changes: The changes that the reading found.
        notes: People's annotations of runs.
        names: Runs whose annotations have changed.
        now: Seconds since the epoch.
    """
    runs = {run.name: run for run in log.runs()}
    touched = [name for name in (*changes.added, *changes.changed, *names) if name in runs]
    feed.regroups |= bool(changes.removed) or any(
        name not in feed.runs or feed.runs[name].summary.config != runs[name].info.config for name in touched
    )
    if feed.regroups and changes.complete:  # all runs tell it: while they are read it would be told too often
        feed.regroups = False
        grouping = configurations([flatten(run.info.config) for run in runs.values()])
        naming = frozenset(key for key in grouping.seeds if not is_seed(key))
        if naming != feed.naming:
            feed.naming, touched = naming, list(runs)
    others = [
        name for name, entry in feed.runs.items() if name in runs and may_differ(entry.summary, runs[name])
    ]
    summaries = {}
    for name in dict.fromkeys([*touched, *others]):
        summary = summary_of(runs[name], log, notes[name], now=now, naming=feed.naming)
        known = feed.runs.get(name)
        if known is None or known.summary != summary:
            summaries[name] = summary
    new_tags = any(
        name not in feed.runs or feed.runs[name].summary.tags != summary.tags
        for name, summary in summaries.items()
    ) or any(EXPERIMENT_TAG in tags for tags in changes.changed.values())
    if not (summaries or changes.removed or changes.changed or changes.meanings):
        return
    measures = {tag: chart.measure for tag, chart in feed.measured.items()}
    asking = {
        chart.id: chart
        for name, tags in changes.changed.items()
        for tag in tags
        if (chart := feed.measured.get(tag))
        and measure_of(chart.unit, runs[name].newest_size(tag), chart.measure) != chart.measure
    }
    # One run of many may ask for another unit at each of its points: what all runs need decides.
    rescaled = any(measured(chart, runs.values(), measures) != chart.measure for chart in asking.values())
    feed.publish(
        summaries=summaries.values(),
        dirty={name: sorted(tags) for name, tags in changes.changed.items()},
        removed=changes.removed,
        charts=charts(log, measures) if new_tags or changes.removed or changes.meanings or rescaled else None,
    )


def may_differ(summary: RunSummary, run: StoredRun) -> bool:
    """Return whether time, or other runs that came or went, can have changed a run without new points."""
    related = (run.base, run.split, run.parent) != (summary.base, summary.split, summary.parent)
    return summary.state in CHANGING or related or run.info.config != summary.config


def summary_of(
    run: StoredRun, log: Log, note: RunNote, *, now: float, naming: Collection[str] = ()
) -> RunSummary:
    """Return one run as the page shows it; unrecorded fields are None.

    Args:
        run: The run.
        log: Its log.
        note: People's annotations of it.
        now: Seconds since the epoch.
        naming: Settings that only number or name the runs of the log.
    """
    info = run.info
    state, reason = run.condition(now=now)
    costs = recording_costs(run)
    left, dropped = run.time_left, last_value(run, "stepscope/dropped_points")
    return RunSummary(
        name=run.name,
        base=run.base,
        split=run.split,
        parent=run.parent,
        state=state,
        reason=reason,
        step=run.last_step,
        total_steps=info.total_steps,
        started=info.started,
        updated=run.last_wall,
        attempts=max((writer.attempt for writer in run.writers), default=0),
        writers=len(run.writers),
        points=run.num_points(),
        tags=run.tags(),
        labels=list(info.labels if note.tags is None else note.tags),
        title=shown_title(run.name, note.title),
        note=note.note,
        archived=note.archived,
        colour=note.colour,
        step_notes=[StepNote(mark.step, mark.text) for mark in note.steps],
        config=info.config,
        seeds=[key for key in flatten(info.config) if is_seed(key) or key in naming],
        problems=problems_of(run.problems, log),
        overhead_ratio=costs.ratio,
        profiles_ratio=costs.profiles_ratio,
        overhead_us_per_step=costs.us_per_step,
        dropped=None if dropped is None else int(dropped),
        steps_per_second=run.steps_per_second,
        step_time=step_time(run),
        eta_seconds=None if left is None else left.seconds,
        eta_between=None if left is None or left.between is None else list(left.between),
        host=info.host,
        version=info.version,
    )


def shown_title(name: str, title: str | None) -> str | None:
    """Return what a run is called on the page if that is not its name: nothing in it is hidden."""
    shown = plain_line(name if title is None else title)
    return None if title is None and shown == name else shown


class RecordingCosts(NamedTuple):
    """The time that recording took, each figure None if the run does not record it.

    Attributes:
        ratio: Share of the time, profiles included.
        profiles_ratio: The profiles' part of it.
        us_per_step: Microseconds of a step without profiles, over the same reports.
    """

    ratio: float | None
    profiles_ratio: float | None
    us_per_step: float | None


def recording_costs(run: StoredRun) -> RecordingCosts:
    """Return what recording took of a run's time so far: means of its reports by their time."""
    begun, ended, stolen = run.info.started or run.first_wall, run.last_wall, stolen_seconds(run)
    profiles = None
    if stolen is not None and begun is not None and ended is not None and ended > begun:
        profiles = stolen / (ended - begun)
    seconds, elapsed, steps, timed = 0.0, 0.0, 0.0, 0.0
    per_step = {(series.writer, series.attempt): series for series in run.own_columns(OVERHEAD_US)}
    for series in run.own_columns(OVERHEAD):
        ratio, wall = series.value[: len(series)].astype(np.float64), series.wall[: len(series)]
        gaps = np.diff(wall)
        # When the first began is not recorded: the others say for how long one counts.
        spans = np.concatenate([[np.median(gaps) if len(gaps) else REPORT_S], gaps])
        known = np.isfinite(ratio) & (spans > 0)
        spent = np.where(known, ratio * spans, 0.0)
        seconds, elapsed = seconds + float(spent.sum()), elapsed + float(spans[known].sum())
        if (us := per_step.get((series.writer, series.attempt))) is not None:
            _, at, of = np.intersect1d(wall, us.wall[: len(us)], return_indices=True)
            cost = 1e-6 * us.value[of].astype(np.float64)
            good = known[at] & (cost > 0)
            steps += float((spent[at][good] / cost[good]).sum())
            timed += float(spent[at][good].sum())
    calls = seconds / elapsed if elapsed else None
    parts = [part for part in (calls, profiles) if part is not None]
    return RecordingCosts(sum(parts) if parts else None, profiles, 1e6 * timed / steps if steps else None)


def step_time(run: StoredRun) -> StepTime | None:
    """Return how long its steps take now; None if no tag records it."""
    tags = step_tags(run)
    time, wait = tags.get("step_time"), tags.get("data_wait")
    seconds = time and newest_s(run, time)
    return StepTime(seconds, newest_s(run, wait) if wait else None) if seconds else None


def newest_s(run: StoredRun, timed: StepTag) -> float | None:
    """Return the median of the newest points of a time, in seconds."""
    series = run.columns(timed.tag)[-1]
    values = series.value[: len(series)][-RECENT:].astype(np.float64)
    values = values[np.isfinite(values)]
    return median(values) * timed.seconds if len(values) else None


def problems_of(problems: list[Problem], log: Log) -> list[Problem]:
    """Return the first hundred problems, their files relative to the log directory or the home."""
    home = str(Path.home())  # clients need not know where it or the log directory lies
    shown = [
        replace(
            problem, file=problem.file and problem.file.removeprefix(f"{log.path}/").replace(home, "~", 1)
        )
        for problem in problems[:MAX_PROBLEMS]
    ]
    left = len(problems) - len(shown)
    return shown + ([Problem("more", left, None, f"{left} more problems")] if left else [])


def last_value(run: StoredRun, tag: str) -> float | None:
    """Return the newest value of a tag, None if there is none or it is not finite."""
    if tag not in run.tags():
        return None
    value = float(run.columns(tag)[-1].last.value)
    return value if math.isfinite(value) else None
