"""Moments and histogram keys of many tensors in one pass over their memory, as a Triton kernel.

Each program reads one stretch of one tensor in blocks; sums are float64. Programs write partial moments,
added up afterwards; keys are counted by atomic additions, which are exact in any order. Tensors are found by
their addresses: the number of launches is that of the element types, not that of the tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from stepscope.record.edges import KEYS, SHIFT

BLOCK = 2048
STRETCH = 32 * BLOCK
"""Elements that one program reads."""
TYPES = {
    torch.float32: tl.float32,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.float64: tl.float64,
}
LARGEST = 3.4028234663852886e38


@triton.jit  # type: ignore[untyped-decorator]
def add_stretch(  # type: ignore[no-untyped-def]  # pragma: no cover  runs on the device
    addresses,
    sizes,
    rows,
    moments,
    keys,
    kind: tl.constexpr,
    histograms: tl.constexpr,
    block: tl.constexpr,
    stretch: tl.constexpr,
    largest: tl.constexpr,
    shift: tl.constexpr,
    number_of_keys: tl.constexpr,
):
    """Measure one stretch: its moments go to a row of their own, its keys to its tensor's."""
    program = tl.program_id(0).to(tl.int64)
    size = tl.load(sizes + program)
    row = tl.load(rows + program)
    start = tl.load(addresses + program).to(tl.pointer_type(kind))
    total = tl.zeros((), tl.float64)
    squares = tl.zeros((), tl.float64)
    zeros = tl.zeros((), tl.int32)
    nonfinite = tl.zeros((), tl.int32)
    least = tl.full((), float("inf"), tl.float64)
    most = tl.full((), float("-inf"), tl.float64)
    counts = tl.zeros((number_of_keys,), tl.int32)
    lane = tl.arange(0, block)
    for at in range(0, stretch, block):
        inside = at + lane < size
        x = tl.load(start + at + lane, mask=inside, other=0.0)
        wide = x.to(tl.float64) if kind == tl.float64 else x.to(tl.float32)
        exact = wide.to(tl.float64)
        total += tl.sum(exact, 0)
        squares += tl.sum(exact * exact, 0)
        zeros += tl.sum(((wide == 0.0) & inside).to(tl.int32), 0)
        number = wide == wide
        finite = number & (wide - wide == 0.0)
        nonfinite += tl.sum((inside & (finite == 0)).to(tl.int32), 0)
        counted = inside & number
        least = tl.minimum(least, tl.min(tl.where(counted, wide, float("inf")), 0).to(tl.float64))
        most = tl.maximum(most, tl.max(tl.where(counted, wide, float("-inf")), 0).to(tl.float64))
        if histograms:
            narrow = wide.to(tl.float32)
            if kind == tl.float64:  # what a float32 cannot hold counts as its largest number
                narrow = tl.where(finite & (wide > largest), largest, narrow).to(tl.float32)
                narrow = tl.where(finite & (wide < -largest), -largest, narrow).to(tl.float32)
            key = (narrow.to(tl.int32, bitcast=True) >> shift) & (number_of_keys - 1)
            counts += tl.histogram(tl.where(inside, key, 0), number_of_keys)
            # What lies outside was counted as key 0, that of zero.
            outside = block - tl.sum(inside.to(tl.int32), 0)
            counts -= tl.where(tl.arange(0, number_of_keys) == 0, outside, 0)
    out = moments + program * 7
    tl.store(out, size.to(tl.float64))
    tl.store(out + 1, total)
    tl.store(out + 2, squares)
    tl.store(out + 3, zeros.to(tl.float64))
    tl.store(out + 4, nonfinite.to(tl.float64))
    tl.store(out + 5, least)
    tl.store(out + 6, most)
    if histograms:
        where = tl.arange(0, number_of_keys)
        tl.atomic_add(keys + row * number_of_keys + where, counts.to(tl.int64), mask=counts > 0)


def measure(tensors: Sequence[Tensor], histograms: bool) -> tuple[Tensor, Tensor | None]:
    """Return moments [n, 7] and counts by key [n, KEYS] of flat tensors on one device, still there."""
    place = tensors[0].device
    moments = torch.zeros(len(tensors), 7, dtype=torch.float64, device=place)
    moments[:, 5], moments[:, 6] = float("inf"), float("-inf")
    keys = torch.zeros(len(tensors) if histograms else 1, KEYS, dtype=torch.int64, device=place)
    for dtype, kind in TYPES.items():
        pieces = [
            (tensor.data_ptr() + at * tensor.element_size(), min(STRETCH, tensor.numel() - at), row)
            for row, tensor in enumerate(tensors)
            if tensor.dtype == dtype
            for at in range(0, tensor.numel(), STRETCH)
        ]
        if pieces:
            launch(pieces, kind, histograms, moments, keys)
    return moments, keys if histograms else None


def launch(
    pieces: list[tuple[int, int, int]], kind: tl.dtype, histograms: bool, moments: Tensor, keys: Tensor
) -> None:
    """Run one program for each piece, and add the partial moments to the rows."""
    table = torch.tensor(pieces, dtype=torch.int64)
    if moments.device.type != "cpu":
        table = table.pin_memory().to(moments.device, non_blocking=True)
    addresses, sizes, rows = (column.contiguous() for column in table.unbind(1))
    partial = torch.empty(len(pieces), 7, dtype=torch.float64, device=moments.device)
    add_stretch[(len(pieces),)](
        addresses,
        sizes,
        rows,
        partial,
        keys,
        kind=kind,
        histograms=histograms,
        block=BLOCK,
        stretch=STRETCH,
        largest=LARGEST,
        shift=SHIFT,
        number_of_keys=KEYS,
        num_warps=8,
    )
    moments[:, :5].index_add_(0, rows, partial[:, :5])
    moments[:, 5].scatter_reduce_(0, rows, partial[:, 5], "amin")
    moments[:, 6].scatter_reduce_(0, rows, partial[:, 6], "amax")
