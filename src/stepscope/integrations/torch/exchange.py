"""The ranks of a job, reached over the CPU: a gloo group of our own beside those that train.

Nothing here is put on a device's stream, so no collective of the training ever queues behind one of ours, and
a rank that does not answer holds up a thread of ours, not the training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from stepscope.integrations.torch.parameters import ParameterEntry, ParameterShare, TableLayout

MOST_RAW = 1 << 22
"""Elements of pending gradients that are exchanged as they are; beyond it they are left out."""


def running() -> bool:
    """Return whether this process is one of several that train together."""
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


class GroupExchange:
    """All ranks, or those of a process group; made on all of them at the same point of the program.

    Args:
        process_group: Whose ranks; None for all.

    Attributes:
        ranks: How many.
        rank: This one's number among them.
    """

    def __init__(self, process_group: Any = None) -> None:
        members = None if process_group is None else dist.get_process_group_ranks(process_group)
        self._group = dist.new_group(members, backend="gloo", use_local_synchronization=members is not None)
        self.ranks, self.rank = dist.get_world_size(self._group), dist.get_rank(self._group)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Replace values by their sum over the ranks."""
        if values.size:
            dist.all_reduce(torch.from_numpy(values), group=self._group)

    def largest(self, values: npt.NDArray[np.float64]) -> None:
        """Replace values by the largest over the ranks."""
        dist.all_reduce(torch.from_numpy(values), op=dist.ReduceOp.MAX, group=self._group)

    def gather(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of all ranks, which have the same shape and type: [ranks, …]."""
        received = [
            torch.zeros(values.shape, dtype=torch.from_numpy(values).dtype) for _ in range(self.ranks)
        ]
        dist.all_gather(received, torch.from_numpy(values), group=self._group)
        return np.stack([tensor.numpy() for tensor in received])

    def tell(self, thing: Any, source: int) -> Any:
        """Return the value of the source rank."""
        box = [thing]
        dist.broadcast_object_list(box, group_src=source, group=self._group, device=torch.device("cpu"))
        return box[0]

    def close(self) -> None:
        """Give the group up."""
        with suppress(Exception):  # the job's own end may have come first
            dist.destroy_process_group(self._group)


def agree(ranks: GroupExchange, mine: Sequence[ParameterEntry], version: int) -> TableLayout:
    """Create one layout of the parameters of all ranks. Every rank calls this.

    Args:
        ranks: All.
        mine: This rank's parameters.
        version: Number of the layout.
    """
    lists, which = name_lists(ranks, [entry.name for entry in mine])
    names = list(dict.fromkeys(name for one in lists for name in one))
    row_of = {name: row for row, name in enumerate(names)}
    rows = [np.array([row_of[name] for name in one], np.int64) for one in lists]
    facts = np.zeros((max(map(len, lists)), 4), np.int64)
    facts[: len(mine)] = [entry.facts for entry in mine] or np.zeros((0, 4))
    everyone = ranks.gather(facts)
    held = np.concatenate(
        [
            np.column_stack(
                [rows[which[rank]], np.full(len(rows[which[rank]]), rank), facts_of[: len(rows[which[rank]])]]
            )
            for rank, facts_of in enumerate(everyone)
        ]
    )
    return _layout(names, held, mine, ranks, version)


def name_lists(ranks: GroupExchange, names: list[str]) -> tuple[list[list[str]], list[int]]:
    """Return the different lists of names there are, and each rank's number among them."""
    digest = hashlib.sha256("\n".join(names).encode()).digest()
    digests = [bytes(data) for data in ranks.gather(np.frombuffer(digest, np.uint8).copy())]
    first = {digest: digests.index(digest) for digest in dict.fromkeys(digests)}
    lists = [ranks.tell(names if rank == ranks.rank else None, rank) for rank in first.values()]
    order = {digest: at for at, digest in enumerate(first)}
    return lists, [order[digest] for digest in digests]


ROW, RANK, PART, ELEMENTS, SPREAD, WANTED = range(6)


def _layout(
    names: list[str],
    held: npt.NDArray[np.int64],
    mine: Sequence[ParameterEntry],
    ranks: GroupExchange,
    version: int,
) -> TableLayout:
    """Divide the parts among those that hold them.

    Args:
        names: Of the rows.
        held: One line for each parameter of each rank: see ROW … WANTED.
        mine: This rank's parameters, in the order of its lines.
        ranks: All.
        version: Number of the layout.
    """
    own = held[held[:, RANK] == ranks.rank]
    held = held[np.lexsort((held[:, RANK], held[:, PART], held[:, ROW]))]
    new = np.ones(len(held), bool)
    new[1:] = (held[1:, ROW] != held[:-1, ROW]) | (held[1:, PART] != held[:-1, PART])
    begins = np.flatnonzero(new)
    sizes = np.diff(np.append(begins, len(held)))
    parts = {
        (int(held[at, ROW]), int(held[at, PART])): (at, int(size))
        for at, size in zip(begins, sizes, strict=True)
    }
    raw, raw_rows, offsets = _raw_parts(held, begins)
    wanted = np.zeros(len(names), bool)
    np.logical_or.at(wanted, held[:, ROW], held[:, WANTED] > 0)
    shares = []
    for entry, line in zip(mine, own, strict=True):
        key = (int(line[ROW]), int(line[PART]))
        at, size = parts[key]
        index = int(np.flatnonzero(held[at : at + size, RANK] == ranks.rank)[0])
        shares.append(ParameterShare(key[0], entry, index, size, offsets.get(key, -1), int(line[SPREAD])))
    everywhere = len(begins) == len(names) and bool((sizes == ranks.ranks).all()) and not raw
    return TableLayout(names, wanted, shares, version, raw, raw_rows, everywhere)


def _raw_parts(
    held: npt.NDArray[np.int64], begins: npt.NDArray[np.int64]
) -> tuple[int, tuple[tuple[int, int, int], ...], dict[tuple[int, int], int]]:
    """Assign parts whose gradients are pending sums a place among the raw gradients, as far as they fit."""
    at, places, offsets = 0, [], {}
    for line in held[begins]:
        row, part, elements = int(line[ROW]), int(line[PART]), int(line[ELEMENTS])
        if line[SPREAD] and at + elements <= MOST_RAW:
            places.append((row, at, elements))
            offsets[row, part] = at
            at += elements
    return at, tuple(places), offsets
