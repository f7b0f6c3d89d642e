"""The values of an expression, computed from columns that are aligned on steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UsageError
from stepscope.kernels import smooth
from stepscope.store.expression import Node, Number, Tag
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
    for number, each in enumerate(series):
        step, wall, value = each.points.columns
        again = each.superseded_from if number < len(series) - 1 else None
        kept = slice(None) if again is None else np.flatnonzero(step < again)
        steps.append(step[kept].astype(np.int64))
        walls.append(wall[kept])
        values.append(value[kept].astype(np.float64))
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
    arguments = [_value(argument, columns, start) for argument in node.arguments]
    if node.name in PLAIN:
        return _elementwise(PLAIN[node.name], arguments, start)
    if node.name == "hold":
        return replace(arguments[0], held=True) if isinstance(arguments[0], SteppedValues) else arguments[0]
    if not isinstance(arguments[0], SteppedValues):
        raise UsageError(f"{node.name} of no tag", hint=f"give it one: {node.name}(loss)")
    return ALONG[node.name](arguments[0], *[_number(node.name, each) for each in arguments[1:]])


def _number(name: str, value: Value) -> float:
    if isinstance(value, float):
        return value
    raise UsageError(f"the second argument of {name} is not a number", hint=f"write {name}(loss, 0.9)")


def _elementwise(function: Callable[..., Any], arguments: list[Value], start: float) -> Value:
    columns = [each for each in arguments if isinstance(each, SteppedValues)]
    if not columns:
        if any(isinstance(each, AxisValues) for each in arguments):
            raise UsageError("an axis without a tag beside it", hint="write it beside a tag: loss * step")
        return float(function(*arguments))
    step = common_steps(columns)
    places = [_places(each, step) for each in columns]
    wall = np.max([each.wall[at] for each, at in zip(columns, places, strict=True)], axis=0)
    values = iter([each.value[at] for each, at in zip(columns, places, strict=True)])
    axes = {"step": step, "elapsed": wall - start}
    filled = [
        next(values)
        if isinstance(each, SteppedValues)
        else axes[each.name]
        if isinstance(each, AxisValues)
        else each
        for each in arguments
    ]
    held = all(each.held for each in columns)
    return SteppedValues(step, wall, np.asarray(function(*filled), np.float64), held)


def common_steps(columns: list[SteppedValues]) -> NDArray[np.int64]:
    """Return the steps that every column has; a held column has all steps from its first on."""
    plain = [each.step for each in columns if not each.held]
    step = plain[0] if plain else np.unique(np.concatenate([each.step for each in columns]))
    for other in plain[1:]:
        if len(other) != len(step) or not np.array_equal(other, step):
            step = np.intersect1d(step, other, assume_unique=True)
    for each in columns:
        if each.held:
            step = step[step >= each.step[0]] if len(each.step) else step[:0]
    return step


def _places(column: SteppedValues, step: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return where a column's values at some steps are."""
    if column.step is step:
        return slice(None)
    if column.held:
        return np.searchsorted(column.step, step, "right") - 1
    return np.searchsorted(column.step, step)


def _power(base: Any, exponent: Any) -> Any:
    return np.power(np.asarray(base, np.float64), exponent)


PLAIN: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda a, b: np.true_divide(np.asarray(a, np.float64), b),
    "**": _power,
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "min": lambda *values: np.minimum.reduce(np.broadcast_arrays(*values)),
    "max": lambda *values: np.maximum.reduce(np.broadcast_arrays(*values)),
}


def ema(column: SteppedValues, weight: float) -> SteppedValues:
    """Smooth as the page does: bias-corrected, over the points, leaving non-finite values alone."""
    if not 0 <= weight < 1:
        raise UsageError(f"ema with weight {weight:g}", hint="use a weight from 0 to below 1")
    average = np.empty(len(column.value), np.float32)
    smooth.average(np.ascontiguousarray(column.value), weight, np.array([0.0, 1.0]), average)
    return replace(column, value=average.astype(np.float64))


def mean(column: SteppedValues, points: float) -> SteppedValues:
    """Average the last points; at the beginning, as many as there are.

    The result is NaN if one of them is not finite.
    """
    if points < 1 or points != int(points):
        raise UsageError(f"mean over {points:g} points", hint="use a whole number from 1 on")
    count = np.minimum(np.arange(1, len(column.value) + 1), int(points))
    finite = np.isfinite(column.value)
    total = np.append(0.0, np.cumsum(np.where(finite, column.value, 0.0)))
    bad = np.append(0, np.cumsum(~finite))
    end = np.arange(1, len(column.value) + 1)
    value = (total[end] - total[end - count]) / count
    return replace(column, value=np.where(bad[end] > bad[end - count], np.nan, value))


def diff(column: SteppedValues) -> SteppedValues:
    """Return the change of each point from the one before."""
    return SteppedValues(column.step[1:], column.wall[1:], np.diff(column.value), column.held)


def rate(column: SteppedValues) -> SteppedValues:
    """Return the change per step since the point before."""
    changed = diff(column)
    return replace(changed, value=changed.value / np.diff(column.step))


def per_second(column: SteppedValues) -> SteppedValues:
    """Return the change per second since the point before; NaN if the clock did not move on."""
    changed, seconds = diff(column), np.diff(column.wall)
    return replace(changed, value=changed.value / np.where(seconds > 0, seconds, np.nan))


def cumsum(column: SteppedValues) -> SteppedValues:
    """Return the sum of all points so far; those that are not finite are left out of it."""
    return replace(column, value=np.cumsum(np.where(np.isfinite(column.value), column.value, 0.0)))


ALONG: dict[str, Callable[..., SteppedValues]] = {
    "ema": ema,
    "mean": mean,
    "diff": diff,
    "rate": rate,
    "per_second": per_second,
    "cumsum": cumsum,
}
