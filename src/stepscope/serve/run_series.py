"""Series of a run as answers take them: its tags, the points of one, and how long its steps took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.analyze.judgement import Curve, Judgement, judge
from stepscope.names.roles import meaning_of

if TYPE_CHECKING:
    from stepscope.store import Log, StoredRun
    from stepscope.store.series import Series

Floats = NDArray[np.float64]
TIMED = ("step_time", "data_wait")


def named_tags(run: StoredRun) -> Iterator[tuple[str, StoredRun, str]]:
    """Yield the tags of a run and its parts: the name, such as ``eval/loss``, the part, and its own tag."""
    prefix = "" if run.base == "." else f"{run.base}/"
    for part in (run, *run.parts):
        before = "" if part is run else f"{part.name.removeprefix(prefix)}/"
        for tag in part.tags():
            yield before + tag, part, tag


def tags_of(run: StoredRun) -> dict[str, None]:
    """Return the tags of a run and of its parts, those of parts as ``eval/loss``."""
    return dict.fromkeys(name for name, _, _ in named_tags(run))


def points_of(series: Sequence[Series]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return steps and values of a tag by the writer with most points, without those recorded again later."""
    writers = Counter[str]()
    for one in series:
        writers[one.writer] += len(one)
    chosen = writers.most_common(1)[0][0] if writers else ""
    steps, values = [np.empty(0, np.int64)], [np.empty(0)]
    for one in series:
        if one.writer != chosen:
            continue
        count = len(one)
        step, value = one.step[:count].astype(np.int64), one.value[:count].astype(np.float64)
        if one.superseded_from is not None:
            valid = step < one.superseded_from
            step, value = step[valid], value[valid]
        steps.append(step)
        values.append(value)
    step, value = np.concatenate(steps), np.concatenate(values)
    if len(step) < 2 or (step[1:] >= step[:-1]).all():
        return step, value
    order = np.argsort(step, kind="stable")
    return step[order], value[order]


class StepTag(NamedTuple):
    """A tag that records the times of steps.

    Attributes:
        seconds: One unit of its values.
    """

    tag: str
    seconds: float


def step_tags(run: StoredRun) -> dict[str, StepTag]:
    """Return the tag that says how long a run's steps take, and that of their waits for data, by role."""
    tags: dict[str, StepTag] = {}
    for tag in run.tags():
        meaning = run.meanings.role(tag)
        if meaning is not None and meaning.role in TIMED:
            tags.setdefault(meaning.role, StepTag(tag, meaning.scale))
    return tags


class Timed(NamedTuple):
    """Times of one stage over a training."""

    name: str
    step: NDArray[np.int64]
    ms: NDArray[np.float64]


def timed_of(run: StoredRun) -> Iterator[Timed]:
    """Yield the times of a run's steps and stages, the step first; of several ranks the slowest counts."""
    if run.ranks.count():
        table = run.ranks.stages()
        with np.errstate(all="ignore"):
            whole = np.nansum(table.durations_s, axis=2)
            seen = ~np.isnan(table.durations_s).all(axis=2)
        columns = [("step", np.where(seen, whole, np.nan))]
        columns += [(name, table.durations_s[:, :, at]) for at, name in enumerate(table.stages)]
        for name, seconds in columns:
            good = ~np.isnan(seconds).all(axis=1)
            if good.any():
                yield Timed(
                    name, table.steps[good], 1e3 * np.nanmax(seconds[good], axis=1).astype(np.float64)
                )
        if len(table.steps):
            return
    known = {tag: meaning for tag in tags_of(run) if (meaning := meaning_of(tag)) is not None}
    for role in TIMED:
        for tag in [tag for tag, meaning in known.items() if meaning.role == role][:4]:
            step, value = points_of(run.find(tag))
            good = np.isfinite(value)
            if good.any():
                yield Timed(tag, step[good], value[good] * 1e3 * known[tag].scale)


def recorded_beside(
    log: Log | None, paths: tuple[str, str], captured: tuple[Sequence[int], Sequence[int]]
) -> Judgement | None:
    """Return the verdict on the steps that the runs of two profiles recorded; None unless both did.

    Two runs are judged as every comparison judges them. Of two profiles of one run each has the steps up to
    the middle between them, and as many on its other side, without those that the profiler made longer.

    Args:
        log: The log directory.
        paths: Of the profiles, from it.
        captured: Numbers of the steps in each.
    """
    runs = [_run_of(log, path) for path in paths]
    if None in runs or paths[0] == paths[1]:
        return None
    timed = [steps for run in runs if run is not None for steps in [_steps_of(run)] if steps is not None]
    if len(timed) < len(runs):
        return None
    if runs[0] is not runs[1]:
        return step_times_judged(*([Curve(one.step, one.ms)] for one in timed))
    if not captured[0] or not captured[1]:
        return None
    step, ms = timed[0].step, timed[0].ms
    places = [float(np.mean(numbers)) for numbers in captured]
    middle, reach = sum(places) / 2, abs(places[0] - places[1]) / 2
    free = (step != middle) & ~np.isin(step, [*captured[0], *captured[1]])
    beside = [np.flatnonzero((abs(step - at) < reach) & free) for at in places]
    count = min(map(len, beside))
    if count < 2:
        return None
    sides = [[Curve(np.arange(count), ms[rows[:count]])] for rows in beside]
    ends = [f"{step[rows[count // 2]]:,}\N{EN DASH}{step[rows[count - 1]]:,}" for rows in beside]
    judged = step_times_judged(*sides)
    return judged and replace(
        judged, window=f"mean of steps {ends[0]} and {ends[1]}", why=judged.why.partition(";")[0]
    )


def step_times_judged(a: Sequence[Curve], b: Sequence[Curve]) -> Judgement | None:
    """Return the verdict on how long steps, or stages of them, take."""
    return judge(a, b, lower=True, times=True, disturbed=True)


def _steps_of(run: StoredRun) -> Timed | None:
    """Return the times of a run's steps."""
    for times in timed_of(run):
        meaning = meaning_of(times.name)
        if times.name == "step" or (meaning is not None and meaning.role == TIMED[0]):
            return times
    return None


def _run_of(log: Log | None, path: str) -> StoredRun | None:
    """Return the run in whose directory a profile lies, the innermost one."""
    runs = [] if log is None else [run for run in log.runs() if path.startswith(f"{run.name}/")]
    return max(runs, key=lambda run: len(run.name), default=None)
