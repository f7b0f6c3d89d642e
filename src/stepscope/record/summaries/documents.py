"""Texts, tables, graphs with the costs of their nodes, and layouts of TensorBoard's Custom Scalars page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from stepscope.events.kinds import graph, layout, text
from stepscope.events.kinds.text import Cell, TextTable
from stepscope.events.messages import Event, TaggedRunMetadata, Value
from stepscope.record.problems import shown
from stepscope.record.summaries.encoder import Prepared, bounded, refused
from stepscope.text import counted

_ROWS = "pass rows as dictionaries, or as lists with columns=[…], or a data frame"


def prepare_text(words: Any, description: str = "") -> Prepared:
    """Return a text in Markdown; bytes are UTF-8.

    Raises:
        RefusalError: It is not one.
    """
    data = text_bytes(words)
    return Prepared(lambda tag: [text.value(tag, data, description=description)], bounded(len(data)))


def text_bytes(words: Any) -> bytes:
    """Return a text, or bytes that are one, as UTF-8.

    Raises:
        RefusalError: It is not one.
    """
    if isinstance(words, bytes | bytearray):
        try:
            words = bytes(words).decode()
        except UnicodeDecodeError as error:
            raise refused(f"bytes that are not UTF-8 at {error.start}", "decode them first") from None
    if not isinstance(words, str):
        raise refused(f"{shown(words)}, expected text", "str(value), say")
    try:
        return words.encode()
    except UnicodeEncodeError as error:
        raise refused(
            f"text that is not Unicode at {error.start}", "text.encode('utf-8', 'replace')"
        ) from None


def prepare_table(rows: Any, columns: Sequence[str] | None, description: str = "") -> Prepared:
    """Return a table.

    Args:
        rows: Dictionaries, sequences, or a data frame.
        columns: Names; by default those of the dictionaries or the data frame.
        description: Markdown.

    Raises:
        RefusalError: It is not one.
    """
    held = [table_of(rows, columns)]
    size = bounded(64 * (len(held[0][1]) + 1) * len(held[0][0]))

    def make(tag: str) -> list[Value]:
        """Give the rows back a few at a time: to free all of them is one turn of the interpreter's lock."""
        names, left = held.pop()
        values = text.table_values(tag, TextTable(names, left), description=description)
        while left:
            del left[-text.ROWS_AT_ONCE :]
            time.sleep(0)
        return values

    return Prepared(make, size)


def table_of(rows: Any, columns: Sequence[str] | None) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Return the columns and rows of a user's table."""
    if hasattr(rows, "columns") and not isinstance(rows, Mapping):
        columns, rows = columns or [str(name) for name in rows.columns], _frame_rows(rows)
    if isinstance(rows, str | bytes | Mapping) or not hasattr(rows, "__iter__"):
        raise refused(f"{shown(rows)}, expected the rows of a table", _ROWS)
    table = list(rows)
    if columns is None:
        columns = _names(table)
    if not columns:
        raise refused("a table without columns", _ROWS)
    names = tuple(str(name) for name in columns)
    return names, _held(table, names)


def _names(rows: list[Any]) -> list[str]:
    """Return the names in dictionaries, in the order in which they come; rows mostly have the same."""
    names: dict[str, None] = {}
    last = None
    for row in rows:
        if type(row) is dict:  # told in a fraction of the time
            if row.keys() == last:
                continue
            last = row.keys()
        elif not isinstance(row, Mapping):
            continue
        names |= dict.fromkeys(map(str, row))
    return list(names)


def _held(rows: list[Any], names: tuple[str, ...]) -> list[tuple[Cell, ...]]:
    """Return rows that nobody changes any more; the training waits for it, so most cells stay as they are."""
    cells_of: Callable[[Any], Any] = itemgetter(*names)
    width, kinds = len(names), set[type]()
    held: list[tuple[Any, ...]] = []
    for row in rows:
        if type(row) is dict and len(row) == width and width > 1:
            try:
                cells = cells_of(row)
            except KeyError:
                cells = _row(row, names)
        elif type(row) in (tuple, list) and len(row) == width:
            cells = tuple(row)
        else:
            cells = _row(row, names)
        kinds.update(map(type, cells))
        held.append(cells)
    return held if kinds <= _PLAIN else [tuple(map(_cell, cells)) for cells in held]


def _frame_rows(frame: Any) -> list[Any]:
    if hasattr(frame, "itertuples"):
        return list(frame.itertuples(index=False, name=None))
    return list(frame.iter_rows()) if hasattr(frame, "iter_rows") else list(frame)


def _row(row: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    if isinstance(row, Mapping):
        named = {str(name): value for name, value in row.items()}
        return tuple(map(named.get, names))
    if isinstance(row, str | bytes) or not hasattr(row, "__len__") or len(row) != len(names):
        raise refused(f"a row of {shown(row)} for {counted(len(names), 'column')}", _ROWS)
    return tuple(row)


_PLAIN = {int, float, bool, type(None), str}
"""Types of most cells, which nobody can change."""


def _cell(value: Any) -> Cell:
    """Return a cell as plain data: numbers of frameworks become numbers, everything else text."""
    if type(value) in _PLAIN or isinstance(value, bool | int | float):
        plain: Cell = value
        return plain
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    item = getattr(value, "item", None)
    if item is not None and math.prod(getattr(value, "shape", ())) == 1:
        number = item()
        return number if isinstance(number, bool | int | float) else str(number)
    return str(value)


_EXPECTED = {
    "graph": "pass nodes (stepscope.events.kinds.graph.Node), or a GraphDef",
    "costs": "pass costs (stepscope.events.kinds.graph.NodeCost), or a RunMetadata",
}


def prepare_graph(what: str, value: Any) -> Prepared:
    """Return a graph, or the costs of its nodes.

    Args:
        what: "graph" or "costs".
        value: Serialized, a message, or nodes or costs in our own words.

    Raises:
        RefusalError: It is not one.
    """
    data = serialized(what, value)
    if what == "graph":
        return Prepared(lambda tag: Event(graph_def=data), bounded(len(data)))
    return Prepared(lambda tag: Event(tagged_run_metadata=TaggedRunMetadata(tag, data)), bounded(len(data)))


def serialized(what: str, value: Any) -> bytes:
    """Return a graph or costs as bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    serialize = getattr(value, "SerializeToString", None)
    if serialize is not None:
        return bytes(serialize())
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise refused(f"{shown(value)} for {what}", _EXPECTED[what])
    parts = list(value)
    kind = graph.Node if what == "graph" else graph.NodeCost
    if not parts or not all(isinstance(part, kind) for part in parts):
        raise refused(f"{counted(len(parts), 'part')}, not all {kind.__name__}", _EXPECTED[what])
    return graph.graph_def(parts) if what == "graph" else graph.run_metadata(parts)


_HINT = "{'category': {'chart': ['Multiline', ['loss/.*']]}}, say, or ['Margin', [value, lower, upper]]"


def prepare_layout(categories: Any) -> Prepared:
    """Return a layout.

    Raises:
        RefusalError: It is not one.
    """
    try:
        made = layout.layout_of(categories)
    except (TypeError, ValueError, AttributeError) as error:
        raise refused(f"not a layout ({error})", _HINT) from None
    for category in made.category:
        for chart in category.chart:
            if chart.margin is not None and any(not band.upper for band in chart.margin.series):
                raise refused(f"a margin chart {chart.title!r} without three tags", _HINT)
    value = layout.value(made)
    return Prepared(lambda tag: [value], 0)
