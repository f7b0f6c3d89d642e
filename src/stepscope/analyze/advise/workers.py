"""Worker processes of a data loader while a step waited for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.spans import Spans
from stepscope.trace.distinct import distinct

FETCH, COLLATE = "fetch (loader worker)", "collate (loader worker)"
"""Names of workers' spans in captures; fetching includes collating."""
MOSTLY = 0.5
HAS_WORKERS = "the loader already has worker processes"
MORE_WORKERS = (
    "more workers (DataLoader(num_workers=…), prefetch_factor=…), persistent_workers=True where they start "
    "anew each epoch; make the dataset's own code and collate_fn cheaper"
)
_OF_WORKERS = re.compile(r"_MultiProcessingDataLoaderIter\b")
"""PyTorch's iterator of a loader with ``num_workers`` > 0."""


@dataclass(frozen=True)
class Workers:
    """Worker processes of a rank's loader.

    Attributes:
        count: How many were seen at work.
        fetch_ratio: Share of the waiting in which one of them fetched a batch; of that, collating.
        collate_ratio: Share of the waiting in which one of them collated.
    """

    count: int
    fetch_ratio: float
    collate_ratio: float

    @property
    def slow(self) -> bool:
        """True if they fetched during most of the wait, so that their code is too slow."""
        return self.fetch_ratio >= MOSTLY

    @property
    def said(self) -> str:
        """The explanation, as a sentence of a chain."""
        who = f"{self.count} loader worker{'s' * (self.count != 1)}"
        if not self.slow:
            return (
                f"{who} fetched during {self.fetch_ratio:.0%} of the wait: the rest is starting workers and "
                "handing batches over"
            )
        where = "collate_fn" if self.collate_ratio >= MOSTLY * self.fetch_ratio else "the data set's own code"
        return f"{who} fetched during {self.fetch_ratio:.0%} of the wait: {where} there takes the time"

    @property
    def remedy(self) -> str:
        """The remedy."""
        if not self.slow:
            return (
                "keep workers: DataLoader(persistent_workers=True), one loader for all epochs, and hand less "
                "over to the training process"
            )
        what = (
            "collate_fn" if self.collate_ratio >= MOSTLY * self.fetch_ratio else "the data set's __getitem__"
        )
        return f"more workers (DataLoader(num_workers=…), prefetch_factor=…), or make {what} cheaper"


def workers_of(waited: Waited, waiting: Spans) -> Workers | None:
    """Return the workers' activities in some time, None if none was seen."""
    trace = waited.trace
    fetch, collate = (rows[trace.rank[rows] == waited.rank] for rows in map(trace.named, (FETCH, COLLATE)))
    if not len(fetch) or not len(waiting):
        return None
    whole = waiting.measure_ns
    shares = [rows_spans(trace, rows).intersect(waiting).measure_ns / whole for rows in (fetch, collate)]
    return Workers(len(distinct(trace.lane[fetch])), *shares)


def has_workers(waited: Waited, waiting: Spans) -> bool:
    """Return whether the training thread waited for worker processes in some time."""
    trace = waited.trace
    rows = np.flatnonzero(named(trace, _OF_WORKERS)[trace.name] & (trace.lane == waited.lane))
    return bool(waiting.within(trace.start_ns[rows], trace.end_ns[rows]).any())
