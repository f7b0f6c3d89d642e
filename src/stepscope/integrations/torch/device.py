"""Moments of tensors on a device: by a fused kernel if one works and is right, otherwise by torch.

The fused kernel reads each number once. Torch's own operations read it some seven times, in stretches of
bounded size, so that they need little additional memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS, KEYS, SHIFT
from stepscope.record.statistics.table import StatisticsTable

Parts = Sequence[tuple[int, Tensor]]
STRETCH = 1 << 24
"""Elements looked at at a time."""
WITHOUT_DOUBLES = ("mps",)


def measure(
    table: StatisticsTable, place: torch.device, parts: Parts, squares_only: bool
) -> Callable[[], None]:
    """Queue the measuring of parts on their device.

    Args:
        table: The table to which the returned function adds the rows.
        place: The device.
        parts: Row and flat tensor of each, no row twice.
        squares_only: Whether counts and sums of squares are enough.

    Returns:
        A function that waits for the device and adds the rows.
    """
    rows = np.array([row for row, _ in parts], np.int64)
    tensors = [tensor for _, tensor in parts]
    histograms = len(table.counts) > 0 and not squares_only
    with torch.no_grad():
        moments, counts = results(place, tensors, histograms, squares_only)
    fetched = Fetch([moments] if counts is None else [moments, counts])

    def wait() -> None:
        arrays = [tensor.numpy() for tensor in fetched.wait()]
        table.add_rows(rows, arrays[0], arrays[1] if histograms else table.counts[:0])

    return wait


def results(
    place: torch.device, tensors: Sequence[Tensor], histograms: bool, squares_only: bool
) -> tuple[Tensor, Tensor | None]:
    """Return moments [n, 7] and counts [n, BUCKETS + 1], still on the device."""
    if squares_only:
        return squares(tensors), None
    fused = fused_kernel(place)
    if fused is not None:
        return fused(tensors, histograms)
    return by_torch(tensors, histograms)


def squares(tensors: Sequence[Tensor]) -> Tensor:
    """Return moments of which only count and squares are set, and whether anything is not finite."""
    wide = double(tensors[0].device)
    sums = torch.zeros(len(tensors), 7, dtype=wide, device=tensors[0].device)
    sums[:, 0] = torch.tensor([float(tensor.numel()) for tensor in tensors], dtype=wide)
    sums[:, 5], sums[:, 6] = float("inf"), float("-inf")
    some = [at for at, tensor in enumerate(tensors) if tensor.numel()]
    if some:
        norms = torch._foreach_norm([tensors[at] for at in some], 2, dtype=torch.float32)
        sums[some, 2] = torch.stack(norms).to(wide).square()
    sums[:, 4] = (~torch.isfinite(sums[:, 2])).to(wide)
    return sums


def by_torch(tensors: Sequence[Tensor], histograms: bool) -> tuple[Tensor, Tensor | None]:
    """Return moments and counts with torch's own operations."""
    place = tensors[0].device
    wide = double(place)
    moments = torch.zeros(len(tensors), 7, dtype=wide, device=place)
    moments[:, 5], moments[:, 6] = float("inf"), float("-inf")
    keys = torch.zeros(len(tensors), KEYS, dtype=torch.int64, device=place) if histograms else None
    for at, tensor in enumerate(tensors):
        for piece in torch.split(tensor, STRETCH) if tensor.numel() else ():
            _add(moments[at], piece, wide)
            if keys is not None:
                _count(keys[at], piece)
    return moments, None if keys is None else fold(keys)


def _add(row: Tensor, piece: Tensor, wide: torch.dtype) -> None:
    finite = torch.isfinite(piece)
    row[0] += piece.numel()
    row[1] += piece.sum(dtype=wide)
    row[2] += torch.linalg.vector_norm(piece, dtype=wide).square()
    row[3] += piece.numel() - torch.count_nonzero(piece)
    row[4] += piece.numel() - finite.sum()
    nothing = torch.isnan(piece)
    row[5] = torch.minimum(row[5], piece.masked_fill(nothing, float("inf")).amin().to(wide))
    row[6] = torch.maximum(row[6], piece.masked_fill(nothing, float("-inf")).amax().to(wide))


def _count(keys: Tensor, piece: Tensor) -> None:
    narrow = piece.to(torch.float32)
    if piece.dtype == torch.float64:
        most = torch.finfo(torch.float32).max
        narrow = torch.where(torch.isfinite(piece), piece.clamp(-most, most), piece).to(torch.float32)
    key = (narrow.view(torch.int32) >> SHIFT).to(torch.int64) & (KEYS - 1)
    keys.scatter_add_(0, key, torch.ones(1, dtype=torch.int64, device=key.device).expand_as(key))


