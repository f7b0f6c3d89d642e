"""The source of a program's batches: a loader that is known, with its workers, or the program's own code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import numpy as np

from stepscope.analyze.advise.remedy import framework_of
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.spans import Spans
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace


class Loader(Enum):
    """A source of batches; the value is how it is asked to work ahead."""

    TORCH = (
        "load in parallel and ahead: DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…, "
        "persistent_workers=True); make the dataset's own code cheaper"
    )
    PYDATASET = "keras.utils.PyDataset(workers=…, use_multiprocessing=True); make its __getitem__ cheaper"
    GRAIN = "load in parallel with the steps: grain.MpPrefetchIterDataset, or more of its workers"
    TF_DATA = (
        "dataset.map(…, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE), interleave files"
    )
    OWN = "let a thread or process make the next batch while this step runs, in a queue of a few batches"
    UNKNOWN = (
        "load in parallel and ahead: a loader with workers or prefetching, or a thread or process that makes "
        "the next batch while this step runs"
    )


_SIGNS = {
    Loader.TORCH: re.compile(
        r"(?:^|/)torch/utils/data/|^enumerate\(DataLoader\)|_(?:Single|Multi)ProcessDataLoaderIter\b"
        r"|DataLoader\S*__next__|__next__ \((?:.*/)?dataloader\.py:\d+\)|\(loader worker\)$"
    ),
    Loader.PYDATASET: re.compile(r"(?:^|/|\$)py_dataset_adapter\.py[:(]"),
    Loader.GRAIN: re.compile(r"(?:^|/)grain/"),
    Loader.TF_DATA: re.compile(
        r"^IteratorGetNext|tf_data|(?:^|/|\$)iterator_ops\.py[:(]|^Iterator::|(?:^|/)tensorflow/python/data/"
    ),
}
"""Names of events and frames by which each is known; the first match counts, as PyDataset uses tf.data."""
_CONDITIONS = {
    "torch": "with a torch DataLoader: num_workers=…, prefetch_factor=…",
    "jax": "with grain: MpPrefetchIterDataset; jax.device_put the next batch before this one is done",
    "keras": "with tf.data: prefetch and num_parallel_calls=…; with a keras.utils.PyDataset: workers=…",
    "tensorflow": "with tf.data: prefetch and num_parallel_calls=…",
}
"""Loaders that an unknown source may be, by framework."""


def loader_of(waited: Waited, spans: Spans | None = None) -> Loader:
    """Return the loader of a rank's batches.

    Args:
        waited: Of the rank.
        spans: The time in which its training thread waited for data; by default all of it.
    """
    trace = waited.trace
    mine = trace.rank == waited.rank
    stacks = _texts_within(waited, spans)
    for loader, sign in _SIGNS.items():
        if (named(trace, sign)[trace.name] & mine).any() or any(map(sign.search, stacks)):
            return loader
    return Loader.OWN if stacks or _frames_within(trace, waited, spans) else Loader.UNKNOWN


def to_load_ahead(trace: Trace, loader: Loader, line: str = "") -> str:
    """Return the remedy so that steps wait less for a loader.

    Args:
        trace: Of the program.
        loader: Makes the batches.
        line: The line that takes the time; empty if it is not known.
    """
    framework = framework_of(trace)
    if loader == Loader.OWN:
        put = "; jax.device_put the next batch before this one is done" if framework == "jax" else ""
        return f"make {line} cheaper, or {loader.value}{put}" if line else f"{loader.value}{put}"
    if loader == Loader.UNKNOWN and framework in _CONDITIONS:
        return f"{loader.value} ({_CONDITIONS[framework]})"
    return str(loader.value)


def _texts_within(waited: Waited, spans: Spans | None) -> list[str]:
    """Return the frames of the training thread that were sampled in some time."""
    if waited.sampled is None or waited.sampled.lane != waited.lane:
        return []
    samples = waited.sampled.samples
    end = samples.end_ns
    inside = np.ones(len(end), bool) if spans is None else spans.within(end - 1, end) > 0
    frames = {frame for at in set(samples.stack[inside].tolist()) for frame in samples.stacks[at]}
    return [samples.frames[frame] for frame in frames]


def _frames_within(trace: Trace, waited: Waited, spans: Spans | None) -> bool:
    rows = np.flatnonzero((trace.kind == Kind.PYTHON_FRAME) & (trace.lane == waited.lane))
    if spans is None or not len(rows):
        return bool(len(rows))
    return bool(spans.within(trace.start_ns[rows], trace.end_ns[rows]).any())


# --- worker processes ----------------------------------------------------------------------------------

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
        work_ratio: All the time in the steps in which they fetched, as a share of the waiting.
    """

    count: int
    fetch_ratio: float
    collate_ratio: float
    work_ratio: float

    @property
    def slow(self) -> bool:
        """True if they fetched during most of the wait, so that their code is too slow."""
        return self.fetch_ratio >= MOSTLY

    @property
    def pays(self) -> bool:
        """True if the training would wait for most of the time, too, if it made its batches itself."""
        return self.work_ratio >= MOSTLY

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
        if not self.pays:
            return (
                "do without workers, DataLoader(num_workers=0): making the batches takes "
                f"{self.work_ratio:.0%} of the time in which the training waits for them; or keep them "
                "(persistent_workers=True), and hand less over, in fewer tensors"
            )
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
    fetched, collated = (
        rows_spans(trace, rows).intersect(waiting).measure_ns / whole for rows in (fetch, collate)
    )
    work = trace.duration_ns[fetch[waited.spans.holds(trace.start_ns[fetch])]].sum() / whole
    return Workers(len(distinct(trace.lane[fetch])), fetched, collated, float(work))


def has_workers(waited: Waited, waiting: Spans) -> bool:
    """Return whether the training thread waited for worker processes in some time."""
    trace = waited.trace
    rows = np.flatnonzero(named(trace, _OF_WORKERS)[trace.name] & (trace.lane == waited.lane))
    return bool(waiting.within(trace.start_ns[rows], trace.end_ns[rows]).any())
