"""Texts in Markdown, alone or as arrays of them, and tables."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import Tensor, Value
from stepscope.events.tensors import held_array

PLUGIN = "text"
TABLE_PLUGIN = "stepscope_table"
TABLE_SUFFIX = "/table"
Cell = str | int | float | bool | None


@dataclass(frozen=True)
class TextTable:
    """A table; every row has one cell per column."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


def value(tag: str, text: str | bytes, *, description: str = "") -> Value:
    """Return the value that records a text; bytes are UTF-8."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    return Value.of(tag, PLUGIN, Tensor.of_texts(data), description=description)


def read(value: Value) -> NDArray[Any]:
    """Return the texts as an object array of ``str``, of rank 0 for a single one.

    Raises:
        EventFileError: There is none.
    """
    if value.tensor is None:
        raise EventFileError("a text without a tensor", hint=UNUSUAL_SUMMARY)
    texts = held_array(value.tensor)
    if texts.dtype != object:
        raise EventFileError(f"a text whose tensor holds {texts.dtype}", hint=UNUSUAL_SUMMARY)
    rows = np.empty(texts.shape, object)
    rows.reshape(-1)[:] = [text.decode("utf-8", "backslashreplace") for text in texts.reshape(-1).tolist()]
    return rows


def table_values(tag: str, table: TextTable, *, description: str = "") -> list[Value]:
    """Return the values that record a table: a text that TensorBoard shows, and the cells as they are."""
    head = f'{{"columns": {json.dumps(table.columns)}, "rows": ['
    # Parts that are not Unicode are replaced later.
    cells = _in_parts(table.rows, lambda rows: json.dumps(rows, ensure_ascii=False)[1:-1], ", ", head, "]}")
    return [
        value(tag, markdown(table), description=description),
        Value.of(tag + TABLE_SUFFIX, TABLE_PLUGIN, Tensor.of_texts(cells)),
    ]


def read_table(value: Value) -> TextTable:
    """Return a table.

    Raises:
        EventFileError: It is not one.
    """
    text = value.tensor.string_val[:1] if value.tensor else []
    try:
        table = json.loads(text[0])
        return TextTable(tuple(table["columns"]), tuple(tuple(row) for row in table["rows"]))
    except (IndexError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EventFileError(f"not a table: {error}", hint=UNUSUAL_SUMMARY) from error


def markdown(table: TextTable) -> bytes:
    """Return a table in Markdown, as UTF-8."""
    head = "\n".join(map(_line, [table.columns, ["---"] * len(table.columns)]))
    return _in_parts(table.rows, lambda rows: "\n" + "\n".join(map(_line, rows)), "", head)


ROWS_AT_ONCE = 256


def _in_parts(
    rows: Sequence[Any], made: Callable[[Sequence[Any]], str], between: str, head: str, tail: str = ""
) -> bytes:
    """Return the results for all rows, a few at a time: in between, the other threads of a program go on.

    It grows in place, because to join megabytes is one turn of the interpreter's lock.
    """
    whole = io.BytesIO()
    whole.write(head.encode("utf-8", "replace"))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = made(rows[start : start + ROWS_AT_ONCE])
        whole.write(f"{between if start else ''}{part}".encode("utf-8", "replace"))
        time.sleep(0)
    whole.write(tail.encode())
    return whole.getvalue()


def _line(cells: Sequence[object]) -> str:
    shown = [
        "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells
    ]
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in shown) + " |"
