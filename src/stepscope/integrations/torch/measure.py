"""Tensors become rows of a table, each read once: on the CPU by the compiled loop, otherwise on their device.

On the CPU nothing waits. On a device everything is queued behind existing work, the result arrives by one
copy to page-locked memory, and another thread calls ``wait`` of the returned object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from stepscope.integrations.torch import device
from stepscope.record.statistics.table import Counts, StatisticsTable

Parts = Sequence[tuple[int, Tensor]]
"""Row and tensor, whose elements all count."""
Wait = Callable[[], None] | None

TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}
"""The kernel's number of each type."""
WORTH_A_THREAD = 1 << 20
"""Number of elements from which on a second thread saves more than it costs."""

_pool: tuple[int, ThreadPoolExecutor] | None = None


def measure(table: StatisticsTable, parts: Parts, *, squares_only: bool = False) -> Wait:
    """Add tensors to rows.

    Args:
        table: Takes the sums.
        parts: The tensors, which may change once this returns.
        squares_only: Whether counts and sums of squares are enough.

    Returns:
        An object that waits until the rows are there; None if they are.
    """
    here: list[tuple[int, Tensor]] = []
    there: dict[torch.device, list[tuple[int, Tensor]]] = {}
    for row, tensor in parts:
        if lies_plain(tensor):  # nearly all of them, as a rule
            here.append((row, tensor))
            continue
        plain = as_real(tensor)
        if plain.is_sparse:
            plain = _without_zeros(table, row, plain)
        if plain.device.type == "cpu":
            here.append((row, flat(plain)))
        else:
            there.setdefault(plain.device, []).append((row, flat(plain)))
    if here:
        _measure_here(table, here, squares_only)
    waits = [device.measure(table, place, some, squares_only) for place, some in there.items()]
    if not waits:
        return None

    def wait() -> None:
        for one in waits:
            one()

    return wait


def lies_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is contiguous in the memory of the CPU, and of a type that is measured."""
    return (
        tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous() and tensor.dtype in TYPES
    )


def as_real(tensor: Tensor) -> Tensor:
    """Return a tensor of a type that is measured; a complex one as its real and imaginary parts."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype in TYPES:
        return tensor
    return tensor.to(torch.float32)


def flat(tensor: Tensor) -> Tensor:
    """Return all elements in a row, in any order, without a copy if they are contiguous."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    strides = sorted(
        (stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1
    )
    expected = 1
    for stride, size in strides:
        if stride != expected:
            return tensor.contiguous().view(-1)
        expected *= size
    return tensor.as_strided((tensor.numel(),), (1,))


def stretch(tensor: Tensor, index: int, holders: int) -> Tensor:
    """Return the part of a tensor's elements that one of several holders measures."""
    if holders == 1:
        return tensor
    if tensor.is_sparse:
        return _sparse_stretch(tensor, index, holders)
    # In the order of the indices: the memory of replicas need not be laid out alike.
    row = tensor.reshape(-1)
    return row[row.numel() * index // holders : row.numel() * (index + 1) // holders]


def _sparse_stretch(tensor: Tensor, index: int, holders: int) -> Tensor:
    """Return some of a sparse tensor's values, and as many zeros as fall to this holder."""
    tensor = tensor.coalesce()
    values = tensor._values().reshape(-1)
    zeros = tensor.numel() - values.numel()
    mine = values[values.numel() * index // holders : values.numel() * (index + 1) // holders]
    size = mine.numel() + zeros * (index + 1) // holders - zeros * index // holders
    where = torch.arange(mine.numel(), device=mine.device)[None]
    return torch.sparse_coo_tensor(where, mine, (size,), is_coalesced=True, check_invariants=False)


def _without_zeros(table: StatisticsTable, row: int, tensor: Tensor) -> Tensor:
    """Return the values of a sparse tensor; its zeros are counted at once."""
    tensor = tensor.coalesce()
    values = tensor._values()
    table.add_zeros(row, tensor.numel() - values.numel())
    return values


# --- on the CPU -------------------------------------------------------------------------------------


def _measure_here(table: StatisticsTable, parts: Parts, squares_only: bool) -> None:
    columns = np.empty((4, len(parts)), np.int64)
    columns[0] = [tensor.data_ptr() for _, tensor in parts]
    columns[1] = [tensor.numel() for _, tensor in parts]
    columns[2] = [TYPES[tensor.dtype] for _, tensor in parts]
    columns[3] = [row for row, _ in parts]
    add(table, columns, squares_only=squares_only)


def add(table: StatisticsTable, columns: Counts, *, squares_only: bool = False) -> None:
    """Add parts of the CPU's memory to rows, by several threads if they are large.

    Args:
        table: Takes the sums.
        columns: int64 [4, parts]: address, number of elements, type, row.
        squares_only: As for ``measure``.
    """
    threads = min(torch.get_num_threads(), int(columns[1].sum()) // WORTH_A_THREAD + 1)
    if threads == 1:
        table.add_parts(*columns, squares_only=squares_only)
        return
    shares = divide(columns, threads)
    tables = [
        StatisticsTable(len(table), histograms=len(table.counts) > 0 and not squares_only) for _ in shares[1:]
    ]
    jobs = [
        _threads(threads - 1).submit(other.add_parts, *share, squares_only=squares_only)
        for other, share in zip(tables, shares[1:], strict=True)
    ]
    table.add_parts(*shares[0], squares_only=squares_only)
    for job, other in zip(jobs, tables, strict=True):
        job.result()
        table.merge(other)


def divide(columns: Counts, threads: int) -> list[Counts]:
    """Divide parts into shares of about equal size, cutting large ones; columns as for ``add``."""
    sizes = np.array([4, 2, 2, 8])
    ends = np.cumsum(columns[1])
    cuts = ends[-1] * np.arange(threads + 1) // threads
    shares = []
    for low, high in pairwise(cuts):
        begin = np.maximum(ends - columns[1], low)
        length = np.minimum(ends, high) - begin
        some = length > 0
        share = columns[:, some].copy()
        share[0] += (begin - (ends - columns[1]))[some] * sizes[share[2]]
        share[1] = length[some]
        shares.append(np.ascontiguousarray(share))
    return shares


def _threads(number: int) -> ThreadPoolExecutor:
    global _pool
    if _pool is None or _pool[0] != os.getpid():  # a forked child has none of its parent's threads
        _pool = (os.getpid(), ThreadPoolExecutor(max(number, 1), thread_name_prefix="stepscope-measure"))
    return _pool[1]
