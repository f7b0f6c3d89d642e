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
from stepscope.lru import Lru
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
    found = {tag.name: _lookup(run, tag) for tag in names}
    held = found.keys() - plain_tags(node)
    lead = next((tag.name for tag in names if tag.name not in held), names[0].name)
    series = [each for tag in found for each in found[tag]]
    key = text, run.name, tuple(each.points.serial for each in series)
    points = tuple((each.points.count, each.superseded_from) for each in series)
    known = _known.get(key)
    if known is None or known[0] != points:
        known = points, _derived(run, text, node, found, lead, held)
        _known.put(key, known)
    return known[1]


def _lookup(run: StoredRun, tag: Tag) -> list[Series]:
    try:
        return run.find(tag.name)
    except UnknownTagError as error:
        head, _, last = tag.name.rpartition("/")
        if head and not tag.quoted and last.isdecimal():
            raise UnknownTagError(error.message, hint=f"for a division write {head} / {last}") from None
        raise


def _derived(
    run: StoredRun, text: str, node: Node, found: dict[str, list[Series]], lead: str, held: set[str]
) -> Derived:
    results: list[Series] = []
    for first in found[lead]:
        columns = {
            name: column_of(_matching(series, first, held=name in held)) for name, series in found.items()
        }
        with np.errstate(all="ignore"):
            result = evaluate(node, columns, first.start_wall)
        if len(result.step):
            points = SeriesPoints(SeriesColumns(result.step, result.wall, result.value))
            results.append(replace(first, run=run.name, tag=text, split=None, points=points))
    return Derived(results, "" if results else _why_empty(found))


def _why_empty(found: dict[str, list[Series]]) -> str:
    """Return, for the note, which steps each tag has if they have none in common."""
    said = []
    for name, series in found.items():
        steps = series[0].step[:2].tolist()
        said.append(f"{name} at {', '.join(map(str, steps))}{', …' if len(series[0]) > 2 else ''}")
    return f"no step in common: {'; '.join(said)}"


def _matching(series: list[Series], first: Series, *, held: bool) -> list[Series]:
    """Return which series of a tag belong to one of the leading tag.

    These are those of the same writer and attempt, or else all attempts of another writer, such as a process
    that evaluates.
    """
    same = [each for each in series if each.writer == first.writer]
    if not same:
        return [each for each in series if each.writer == series[0].writer]
    if held:  # what was known before a restart still stands after it
        return [each for each in same if each.attempt <= first.attempt]
    return [each for each in same if each.attempt == first.attempt]


def size_bytes(derived: Derived) -> int:
    """Return the memory that derived points take."""
    return sum(column.nbytes for each in derived.series for column in each.points.columns) + 200


_known: Lru[Hashable, tuple[Hashable, Derived]] = Lru(256 << 20, lambda entry: size_bytes(entry[1]))
"""The series of the newest points, by expression, run and tags."""
