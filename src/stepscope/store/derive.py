"""Series computed from others by an expression, aligned on steps.

A point exists at every step that all tags of the expression have recorded; nothing is interpolated. If a step
was recorded twice, the newer value counts. ``hold(tag)`` stands for the newest value at or before each step
instead, for tags that are recorded rarely. A result is a series like any other: it can be drawn, smoothed,
bucketed and saved.

Another tag may also be the x axis: loss over tokens, accuracy over epochs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UnknownTagError
from stepscope.expression import Node, Tag, parse, plain_tags, tags_of
from stepscope.lru import Current
from stepscope.store.evaluate import column_of, evaluate
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.series import Series

if TYPE_CHECKING:
    from stepscope.store.run import StoredRun


@dataclass(frozen=True, slots=True)
class Derived:
    """The result of an expression for a run.

    Attributes:
        series: One per writer and attempt of its first tag.
        note: Why there is no point although every tag has some; empty if there are points.
    """

    series: list[Series]
    note: str


def derive(run: StoredRun, text: str) -> Derived:
    """Return the series of an expression for a run; tags are also looked up in the runs of its family.

    Raises:
        ExpressionError: The text is not an expression.
        UnknownTagError: Neither the run nor its family has one of the tags.
    """
    node = parse(text)
    names = tags_of(node)
    by_tag = {tag.name: _lookup(run, tag) for tag in names}
    held = by_tag.keys() - plain_tags(node)
    lead = next((tag.name for tag in names if tag.name not in held), names[0].name)
    series = [line for tag in by_tag for line in by_tag[tag]]
    key = text, run.name, tuple(line.points.serial for line in series)
    points = tuple((line.points.count, line.superseded_from) for line in series)
    return _known.of(key, points, lambda: _derived(run, text, node, by_tag, lead, held))


def _lookup(run: StoredRun, tag: Tag) -> list[Series]:
    try:
        return run.find(tag.name)
    except UnknownTagError as error:
        head, _, last = tag.name.rpartition("/")
        if head and not tag.quoted and last.isdecimal():
            raise UnknownTagError(error.message, hint=f"for a division write {head} / {last}") from None
        raise


def _derived(
    run: StoredRun, text: str, node: Node, by_tag: dict[str, list[Series]], lead: str, held: set[str]
) -> Derived:
    results: list[Series] = []
    for first in by_tag[lead]:
        columns = {
            name: column_of(_matching(series, first, held=name in held)) for name, series in by_tag.items()
        }
        with np.errstate(all="ignore"):
            result = evaluate(node, columns, first.start_wall)
        if len(result.step):
            points = SeriesPoints(SeriesColumns(result.step, result.wall, result.value))
            results.append(replace(first, run=run.name, tag=text, split=None, points=points))
    return Derived(results, "" if results else _why_empty(by_tag))


def _why_empty(by_tag: dict[str, list[Series]]) -> str:
    """Return, for the note, why there is no point: no common step of several tags, or too few of one."""
    if len(by_tag) == 1:
        return "no value yet: a function needs more points, or the step of at() is not reached"
    texts = []
    for name, series in by_tag.items():
        steps = series[0].step[:2].tolist()
        texts.append(f"{name} at {', '.join(map(str, steps))}{', …' if len(series[0]) > 2 else ''}")
    return f"no step in common: {'; '.join(texts)}"


def _matching(series: list[Series], first: Series, *, held: bool) -> list[Series]:
    """Return which series of a tag belong to one of the leading tag.

    These are those of the same writer and attempt, or else all attempts of another writer, such as a process
    that evaluates.
    """
    same = [line for line in series if line.writer == first.writer]
    if not same:
        return [line for line in series if line.writer == series[0].writer]
    if held:  # what was known before a restart still stands after it
        return [line for line in same if line.attempt <= first.attempt]
    return [line for line in same if line.attempt == first.attempt]


def size_bytes(derived: Derived) -> int:
    """Return the memory that derived points take."""
    return sum(column.nbytes for line in derived.series for column in line.points.columns) + 200


_known: Current[Hashable, Derived] = Current(256 << 20, size_bytes)
"""The series of the newest points, by expression, run and tags."""


@dataclass(frozen=True, slots=True)
class Across:
    """The x values of a series' points, in recorded order.

    Attributes:
        x: NaN for points without a place.
        ascending: Whether it never falls and is always finite.
        interpolated: Points that lie between two recorded x.
        missing: Points without a place.
    """

    x: NDArray[np.float64]
    ascending: bool
    interpolated: int
    missing: int


def across(series: Series, other: list[Series]) -> Across:
    """Place a series' points on another tag's values.

    A point's x is the other tag's value at its step: exactly there if it was recorded at that step, otherwise
    on the straight line between the steps around it. A point before the other tag's first step or after its
    last has no place; both kinds are counted, so that a chart can say so.

    Args:
        series: The series whose points are placed.
        other: The series of the other tag; empty if the run does not have it.
    """
    step = series.points.columns.step
    column = column_of(belonging(series, other))
    finite = np.isfinite(column.value)
    steps, values = column.step[finite], column.value[finite]
    if not len(steps):
        return Across(np.full(len(step), np.nan), False, 0, len(step))
    x = np.interp(step, steps, values, left=np.nan, right=np.nan)
    at = np.minimum(np.searchsorted(steps, step), len(steps) - 1)
    placed = ~np.isnan(x)
    exact = int(np.count_nonzero(steps[at] == step))
    present = int(np.count_nonzero(placed))
    ascending = present == len(x) and bool((x[1:] >= x[:-1]).all())
    return Across(x, ascending, present - exact, len(x) - present)


def belonging(series: Series, other: list[Series]) -> list[Series]:
    """Return those of another tag's series that cover the same steps.

    These are the series of the same writer and attempt, or else all of one writer.
    """
    own = [line for line in other if line.writer == series.writer and line.attempt == series.attempt]
    return own or [line for line in other if line.writer == other[0].writer]
