"""Data frames for users; the only module of the store that imports polars."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from stepscope.store.run import Series

if TYPE_CHECKING:
    from stepscope.store.log import Log


def series_frame(series: Iterable[Series]) -> pl.DataFrame:
    """Return the points of series one after the other: step, wall_time, value, writer, attempt."""
    return pl.concat([one_frame(each) for each in series], how="vertical_relaxed")


def one_frame(series: Series) -> pl.DataFrame:
    """Return the points of one series."""
    columns = series.points.columns
    return pl.DataFrame(
        {
            "step": columns.step.astype(np.int64),
            "wall_time": np.asarray(columns.wall),
            "value": np.asarray(columns.value),
        }
    ).with_columns(writer=pl.lit(series.writer, pl.String), attempt=pl.lit(series.attempt, pl.Int64))


def log_frame(log: Log, *, tags: re.Pattern[str], runs: re.Pattern[str]) -> pl.DataFrame:
    """Return the points of all series whose run and tag match: run, tag, then as ``series_frame``."""
    frames = [
        series_frame(run.columns(tag)).select(
            pl.lit(run.name).alias("run"), pl.lit(tag).alias("tag"), pl.all()
        )
        for run in log.runs()
        if runs.search(run.name)
        for tag in run.tags()
        if tags.search(tag)
    ]
    return pl.concat(frames, how="vertical_relaxed") if frames else empty_frame()


def empty_frame() -> pl.DataFrame:
    """Return the frame of no series at all."""
    return pl.DataFrame(
        schema={
            "run": pl.String,
            "tag": pl.String,
            "step": pl.Int64,
            "wall_time": pl.Float64,
            "value": pl.Float32,
            "writer": pl.String,
            "attempt": pl.Int64,
        }
    )
