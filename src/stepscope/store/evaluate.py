"""The values of an expression, computed from columns that are aligned on steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UsageError
from stepscope.expression import AT, OPERATORS, Node, Number, Tag, Window
from stepscope.kernels import smooth
from stepscope.store.series import Series

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SteppedValues:
    """Values at ascending steps, each step occurring once.

    Attributes:
        held: Each value holds until the next one, instead of for its own step only.
    """

    step: NDArray[np.int64]
    wall: Floats
    value: Floats
    held: bool = False


@dataclass(frozen=True, slots=True)
class AxisValues:
    """An axis, whose values are known once the steps are."""

    name: str


Value = SteppedValues | AxisValues | float


def column_of(series: list[Series]) -> SteppedValues:
    """Return series as one column, with the newest value of a step that was recorded again."""
    steps, walls, values = [], [], []
    for number, line in enumerate(series):
        step, wall, value = line.points.columns
        again = line.superseded_from if number < len(series) - 1 else None
        rows = slice(None) if again is None else np.flatnonzero(step < again)
        steps.append(step[rows].astype(np.int64))
        walls.append(wall[rows])
        values.append(value[rows].astype(np.float64))
    if not steps:
        return SteppedValues(np.empty(0, np.int64), np.empty(0), np.empty(0))
    return ordered(np.concatenate(steps), np.concatenate(walls), np.concatenate(values))


def ordered(step: NDArray[np.int64], wall: Floats, value: Floats) -> SteppedValues:
    """Return points by ascending step, of each step the one recorded last."""
    if (step[1:] > step[:-1]).all():
        return SteppedValues(step, wall, value)
    order = np.argsort(step, kind="stable")
    step = step[order]
    newest = np.append(step[1:] != step[:-1], True)
    taken = order[newest]
    return SteppedValues(step[newest], wall[taken], value[taken])


def evaluate(node: Node, columns: dict[str, SteppedValues], start_wall: float) -> SteppedValues:
    """Return the values of an expression that names at least one tag.

    Raises:
        UsageError: A function's second argument is not a number in its range.
    """
    result = _value(node, columns, start_wall)
    assert isinstance(result, SteppedValues)
    return result


def _value(node: Node, columns: dict[str, SteppedValues], start: float) -> Value:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Tag):
        return AxisValues(node.name) if node.axis else columns[node.name]
    if isinstance(node, Window):
        series = _value(node.argument, columns, start)
        assert isinstance(series, SteppedValues)  # the parser refuses a window of no tag
        return along(node, series)
    arguments = [_value(argument, columns, start) for argument in node.arguments]
    if node.name == "hold":
        return replace(arguments[0], held=True) if isinstance(arguments[0], SteppedValues) else arguments[0]
    return _elementwise(OPERATORS[node.name], arguments, start)


def _elementwise(function: Callable[..., Any], arguments: list[Value], start: float) -> Value:
    columns = [argument for argument in arguments if isinstance(argument, SteppedValues)]
    if not columns:
        if any(isinstance(argument, AxisValues) for argument in arguments):
            raise UsageError("an axis without a tag beside it", hint="write it beside a tag: loss * step")
        return float(function(*arguments))
    step = common_steps(columns)
    places = [_places(column, step) for column in columns]
    wall = np.max([column.wall[at] for column, at in zip(columns, places, strict=True)], axis=0)
    values = iter([column.value[at] for column, at in zip(columns, places, strict=True)])
    axes = {"step": step, "elapsed": wall - start}
    filled = [
        next(values)
        if isinstance(argument, SteppedValues)
        else axes[argument.name]
        if isinstance(argument, AxisValues)
        else argument
        for argument in arguments
    ]
    held = all(column.held for column in columns)
    return SteppedValues(step, wall, np.asarray(function(*filled), np.float64), held)


def common_steps(columns: list[SteppedValues]) -> NDArray[np.int64]:
    """Return the steps that every column has; a held column has all steps from its first on."""
    plain = [column.step for column in columns if not column.held]
    step = plain[0] if plain else np.unique(np.concatenate([column.step for column in columns]))
    for other in plain[1:]:
        if len(other) != len(step) or not np.array_equal(other, step):
            step = np.intersect1d(step, other, assume_unique=True)
    for column in columns:
        if column.held:
            step = step[step >= column.step[0]] if len(column.step) else step[:0]
    return step


def _places(column: SteppedValues, step: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return the places of a column's values at some steps."""
    if column.step is step:
        return slice(None)
    if column.held:
        return np.searchsorted(column.step, step, "right") - 1
    return np.searchsorted(column.step, step)


