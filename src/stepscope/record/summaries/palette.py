"""At most 256 colours for pictures of more: median cut."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

COLORS = 256
_COARSE = 1 << 15
"""Colours that differ in their lowest three bits alone count as one while boxes are cut."""


class Palette(NamedTuple):
    """Colours, uint8 [n, 3], and which of them each pixel has, uint8 of any shape."""

    colors: NDArray[np.uint8]
    pixels: NDArray[np.uint8]


def palette_of(rgb: NDArray[np.uint8]) -> Palette:
    """Return the colours of pictures, uint8 [..., 3]: exact where there are at most 256."""
    packed = _packed(rgb)
    found = _few(packed)
    if found is not None:
        colors = np.stack([found >> 16, found >> 8 & 255, found & 255], 1).astype(np.uint8)
        return Palette(colors, np.searchsorted(found, packed).astype(np.uint8))
    return _cut(rgb)


def _packed(rgb: NDArray[np.uint8]) -> NDArray[np.uint32]:
    wide = rgb.astype(np.uint32)
    return np.asarray(wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2], np.uint32)


def _few(packed: NDArray[np.uint32]) -> NDArray[np.uint32] | None:
    """Return the different colours where they are few; most pictures of many show it in a few pixels."""
    flat = packed.reshape(-1)
    if len(np.unique(flat[:: max(1, flat.size // 4096)])) > COLORS:
        return None
    found = np.unique(flat)
    return found if len(found) <= COLORS else None


def _cut(rgb: NDArray[np.uint8]) -> Palette:
    coarse = (rgb >> 3).astype(np.uint16)
    key = coarse[..., 0] << 10 | coarse[..., 1] << 5 | coarse[..., 2]
    flat, pixels = key.reshape(-1), rgb.reshape(-1, 3)
    weight = np.bincount(flat, minlength=_COARSE)
    sums = np.stack([np.bincount(flat, pixels[:, channel], _COARSE) for channel in range(3)], 1)
    used = np.flatnonzero(weight)
    mean = sums[used] / weight[used, np.newaxis]
    boxes = _boxes(mean, weight[used])
    table, colors = np.zeros(_COARSE, np.uint8), np.empty((len(boxes), 3), np.uint8)
    for number, box in enumerate(boxes):
        table[used[box]] = number
        colors[number] = np.average(mean[box], axis=0, weights=weight[used[box]]).round()
    return Palette(colors, table[key])


def _boxes(colors: NDArray[np.float64], weight: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Cut the box of the largest spread in two, until there are enough."""
    boxes = [np.arange(len(colors))]
    spreads = [_spread(colors, weight, boxes[0])]
    while len(boxes) < COLORS and max(spreads) > 0:
        at = int(np.argmax(spreads))
        boxes[at : at + 1] = _halves(colors, weight, boxes[at])
        spreads[at : at + 1] = [_spread(colors, weight, box) for box in boxes[at : at + 2]]
    return boxes


def _spread(colors: NDArray[np.float64], weight: NDArray[np.int64], box: NDArray[np.int64]) -> float:
    if len(box) < 2:
        return 0.0
    return float(np.ptp(colors[box], axis=0).max() * np.sqrt(weight[box].sum()))


def _halves(
    colors: NDArray[np.float64], weight: NDArray[np.int64], box: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    channel = int(np.ptp(colors[box], axis=0).argmax())
    order = box[np.argsort(colors[box, channel], kind="stable")]
    reached = np.cumsum(weight[order])
    middle = int(np.searchsorted(reached, reached[-1] / 2, side="right"))
    cut = min(max(middle, 1), len(order) - 1)
    return [order[:cut], order[cut:]]
