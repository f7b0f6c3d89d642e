"""A trace as polars frames, for people and for SQL: numbers become names, "not recorded" becomes null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from stepscope.trace.model import COLUMNS, Kind, Trace
from stepscope.trace.tables import TABLES, Ints, Table

_NULLABLE = ("step", "device", "parent", "correlation", "launch", "forward", "bytes", "flops")

_TIMES = ("time_ns", "start_ns", "end_ns")
_NEGATIVE = {("Memory", "bytes"), ("Memory", "device"), ("Counters", "value")}
"""Columns in which -1 is a value: what was freed, the host, whatever was counted."""


def events_frame(trace: Trace) -> pl.DataFrame:
    """Return one row per event, with ``row`` first and names, kinds, lanes and paths as text."""
    columns = {"row": pl.Series(np.arange(len(trace), dtype=np.int32))}
    for name in COLUMNS:
        columns[name] = pl.Series(name, getattr(trace, name))
    columns["name"] = texts(trace.name, trace.strings.texts())
    columns["kind"] = texts(trace.kind, [kind.name.lower() for kind in Kind])
    columns["lane"] = texts(trace.lane, [f"{lane.process}/{lane.thread}" for lane in trace.lanes])
    columns["scope"] = texts(trace.scope, trace.scopes.texts())
    columns["stack"] = texts(trace.stack, trace.stacks.texts("\n"))
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in _NULLABLE
    )


def table_frames(trace: Trace) -> dict[str, pl.DataFrame]:
    """Return ``events``, every table of the trace that has rows, and every table that has none."""
    frames = {"events": events_frame(trace)}
    frames.update({name: table_frame(trace, getattr(trace, name)) for name in TABLES})
    return frames


def table_frame(trace: Trace, table: Table) -> pl.DataFrame:
    """Return one table, its names as text."""
    columns = {name: pl.Series(name, values) for name, values in table.columns().items()}
    for name in table.names:
        columns[name] = texts(table.columns()[name], trace.strings.texts())
    frame = pl.DataFrame(columns)
    return frame.with_columns(_recorded(table, name, frame.schema[name]) for name in frame.columns)


def _recorded(table: Table, name: str, kind: pl.DataType) -> pl.Expr:
    """Return a column with null where nothing was recorded, so that sums do not count it."""
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
