"""Several runs as one line: their mean, and a band around it.

If few enough points are in view, every run counts with its own values at every x that any run of the chart
has; a run without a point there counts with the straight line between its neighbours, never beyond its first
and last. If there are more, every run counts with the mean of its points in each bucket, a bucket between
two others likewise. The places filled in like this are counted. Values that are not finite are left out and
counted, as are those that a restart recorded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.names.splits import Split
from stepscope.store.grid import Grid, real_grid, whole_grid
from stepscope.store.query import RAW_ROWS_PER_BUCKET, Array, Axis, SeriesLine, View, XAxis, extent
from stepscope.store.series import Series
from stepscope.store.smooth import smoothed

Band = Literal["std", "minmax", "stderr"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Member:
    """The points in view of one writer of one run, by ascending x; finite values only.

    Attributes:
        points: Points in view, those that are not finite included.
    """

    x: Floats
    value: Floats
    points: int
    nonfinite: int


@dataclass(frozen=True, slots=True)
class GroupLine:
    """The mean of a group.

    Attributes:
        members: Writers of runs that it is the mean of.
        filled: Places at which a run had no point of its own and was interpolated.
        line: ``mean low high`` (NaN: no run there) and ``count``, the runs at each place.
    """

    group: str
    tag: str
    split: Split | None
    members: int
    filled: int
    line: SeriesLine


@dataclass(frozen=True, slots=True)
class Grouped:
    """The groups that are shown."""

    view: View
    groups: list[GroupLine]


def grouped(
    series: Sequence[Series],
    axes: Sequence[Axis],
    names: Sequence[str],
    *,
    kind: XAxis,
    x0: float | None,
    x1: float | None,
    buckets: int,
    weights: Sequence[float],
    band: Band,
) -> Grouped:
    """Return the mean and band of every group.

    Args:
        series: The lines.
        axes: The x of each.
        names: The group of each.
        kind: The quantity on the x axis.
        x0: First x, None for the beginning of the data.
        x1: Last x, None for the end.
        buckets: Most places of a line.
        weights: Of each line, the weight of the exponential average that is taken before the mean.
        band: ``std``, the sample's standard deviation; ``stderr``, that over the root of the number of
            runs; or ``minmax``, over all points.
    """
    begin, end = extent(list(axes), x0, x1)
    if begin is None or end is None:
        return Grouped(View("groups", x0, x1, None, 0, 0, []), [])
    keys = [
        (name, line.tag, line.split, line.run, line.writer) for name, line in zip(names, series, strict=True)
    ]
    attempts: dict[tuple[str, str, Split | None, str, str], list[Member]] = {}
    for key, line, axis, weight in zip(keys, series, axes, weights, strict=True):
        attempts.setdefault(key, []).append(member_of(line, axis, begin, end, weight))
    members: dict[tuple[str, str, Split | None], list[Member]] = {}
    for key, parts in attempts.items():
        members.setdefault(key[:3], []).append(joined(parts))
    whole = whole_grid if kind == "step" else real_grid
    everyone = [member for one in members.values() for member in one]
    places = common_places(everyone, buckets)
    grid = whole(begin, end, buckets) if places is None else None
    x = places if grid is None else grid.middles
    assert x is not None
    groups = [
        group_line(key, own, x, grid, band, minmax=band == "minmax" and not any(weights))
        for key, own in members.items()
    ]
    total = sum(group.line.points for group in groups)
    view = View("groups", float(begin), float(end), x, total, total, [group.line for group in groups])
    return Grouped(view, groups)


def member_of(series: Series, axis: Axis, begin: float, end: float, smoothing: float) -> Member:
    """Return the points of a series in view that no later attempt went over again."""
    x: Array = axis.x
    value = series.points.columns.value[: len(x)]
    if smoothing:
        value = smoothed(series.points, smoothing)[: len(x)]
    inside = (x >= begin) & (x <= end)
    if series.superseded_from is not None:
        inside &= series.points.columns.step[: len(x)] < series.superseded_from
    taken = slice(None) if inside.all() else inside
    own, shown = x[taken].astype(np.float64), value[taken].astype(np.float64)
    finite = np.isfinite(shown)
    count = len(own)
    if not finite.all():
        own, shown = own[finite], shown[finite]
    if not axis.ascending:
        order = np.argsort(own, kind="stable")
        own, shown = own[order], shown[order]
    return Member(own, shown, count, count - len(own))


def joined(parts: list[Member]) -> Member:
    """Return the attempts of one writer as one."""
    if len(parts) == 1:
        return parts[0]
    x, value = np.concatenate([part.x for part in parts]), np.concatenate([part.value for part in parts])
    order = np.argsort(x, kind="stable")
    points, bad = sum(part.points for part in parts), sum(part.nonfinite for part in parts)
    return Member(x[order], value[order], points, bad)


def common_places(members: Sequence[Member], buckets: int) -> Floats | None:
    """Return every x of any member, None if they are too many to be drawn one by one."""
    if any(len(member.x) > buckets for member in members):
        return None
    places = np.unique(np.concatenate([member.x for member in members])) if members else np.empty(0)
    return places if len(places) <= RAW_ROWS_PER_BUCKET * buckets else None


def group_line(
    key: tuple[str, str, Split | None],
    members: Sequence[Member],
    x: Floats,
    grid: Grid | None,
    band: Band,
    *,
    minmax: bool,
) -> GroupLine:
    """Return the mean and the band of one group at some x."""
    values = np.empty((len(members), len(x)))
    least, most = values, values
    if minmax and grid is not None:
        least, most = np.empty_like(values), np.empty_like(values)
    filled = 0
    for row, member in enumerate(members):
        at, mean, low, high = reduced(member, x, grid)
        values[row] = np.interp(x, at, mean, left=np.nan, right=np.nan) if len(at) else np.nan
        if least is not values:
            least[row] = np.interp(x, at, low, left=np.nan, right=np.nan) if len(at) else np.nan
            most[row] = np.interp(x, at, high, left=np.nan, right=np.nan) if len(at) else np.nan
        filled += int(np.count_nonzero(~np.isnan(values[row]))) - len(at)
    line = SeriesLine(
        sum(part.points for part in members),
        sum(part.nonfinite for part in members),
        None,
        statistics(values, least, most, band),
    )
    return GroupLine(*key, len(members), filled, line)


def reduced(member: Member, x: Floats, grid: Grid | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the places of a member's points with mean, minimum and maximum; of equal x the newest counts."""
    if grid is None:
        newest = np.append(member.x[1:] != member.x[:-1], True)[: len(member.x)]
        at, value = member.x[newest], member.value[newest]
        return at, value, value, value
    if not len(member.x):
        return member.x, member.value, member.value, member.value
    starts = grid.starts.astype(np.float64)
    edges = np.append(np.searchsorted(member.x, starts), len(member.x))
    own = np.flatnonzero(edges[1:] > edges[:-1])
    begins = edges[own]
    count = edges[own + 1] - begins
    mean = np.add.reduceat(member.value, begins) / count
    return x[own], mean, np.minimum.reduceat(member.value, begins), np.maximum.reduceat(member.value, begins)


def statistics(values: Floats, least: Floats, most: Floats, band: Band) -> dict[str, Array]:
    """Return mean, band and count over the first axis; for a single run the band is the mean itself."""
    here = ~np.isnan(values)
    count = here.sum(axis=0)
    some = np.maximum(count, 1)
    mean = np.where(here, values, 0).sum(axis=0) / some
    if band == "minmax":
        low = np.where(here, least, np.inf).min(axis=0, initial=np.inf)
        high = np.where(here, most, -np.inf).max(axis=0, initial=-np.inf)
    else:
        squares = np.where(here, (values - mean) ** 2, 0).sum(axis=0)
        spread = np.sqrt(squares / np.maximum(count - 1, 1))
        if band == "stderr":
            spread = spread / np.sqrt(some)
        low, high = mean - spread, mean + spread
    nobody = count == 0
    columns: dict[str, Array] = {"mean": mean, "low": low, "high": high}
    for column in columns.values():
        column[nobody] = np.nan
    return {**columns, "count": count.astype(np.uint32)}
