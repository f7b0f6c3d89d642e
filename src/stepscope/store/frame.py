"""Data frames for users; the only module of the store that imports polars."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from stepscope.store.series import Series

SCHEMA = {
    "run": pl.String,
    "tag": pl.String,
    "step": pl.Int64,
    "wall_time": pl.Float64,
    "value": pl.Float64,
    "writer": pl.String,
    "attempt": pl.Int64,
}


def series_frame(series: Iterable[Series]) -> pl.DataFrame:
    """Return the points of the series of one tag: step, wall_time, value, writer, attempt."""
    return log_frame(series).drop("run", "tag")


def log_frame(series: Iterable[Series]) -> pl.DataFrame:
    """Return the points of series one after the other: run, tag, step, wall_time, value, writer, attempt.

    wall_time is in seconds since the epoch. Values are 64 bits wide, also those that were written with 32, so
    that frames can be put together.
    """
    frames = [points_frame(each).cast({"value": pl.Float64}) for each in series]
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def points_frame(series: Series) -> pl.DataFrame:
    """Return the points of one series."""
    columns = series.points.columns
    return pl.DataFrame(
        {"step": columns.step.astype(np.int64), "wall_time": np.asarray(columns.wall), "value": columns.value}
    ).select(
        pl.lit(series.run).alias("run"),
        pl.lit(series.tag).alias("tag"),
        "step",
        "wall_time",
        "value",
        pl.lit(series.writer).alias("writer"),
        pl.lit(series.attempt, pl.Int64).alias("attempt"),
    )
