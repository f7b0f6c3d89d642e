"""Series computed from others by an expression, aligned on steps.

A point exists at every step that all tags of the expression have recorded; nothing is interpolated. If a step
was recorded twice, the newer value counts. ``hold(tag)`` stands for the newest value at or before each step
instead, for tags that are recorded rarely. A result is a series like any other: it can be drawn, smoothed,
bucketed and saved.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

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
