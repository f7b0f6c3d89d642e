"""A log directory seen as runs, writers and series: discovery, following, cache, queries."""

from __future__ import annotations

from stepscope.names.telling import Chart, ChartLine
from stepscope.reading import Problem, Progress
from stepscope.store.charts import charts
from stepscope.store.info import RunInfo, State
from stepscope.store.log import Changes, Log, open  # noqa: A004
from stepscope.store.records import RecordSeries, RecordTag
from stepscope.store.run import StoredRun
from stepscope.store.series import Series
from stepscope.store.writers import Writer

__all__ = [
    "Changes",
    "Chart",
    "ChartLine",
    "Log",
    "Problem",
    "Progress",
    "RecordSeries",
    "RecordTag",
    "RunInfo",
    "Series",
    "State",
    "StoredRun",
    "Writer",
    "charts",
    "open",
]
