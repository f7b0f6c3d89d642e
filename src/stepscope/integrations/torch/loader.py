"""Tells a run which examples each batch of a DataLoader holds, as they are used."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from stepscope.record import Run

DRAWN_AHEAD = 4096
"""Most batches whose indices wait for their use; a loader prefetches a few for each worker."""


class IndexedLoader:
    """Loops over a DataLoader and tells the run the indices of each batch, for findings to name.

    This costs one reference per batch: even with workers, the sampler draws in this process, in the order of
    the batches. For everybody else the loader works as before. A loader of an ``IterableDataset`` has no
    indices: call ``run.batch`` with its own facts, such as the shard and the offset.

    Args:
        loader: The loader; ``len()`` is passed on. Any other iterable is left as it is.
        run: The run to tell, as by ``run.batch``.
    """

    def __init__(self, loader: Any, run: Run) -> None:
        self._loader, self._run = loader, run
        self._round = 0
        self._drawn: deque[Any] = deque(maxlen=DRAWN_AHEAD)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        loader, self._round = self._loader, self._round + 1
        if not isinstance(loader, DataLoader):
            yield from loader
            return
        name = "sampler" if loader.batch_sampler is None else "batch_sampler"
        sampler = getattr(loader, name)
        if isinstance(loader.dataset, IterableDataset) or loader.in_order is False:
            yield from loader
            return
        # One for all rounds: an iterator with persistent workers keeps the sampler of its first round.
        drawn = self._drawn
        drawn.clear()
        # The loader refuses new samplers once it is made; its iterator asks for one when it begins.
        object.__setattr__(loader, name, _Noted(sampler, drawn))
        try:
            batches = iter(loader)
        finally:
            object.__setattr__(loader, name, sampler)
        for batch in batches:
            if drawn:
                self._run.batch(drawn.popleft(), round=self._round)
            yield batch


class _Noted:
    """A sampler that notes the indices that it draws."""

    def __init__(self, sampler: Any, drawn: deque[Any]) -> None:
        self._sampler, self._drawn = sampler, drawn

    def __iter__(self) -> Iterator[Any]:
        for indices in self._sampler:
            self._drawn.append(indices)
            yield indices

    def __len__(self) -> int:
        return len(self._sampler)