MAX_WORK = 200_000_000
"""Values that the windows of a series may look at together: some seconds."""


def along(window: Window, column: SteppedValues) -> SteppedValues:
    """Return the values of a window, from the first point on at which there are enough.

    Values that are not finite are left out.

    Raises:
        UsageError: The window is too long for so many points.
    """
    finite = np.isfinite(column.value)
    column = replace(column, step=column.step[finite], wall=column.wall[finite], value=column.value[finite])
    if window.name == AT:
        return _at(column, window.points)
    first = window.needed - 1
    enough = len(column.value) > first
    value = _ALONG[window.name](column, window.points) if enough else column.value[:0]
    return replace(column, step=column.step[first:], wall=column.wall[first:], value=value)


def _at(column: SteppedValues, step: int) -> SteppedValues:
    """Return the value at a step at every point from there on."""
    before = column.value[column.step <= step]
    later = column.step >= step
    if not len(before):
        later[:] = False
    value = np.full(int(later.sum()), before[-1] if len(before) else np.nan)
    return replace(column, step=column.step[later], wall=column.wall[later], value=value)


def _ema(column: SteppedValues, points: int) -> Floats:
    average = np.empty(len(column.value), np.float32)
    weight = 1 - 2 / (points + 1)
    decay = np.full(len(average), weight)
    smooth.average(np.ascontiguousarray(column.value), decay, np.zeros(2), average)
    return average[points - 1 :].astype(np.float64)


def _mean(column: SteppedValues, points: int) -> Floats:
    total = np.append(0.0, np.cumsum(column.value))
    return np.asarray((total[points:] - total[:-points]) / points)


def _sliding(function: Callable[[Floats], Floats]) -> Callable[[SteppedValues, int], Floats]:
    return lambda column, points: _by_parts(
        lambda begin, end: function(_windows(column.value[begin:end], points)), column, points
    )


def _slope(column: SteppedValues, points: int) -> Floats:
    def part(begin: int, end: int) -> Floats:
        steps = _windows(column.step[begin:end].astype(np.float64), points)
        apart = steps - steps.mean(-1, keepdims=True)
        slopes = (apart * _windows(column.value[begin:end], points)).sum(-1) / (apart * apart).sum(-1)
        return np.asarray(slopes)

    return _by_parts(part, column, points)


def _windows(values: Floats, points: int) -> Floats:
    return np.lib.stride_tricks.sliding_window_view(values, points)


def _by_parts(function: Callable[[int, int], Floats], column: SteppedValues, points: int) -> Floats:
    """Compute windows some million values at a time."""
    count = len(column.value) - points + 1
    if count * points > MAX_WORK:
        raise UsageError(
            f"a window of {points:,} of {len(column.value):,} points is too long",
            hint="use a shorter one, or mean",
        )
    size = max(1, (1 << 20) // points)
    parts = [function(at, min(at + size, count) + points - 1) for at in range(0, count, size)]
    return np.concatenate(parts)


def _extreme(
    accumulate: Callable[[Floats], Floats], reduce: Callable[[Floats], Floats]
) -> Callable[..., Floats]:
    sliding = _sliding(reduce)
    return lambda column, points: sliding(column, points) if points else accumulate(column.value)


def _delta(column: SteppedValues, points: int) -> Floats:
    return column.value[points:] - column.value[:-points]


def _elapsed(column: SteppedValues) -> Floats:
    """Return the seconds between points; NaN if the clock did not move on."""
    seconds = np.diff(column.wall)
    return np.where(seconds > 0, seconds, np.nan)


_ALONG: dict[str, Callable[[SteppedValues, int], Floats]] = {
    "ema": _ema,
    "mean": _mean,
    "median": _sliding(lambda windows: np.median(windows, -1)),
    "std": _sliding(lambda windows: windows.std(-1, ddof=1)),
    "min": _extreme(np.minimum.accumulate, lambda windows: windows.min(-1)),
    "max": _extreme(np.maximum.accumulate, lambda windows: windows.max(-1)),
    "slope": _slope,
    "delta": _delta,
    "last": lambda column, points: column.value[: len(column.value) - points],
    "rate": lambda column, points: _delta(column, points) / np.diff(column.step),
    "per_second": lambda column, points: _delta(column, points) / _elapsed(column),
    "cumsum": lambda column, points: np.cumsum(column.value),
    "count": lambda column, points: np.arange(1.0, len(column.value) + 1),
}
