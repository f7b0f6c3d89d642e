"""Makes the worker processes of ``torch.utils.data.DataLoader`` note when they fetch and collate batches.

While a run has a ProfilerHook, each worker that is started gets one more thing to do at its start, around the
user's own ``worker_init_fn``: it times its fetcher. That reaches workers however they are started, forked or
spawned, and the loader need not be known. It costs a worker two readings of the clock for each batch, and
while a capture samples stacks some tens of microseconds every five milliseconds.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils.data import _utils, dataloader

from stepscope.capture.processes import SpanRing, WorkerSampler, processes

FETCH, COLLATE = b"fetch (loader worker)", b"collate (loader worker)"
_fetchers: Any = _utils.fetch
_iterators: Any = dataloader._MultiProcessingDataLoaderIter
_watching = 0
_original: Callable[..., None] | None = None


class AtStart:
    """The first call of a worker; it is sent to the worker, so that it holds plain things only.

    Args:
        folder: The file for the worker's spans.
        earlier: The user's own ``worker_init_fn``, None for none.
    """

    def __init__(self, folder: Path, earlier: Callable[[int], object] | None) -> None:
        self.folder, self.earlier = folder, earlier

    def __call__(self, worker: int) -> None:
        """Begin to note; if that fails, training goes on without it."""
        with contextlib.suppress(Exception):
            sampler = WorkerSampler(self.folder)
            time_fetchers(SpanRing(self.folder, f"DataLoader worker {worker}"), sampler)
            sampler.start()
        if self.earlier is not None:
            self.earlier(worker)


def time_fetchers(ring: SpanRing, sampler: WorkerSampler) -> None:
    """Note each fetch of a batch in this process, and sample it while a capture wants that."""
    for kind in (_fetchers._MapDatasetFetcher, _fetchers._IterableDatasetFetcher):
        kind.fetch = timed(kind.fetch, ring, sampler)


def timed(
    fetch: Callable[[Any, Any], Any], ring: SpanRing, sampler: WorkerSampler
) -> Callable[[Any, Any], Any]:
    """Return a fetcher's method that notes when it was at work, and when it collated."""
    now, number = time.time_ns, -1

    def timed_fetch(self: Any, index: Any) -> Any:
        nonlocal number
        number += 1
        collate, collating = self.collate_fn, []

        def timed_collate(data: Any) -> Any:
            collating.append(now())
            try:
                return collate(data)
            finally:
                collating.append(now())

        self.collate_fn = timed_collate
        sampler.begin(sys._getframe())
        begun = now()
        try:
            return fetch(self, index)
        finally:
            ended = now()
            sampler.end()
            self.collate_fn = collate
            if len(collating) == 2:
                ring.add(COLLATE, collating[0], collating[1], number)
            ring.add(FETCH, begun, ended, number)

    return timed_fetch


def watch() -> None:
    """Make workers started from now on note their spans, until ``forget`` is called as often.

    Raises:
        OSError: There is no place for their files.
    """
    global _watching, _original
    processes.open()
    _watching += 1
    if _original is not None:
        return
    original = _original = _iterators.__init__

    @functools.wraps(original)
    def start(self: Any, loader: Any) -> None:
        folder = processes.folder
        if folder is None:
            original(self, loader)
            return
        earlier = loader.worker_init_fn
        loader.worker_init_fn = AtStart(folder, earlier)
        try:
            original(self, loader)
        finally:
            loader.worker_init_fn = earlier

    _iterators.__init__ = start


def forget() -> None:
    """Start workers as they are."""
    global _watching, _original
    processes.close()
    _watching -= 1
    if _watching <= 0 and _original is not None:
        _iterators.__init__, _original, _watching = _original, None, 0
