"""The points of series as numpy columns, and as data frames of other libraries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stepscope import lazy
from stepscope.store.points import SeriesColumns
from stepscope.store.series import Series
from stepscope.text import counted

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Frame:
    """Points of one or several series, one after the other, each series as it was recorded.

    ``frame.value`` and ``frame["value"]`` are the same array; ``dict(frame)`` has all of them. Later points
    are not added.

    Attributes:
        columns: The names of the columns.
        run: Name of the run of each point; only in the frame of a whole log.
        tag: Tag of each point; only in the frame of a whole log.
        step: int64.
        wall_time: Seconds since the epoch, float64.
        value: float64, even if 32 bits were recorded, so that arrays can be put together.
        writer: The process that wrote each point.
        attempt: Number of the attempt that wrote each point, from 1.
    """

    COLUMNS: ClassVar[tuple[str, ...]] = ("run", "tag", "step", "wall_time", "value", "writer", "attempt")

    def __init__(self, series: Iterable[Series], columns: Iterable[str] = COLUMNS) -> None:
        self.columns = tuple(columns)
        self._parts: list[tuple[Series, SeriesColumns]] = [(one, one.points.columns) for one in series]

    def __len__(self) -> int:
        return sum(len(columns.step) for _, columns in self._parts)

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'point')}: {', '.join(self.columns)}>"

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise KeyError(f"no column {name!r}: expected one of {', '.join(self.columns)}")
        column: NDArray[Any] = getattr(self, name)
        return column

    def keys(self) -> tuple[str, ...]:
        """Return the names of the columns, which make this a mapping."""
        return self.columns

    @cached_property
    def run(self) -> NDArray[np.object_]:
        return self._repeated([series.run for series, _ in self._parts])

    @cached_property
    def tag(self) -> NDArray[np.object_]:
        return self._repeated([series.tag for series, _ in self._parts])

    @cached_property
    def step(self) -> NDArray[np.int64]:
        return _joined([columns.step for _, columns in self._parts], np.int64)

    @cached_property
    def wall_time(self) -> NDArray[np.float64]:
        return _joined([columns.wall for _, columns in self._parts], np.float64)

    @cached_property
    def value(self) -> NDArray[np.float64]:
        return _joined([columns.value for _, columns in self._parts], np.float64)

    @cached_property
    def writer(self) -> NDArray[np.object_]:
        return self._repeated([series.writer for series, _ in self._parts])

    @cached_property
    def attempt(self) -> NDArray[np.int64]:
        return np.repeat(np.array([series.attempt for series, _ in self._parts], np.int64), self._sizes)

    @property
    def _sizes(self) -> list[int]:
        return [len(columns.step) for _, columns in self._parts]

    def _repeated(self, texts: list[str]) -> NDArray[np.object_]:
        return np.repeat(np.array(texts, object), self._sizes)

    def polars(self) -> pl.DataFrame:
        """Return a Polars data frame.

        Raises:
            MissingPackageError: Polars is not installed.
        """
        with lazy.needs("stepscope[frames]"):
            import polars as pl

        kinds = (pl.String, pl.String, pl.Int64, pl.Float64, pl.Float64, pl.String, pl.Int64)
        empty = pl.DataFrame(schema=dict(zip(self.COLUMNS, kinds, strict=True)))
        frames = [recorded_frame(*part).cast({"value": pl.Float64}) for part in self._parts]
        return pl.concat([empty, *frames]).select(self.columns)

    def pandas(self) -> pd.DataFrame:
        """Return a pandas data frame.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        with lazy.needs("pandas"):
            import pandas as pd

        return pd.DataFrame(dict(self))


def recorded_frame(series: Series, columns: SeriesColumns) -> pl.DataFrame:
    """Return the points of one series as a Polars data frame, its values as wide as they were recorded.

    Raises:
        MissingPackageError: Polars is not installed.
    """
    with lazy.needs("stepscope[frames]"):
        import polars as pl

    numbers = {"step": columns.step.astype(np.int64), "wall_time": columns.wall, "value": columns.value}
    # Polars repeats text itself: from an array of objects it would take twenty times as long.
    return pl.DataFrame(numbers).select(
        pl.lit(series.run).alias("run"),
        pl.lit(series.tag).alias("tag"),
        *numbers,
        pl.lit(series.writer).alias("writer"),
        pl.lit(series.attempt, pl.Int64).alias("attempt"),
    )


def _joined(columns: list[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    """Return columns one after the other, as another type; also of none."""
    return np.concatenate([np.empty(0, kind), *columns], dtype=kind)
