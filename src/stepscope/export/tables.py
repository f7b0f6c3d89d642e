"""A trace's tables as csv or parquet: events, steps, operators, kernels, collectives, memory and the rest."""

from __future__ import annotations

import os
from pathlib import Path

from stepscope import lazy
from stepscope.errors import UsageError
from stepscope.export.scrub import scrub_texts
from stepscope.files import replacing
from stepscope.text import FORMULA
from stepscope.trace.model import Trace

with lazy.needs("stepscope[frames]"):
    import polars as pl

FORMATS = ("csv", "parquet")


def write_table(
    trace: Trace, path: str | os.PathLike[str], *, table: str = "events", scrubbed: bool = True
) -> int:
    """Write one table to a file; the ending of its name determines the format.

    Args:
        trace: Of any number of ranks.
        path: Ends in ``.csv`` or ``.parquet``.
        table: ``events``, or a table of :data:`stepscope.trace.tables.TABLES`.
        scrubbed: Remove secrets, and user names in paths, from text columns.

    Returns:
        Number of rows written.

    Raises:
        UsageError: An unknown table or ending.
        OSError: The file cannot be written.
    """
    frames = trace.tables()
    if table not in frames:
        raise UsageError(f"no table {table!r}: expected {', '.join(frames)}", hint="choose one of these")
    return _write(frames[table], Path(path), scrubbed)


def write_tables(
    trace: Trace, directory: str | os.PathLike[str], file_format: str = "parquet", *, scrubbed: bool = True
) -> dict[str, Path]:
    """Write every table that has rows into a directory, which is created if there is none.

    Returns:
        The file of each table.

    Raises:
        UsageError: An unknown format.
        OSError: A file cannot be written.
    """
    if file_format not in FORMATS:
        raise UsageError(
            f"format is {file_format!r}: expected {' or '.join(FORMATS)}", hint="choose one of these"
        )
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, frame in trace.tables().items():
        if len(frame):
            written[name] = folder / f"{name}.{file_format}"
            _write(frame, written[name], scrubbed)
    return written


def _write(frame: pl.DataFrame, path: Path, scrubbed: bool) -> int:
    if path.suffix not in (".csv", ".parquet"):
        raise UsageError(
            f"cannot tell the format from {path.name!r}: expected a name ending in .csv or .parquet",
            hint="name the file kernels.csv, or pass file_format='csv'",
        )
    if scrubbed:
        frame = frame.with_columns(
            _scrubbed(frame[name]) for name in frame.columns if frame[name].dtype == pl.String
        )
    with replacing(path) as file:
        if path.suffix == ".csv":
            guarded_frame(frame).write_csv(file)
        else:
            frame.write_parquet(file)
    return len(frame)


def _scrubbed(column: pl.Series) -> pl.Series:
    """Return a column without secrets; each distinct text is examined once."""
    distinct = column.unique().drop_nulls().to_list()
    changed = {old: new for old, new in zip(distinct, scrub_texts(distinct), strict=True) if old != new}
    return column.replace(changed) if changed else column


def guarded_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table in which a spreadsheet takes no text for a formula."""
    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    columns = [pl.col(name).cast(pl.String) for name in texts]
    is_formula = [column.str.slice(0, 1).is_in(FORMULA) for column in columns]
    return frame.with_columns(
        pl.when(risky).then("'" + column).otherwise(column).alias(name)
        for name, column, risky in zip(texts, columns, is_formula, strict=True)
    )
