"""How torch's ``SummaryWriter`` turns what it is given into pixels, buckets and frames.

The same numbers come out as of ``torch.utils.tensorboard.summary`` and ``_utils``; they run on the background
thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import image
from stepscope.events.messages import Histogram, Value
from stepscope.record.summaries import encode
from stepscope.record.summaries.histogram import NONFINITE, split_finite
from stepscope.record.summaries.picture import layout_of, ordered
from stepscope.record.summaries.prepared import Prepared, bounded, refused
from stepscope.record.summaries.snapshot import Snapshot, snapshot

COLUMNS = 8
"""Of a grid of images."""


def default_bins() -> list[float]:
    """Return the edges that torch calls "tensorflow": a tenth apart, from 1e-12 to 1e20, and negative."""
    edge, edges = 1e-12, []
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-each for each in edges[::-1]] + [0.0, *edges]


# --- images -----------------------------------------------------------------------------------------


def as_uint8(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels: uint8 as they are, anything else times 255, clipped and cut off."""
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    numbers = array.astype(np.float32)
    if np.isnan(numbers).any():
        raise refused(f"an image with {int(np.isnan(numbers).sum())} NaN", "np.nan_to_num(image), say")
    cut: NDArray[np.uint8] = (numbers * 255).clip(0, 255).astype(np.uint8)
    return cut


def grid(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images [n, height, width, channels] as one picture, eight in a row."""
    count, height, width, channels = images.shape
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, height, width, channels), np.uint8)
    canvas[:count] = images
    tiles = canvas.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return np.reshape(tiles, (rows * height, columns * width, channels))


def prepare_image(picture: Any, dataformats: str) -> Prepared:
    """Return an image; several become a grid."""
    held = snapshot(picture, "an image")
    order = layout(held, dataformats)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        pixels = grid(as_uint8(ordered(held.fetch(), order)))
        return [image.value(tag, [encode.png(pixels)], pixels.shape[1], pixels.shape[0])]

    return Prepared(make, held.nbytes)


def layout(held: Snapshot, dataformats: str) -> str:
    """Return the order of dimensions, checked."""
    order = layout_of(held, dataformats, batch=len(held.shape) == 4)
    if 0 in held.shape:
        raise refused(f"an empty image of shape {held.shape}", "log nothing where there is no image")
    channels = dict(zip(order, held.shape, strict=True)).get("C", 1)
    if channels not in (1, 2, 3, 4):
        raise refused(f"an image with {channels} channels", "1 grey, 2 grey and alpha, 3 RGB or 4 RGBA")
    return order


def prepare_video(frames: Any, fps: float, dataformats: str = "NTCHW") -> Prepared:
    """Return videos side by side, as one GIF."""
    held = snapshot(frames, "the frames of a video")
    order = dataformats.upper()
    if len(held.shape) != 5 or sorted(order) != sorted("NTCHW") or 0 in held.shape:
        raise refused(f"a video of shape {held.shape}", "pass (N, T, C, H, W)")
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        videos = as_uint8(held.fetch().transpose([order.index(name) for name in "NTHWC"]))
        film = side_by_side(videos)
        return [image.value(tag, [encode.gif(film, fps)], film.shape[2], film.shape[1], video=True)]

    return Prepared(make, held.nbytes)


def side_by_side(videos: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return videos [n, frames, height, width, channels] in a grid whose sides are powers of two."""
    count, frames, height, width, channels = videos.shape
    size = 1 << (count - 1).bit_length()
    rows = 1 << ((count.bit_length() - 1) // 2)
    canvas = np.zeros((size, frames, height, width, channels), np.uint8)
    canvas[:count] = videos
    tiles = canvas.reshape(rows, size // rows, frames, height, width, channels).transpose(2, 0, 3, 1, 4, 5)
    return np.reshape(tiles, (frames, rows * height, (size // rows) * width, channels))


# --- histograms -------------------------------------------------------------------------------------


def prepare_histogram(values: Any, bins: Any, max_bins: int | None) -> Prepared:
    """Return an old-style histogram."""
    held = snapshot(values, "an array of numbers")
    if not held.size:
        raise refused(f"an empty array of shape {held.shape}", "log nothing where there are no values")

    def make(tag: str) -> list[Value]:
        finite, nonfinite = split_finite(held)
        found = [Value(tag, histo=histogram(finite.astype(np.float64), bins, max_bins))]
        return found if not nonfinite else [*found, Value(tag + NONFINITE, simple_value=float(nonfinite))]

    return Prepared(make, held.nbytes)


def histogram(values: NDArray[np.float64], bins: Any, max_bins: int | None) -> Histogram:
    """Count values in bins, of which the empty ones at both ends are left out."""
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = coarser(counts, limits, len(counts) // max_bins)
    used = np.flatnonzero(counts)
    if not used.size:
        raise refused("values that are all outside of the bins", "pass bins that hold them")
    start, end = int(used[0]), int(used[-1]) + 1
    # Only right edges are written, so an empty bin is kept on the left, for the first one's left edge.
    kept = counts[start - 1 : end] if start > 0 else np.concatenate([[0], counts[:end]])
    return Histogram(
        float(values.min()),
        float(values.max()),
        float(len(values)),
        float(values.sum()),
        float(values.dot(values)),
        limits[start : end + 1].tolist(),
        kept.astype(np.float64).tolist(),
    )


def coarser(counts: NDArray[Any], limits: NDArray[Any], by: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Join so many bins each."""
    rest = len(counts) % by
    if rest:
        counts = np.pad(counts, [[0, by - rest]])
    joined = counts.reshape(-1, by).sum(axis=-1)
    edges = np.append(limits[:-1:by], limits[-1])
    return joined, edges


def prepare_raw_histogram(numbers: Sequence[float], bucket_limits: Any, bucket_counts: Any) -> Prepared:
    """Return an old-style histogram that is counted already.

    Args:
        numbers: Minimum, maximum, count, sum and sum of squares.
        bucket_limits: Right edges.
        bucket_counts: As many.
    """
    limits, counts = snapshot(bucket_limits, "limits"), snapshot(bucket_counts, "counts")
    if limits.size != counts.size:
        raise refused(f"{limits.size} limits and {counts.size} counts", "pass one limit per count")
    low, high, count, total, squares = (float(number) for number in numbers)

    def make(tag: str) -> list[Value]:
        right, number = (each.fetch().reshape(-1).astype(np.float64).tolist() for each in (limits, counts))
        return [Value(tag, histo=Histogram(low, high, count, total, squares, right, number))]

    return Prepared(make, limits.nbytes + counts.nbytes)