def fold(keys: Tensor) -> Tensor:
    """Return counts by bucket [n, BUCKETS + 1] from counts by key [n, KEYS]."""
    bucket = torch.from_numpy(BUCKET_OF_KEY.copy()).to(keys.device, non_blocking=True)
    folded = torch.zeros(len(keys), BUCKETS + 1, dtype=torch.int64, device=keys.device)
    return folded.scatter_add_(1, bucket.expand(len(keys), -1), keys.to(torch.int64))


def double(place: torch.device) -> torch.dtype:
    """Return float64, or float32 on a device without it."""
    return torch.float32 if place.type in WITHOUT_DOUBLES else torch.float64


class Fetch:
    """Tensors on their way from a device, without holding anything up."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        place = tensors[0].device
        accelerator: Any = getattr(torch, place.type, None)
        self._event: Any = None
        streams = place.type != "cpu" and hasattr(accelerator, "Event")
        if streams and hasattr(accelerator, "current_stream"):
            with torch.inference_mode(False):
                self._here = [
                    torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for tensor in tensors
                ]
            for here, tensor in zip(self._here, tensors, strict=True):
                here.copy_(tensor, non_blocking=True)
            self._event = accelerator.Event()
            self._event.record(accelerator.current_stream(place))
        else:
            self._here = list(tensors)  # the copy waits, on the other thread

    def wait(self) -> list[Tensor]:
        """Wait for the device, and return the tensors on the CPU, of float64 and int64."""
        if self._event is not None:
            self._event.synchronize()
        tensors = [tensor.cpu() for tensor in self._here]
        return [tensor.to(torch.float64) if tensor.is_floating_point() else tensor for tensor in tensors]


# --- the fused kernel -------------------------------------------------------------------------------

Fused = Callable[[Sequence[Tensor], bool], tuple[Tensor, "Tensor | None"]]
_fused: dict[torch.device, Fused | None] = {}


def fused_kernel(place: torch.device) -> Fused | None:
    """Return the fused kernel for a device; None if there is none, or if it is not right.

    It is tried once on numbers of every kind, and compared with torch's own operations.
    """
    if place not in _fused:
        _fused[place] = None
        if place.type in ("cuda", "xpu"):
            _fused[place] = _tried(place)
    return _fused[place]


def _tried(place: torch.device) -> Fused | None:
    try:
        from stepscope.integrations.torch.fused import measure

        def fused(tensors: Sequence[Tensor], histograms: bool) -> tuple[Tensor, Tensor | None]:
            moments, keys = measure(tensors, histograms)
            return moments, None if keys is None else fold(keys)

        return fused if is_right(fused, place) else None
    except Exception:  # noqa: BLE001  no Triton, no compiler, a device it does not know
        return None


def is_right(fused: Fused, place: torch.device) -> bool:
    """Return whether a fused kernel gives the results of torch's own operations. Waits for the device."""
    generator = torch.Generator().manual_seed(0)
    special = torch.tensor(
        [0.0, -0.0, 1e-45, 2.0**-64, 3e38, float("inf"), -float("inf"), float("nan"), 1.25]
    )
    wide = torch.randn(70_001, generator=generator) * torch.randn(70_001, generator=generator).mul(9).exp()
    plain = torch.randn(5_000, generator=generator)
    tensors = [
        torch.cat([wide, special]),
        plain,
        plain[:0],
        plain.bfloat16(),
        plain.half(),
        special,
        plain[1:],
    ]
    tensors = [tensor.to(place) for tensor in tensors]
    expected, counts = by_torch(tensors, True)
    again_sums, found_counts = fused(tensors, True)
    if counts is None or found_counts is None or not torch.equal(counts, found_counts):
        return False
    exact = [0, 3, 4, 5, 6]
    if not torch.equal(expected[:, exact].to(again_sums.dtype), again_sums[:, exact]):
        return False
    scale = torch.stack([tensor.float().abs().sum() for tensor in tensors]).to(again_sums.dtype)
    sums = (expected[:, 1] - again_sums[:, 1]).abs() <= 1e-6 * scale
    alike = torch.isclose(expected[:, 2], again_sums[:, 2], rtol=1e-6, atol=0, equal_nan=True)
    special_rows = ~torch.isfinite(expected[:, 1])
    return bool((sums | special_rows).all() and alike.all())
