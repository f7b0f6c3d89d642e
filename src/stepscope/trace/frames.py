"""A trace as polars frames, for people and for SQL: numbers become names, "not recorded" becomes null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stepscope import lazy
from stepscope.trace.tables import Ints, Table

with lazy.needs("stepscope[frames]"):
    import polars as pl

_NULLABLE = ("step", "device", "parent", "correlation", "launch", "forward", "bytes", "flops")

_TIMES = ("time_ns", "start_ns", "end_ns")
_NEGATIVE = {("Memory", "bytes"), ("Memory", "device"), ("Counters", "value")}
"""Columns in which -1 is a value: freed bytes, the host, any counter."""


def events_frame(columns: Mapping[str, Ints], names: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Return one row per event, with ``row`` first.

    Args:
        columns: Columns of the events, all of one length.
        names: The meaning of a column's numbers, if they are names, kinds, lanes or paths.
    """
    rows = np.arange(len(columns["name"]), dtype=np.int32)
    series = {"row": pl.Series(rows)} | {
        name: texts(values, names[name]) if name in names else pl.Series(name, values)
        for name, values in columns.items()
    }
    return pl.DataFrame(series).with_columns(
        pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in _NULLABLE
    )


def table_frame(table: Table, names: Sequence[str]) -> pl.DataFrame:
    """Return one table, its names as text."""
    columns = {
        name: texts(values, names) if name in table.names else pl.Series(name, values)
        for name, values in table.columns().items()
    }
    frame = pl.DataFrame(columns)
    return frame.with_columns(_recorded(table, name, frame.schema[name]) for name in frame.columns)


def _recorded(table: Table, name: str, kind: pl.DataType) -> pl.Expr:
    """Return a column with null if nothing was recorded, so that sums do not count it."""
    column = pl.col(name)
    if (type(table).__name__, name) in _NEGATIVE or name in _TIMES:
        return column
    if kind.is_float():
        return column.fill_nan(None)
    if kind.is_signed_integer():
        return pl.when(column != -1).then(column).alias(name)
    return column


def texts(numbers: Ints, names: Sequence[str]) -> pl.Series:
    """Return numbers as text without making a Python string per row; -1 is null."""
    table = pl.Series(list(names), dtype=pl.String)
    wanted = pl.Series(numbers.astype(np.int64))
    return table.gather(pl.select(pl.when(wanted >= 0).then(wanted)).to_series())
