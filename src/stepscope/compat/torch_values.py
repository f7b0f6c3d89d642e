"""How torch's ``SummaryWriter`` turns its arguments into pixels, buckets, frames, boxes and embeddings.

The results are those of ``torch.utils.tensorboard.summary`` and ``_utils``; the functions run on the
background thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events.messages import Histogram, Image, Value
from stepscope.record.summaries import encode
from stepscope.record.summaries.arrays import labels_of, vectors_of, write_embedding
from stepscope.record.summaries.encoder import Made, Prepared, bounded, refused
from stepscope.record.summaries.media import hold, layout_of, ordered
from stepscope.record.summaries.snapshot import Snapshot, snapshot

COLUMNS = 8
"""Columns of a grid of images."""


def default_bins() -> list[float]:
    """Return the edges that torch calls "tensorflow": 10 % apart, from 1e-12 to 1e20, and negative."""
    edge, edges = 1e-12, []
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-each for each in edges[::-1]] + [0.0, *edges]


# --- images -----------------------------------------------------------------------------------------


def clipped(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels as torch does: uint8 unchanged, anything else times 255, clipped and truncated."""
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN is black there
        cut: NDArray[np.uint8] = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    return cut


def run_over(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels as tensorboardX does: anything but uint8 times 255, wrapping around beyond 255."""
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        cut: NDArray[np.uint8] = (array * 255.0).astype(np.uint8)
    return cut


Pixels = Callable[[NDArray[Any]], NDArray[np.uint8]]


def grid(images: NDArray[Any]) -> NDArray[Any]:
    """Return images [n, height, width, channels] as one picture, eight in a row."""
    count, height, width, channels = images.shape
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, height, width, channels), images.dtype)
    canvas[:count] = images
    tiles = canvas.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return np.reshape(tiles, (rows * height, columns * width, channels))


def picture(array: NDArray[Any], order: str) -> NDArray[Any]:
    """Return what a user logged as one picture; grey ones become RGB, as with the originals."""
    found = grid(ordered(array, order))
    return np.repeat(found, 3, 2) if found.shape[2] == 1 else found


def prepare_image(image: Any, dataformats: str, pixels: Pixels = clipped) -> Prepared:
    """Return an image; several become a grid."""
    return _prepare_image(snapshot(image, "an image"), dataformats, pixels)


def _prepare_image(held: Snapshot, dataformats: str, pixels: Pixels) -> Prepared:
    order = layout(held, dataformats)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        drawn = pixels(picture(held.fetch(), order))
        height, width, channels = drawn.shape
        return [Value(tag, image=Image(height, width, channels, encode.png(drawn)))]

    return Prepared(make, held.nbytes)


def prepare_images(images: Any, dataformats: str, pixels: Pixels = clipped) -> Prepared:
    """Return several images as a grid; for a list, the order of dimensions is that of each image."""
    if isinstance(images, list | tuple) and str(dataformats).upper() in ("CHW", "HWC"):
        parts = [snapshot(each, "an image") for each in images]
        if not parts or len({each.shape for each in parts}) > 1:
            raise refused(f"images of shapes {[each.shape for each in parts]}", "pass some of one size")
        shape = (len(parts), *parts[0].shape)
        nbytes = sum(each.nbytes for each in parts)
        held = Snapshot(
            lambda: np.stack([each.fetch() for each in parts]), shape, nbytes, floating=parts[0].floating
        )
        return _prepare_image(held, "N" + dataformats, pixels)
    return prepare_image(images, dataformats, pixels)


def layout(held: Snapshot, dataformats: str) -> str:
    """Check the order of dimensions and return it."""
    if not isinstance(dataformats, str):
        raise refused(f"dataformats={dataformats!r:.60}", "text, as in CHW or NHWC")
    order = layout_of(held, dataformats, batch=len(held.shape) == 4)
    if 0 in held.shape:
        raise refused(f"an empty image of shape {held.shape}", "log nothing where there is no image")
    channels = dict(zip(order, held.shape, strict=True)).get("C", 1)
    if channels not in (1, 2, 3, 4):
        raise refused(f"an image with {channels} channels", "1 grey, 2 grey and alpha, 3 RGB or 4 RGBA")
    return order


def prepare_video(frames: Any, fps: float, dataformats: str = "NTCHW", pixels: Pixels = clipped) -> Prepared:
    """Return videos side by side as one GIF."""
    held = snapshot(frames, "the frames of a video")
    order = str(dataformats).upper()
    if len(held.shape) != 5 or sorted(order) != sorted("NTCHW") or 0 in held.shape:
        raise refused(f"a video of shape {held.shape}", "pass (N, T, C, H, W)")
    channels = held.shape[order.index("C")]
    if channels not in (1, 3, 4):
        raise refused(f"a video with {channels} channels", "1 grey, 3 RGB or 4 RGBA")
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        videos = held.fetch().transpose([order.index(name) for name in "NTHWC"])
        if videos.dtype == np.uint8:  # and then times 255 again, as both originals do it
            videos = np.float32(videos) / np.float32(255.0)
        film = pixels(side_by_side(videos))
        _, height, width, depth = film.shape
        return [Value(tag, image=Image(height, width, depth, encode.gif(film, fps)))]

    return Prepared(make, held.nbytes)


def side_by_side(videos: NDArray[Any]) -> NDArray[Any]:
    """Return videos [n, frames, height, width, channels] in a grid whose sides are powers of two."""
    count, frames, height, width, channels = videos.shape
    size = 1 << (count - 1).bit_length()
    rows = 1 << ((count.bit_length() - 1) // 2)
    if size > count:
        videos = np.concatenate([videos, np.zeros((size - count, *videos.shape[1:]))])
    tiles = videos.reshape(rows, size // rows, frames, height, width, channels).transpose(2, 0, 3, 1, 4, 5)
    return np.reshape(tiles, (frames, rows * height, (size // rows) * width, channels))


# --- histograms -------------------------------------------------------------------------------------


def prepare_histogram(values: Any, bins: Any, max_bins: int | None) -> Prepared:
    """Return an old-style histogram; minimum, maximum and sum are NaN or infinite if values are."""
    held = snapshot(values, "an array of numbers")
    if not held.size:
        raise refused(f"an empty array of shape {held.shape}", "log nothing where there are no values")

    def make(tag: str) -> list[Value]:
        numbers = held.fetch().reshape(-1)
        numbers = (numbers.real if numbers.dtype.kind == "c" else numbers).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            return [Value(tag, histo=histogram(numbers, bins, max_bins))]

    return Prepared(make, held.nbytes)


def histogram(values: NDArray[np.float64], bins: Any, max_bins: int | None) -> Histogram:
    """Count values in bins; empty bins at both ends are left out."""
    try:
        counts, limits = np.histogram(values, bins=bins)
    except (TypeError, ValueError) as error:
        hint = "pass bins that numpy.histogram takes; with NaN or infinite values the default ones"
        raise refused(f"values that cannot be counted: {error}", hint) from None
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = coarser(counts, limits, len(counts) // max_bins)
    used = np.flatnonzero(counts)
    if not used.size and len(counts) > 1:
        raise refused("values that are all outside of the bins", "pass bins that hold them")
    start, end = (int(used[0]), int(used[-1]) + 1) if used.size else (1, 1)
    # Only right edges are written, so an empty bin is kept on the left, for the first one's left edge.
    kept = counts[start - 1 : end] if start > 0 else np.concatenate([[0], counts[:end]])
    return Histogram(
        float(values.min()),
        float(values.max()),
        float(len(values)),
        float(values.sum()),
        float(values.dot(values)),
        limits[start : end + 1].astype(np.float64).tolist(),
        kept.astype(np.float64).tolist(),
    )


def coarser(counts: NDArray[Any], limits: NDArray[Any], by: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Join this many bins at a time."""
    rest = len(counts) % by
    if rest:
        counts = np.pad(counts, [[0, by - rest]])
    joined = counts.reshape(-1, by).sum(axis=-1)
    edges = np.append(limits[:-1:by], limits[-1])
    return joined, edges


def prepare_raw_histogram(numbers: Sequence[Any], bucket_limits: Any, bucket_counts: Any) -> Prepared:
    """Return an old-style histogram from counts.

    Args:
        numbers: Minimum, maximum, count, sum and sum of squares.
        bucket_limits: Right edges.
        bucket_counts: One per bucket.
    """
    limits, counts = snapshot(bucket_limits, "limits"), snapshot(bucket_counts, "counts")
    if limits.size != counts.size:
        raise refused(f"{limits.size} limits and {counts.size} counts", "pass one limit per count")
    low, high, count, total, squares = (float(number) for number in numbers)

    def make(tag: str) -> list[Value]:
        right, number = (each.fetch().reshape(-1).astype(np.float64).tolist() for each in (limits, counts))
        return [Value(tag, histo=Histogram(low, high, count, total, squares, right, number))]

    return Prepared(make, limits.nbytes + counts.nbytes)


# --- boxes ------------------------------------------------------------------------------------------


def prepare_image_with_boxes(
    image: Any,
    boxes: Any,
    rescale: float,
    dataformats: str,
    labels: Sequence[str] | None,
    pixels: Pixels = clipped,
) -> Prepared:
    """Return an image with boxes.

    Args:
        image: The image.
        boxes: [n, 4]: left, top, right and bottom in pixels.
        rescale: Factor of the size.
        dataformats: Of the image.
        labels: One per box.
        pixels: Converts numbers to uint8.
    """
    held, places = snapshot(image, "an image"), snapshot(boxes, "boxes")
    order = layout(held, dataformats)
    if len(places.shape) != 2 or places.shape[1] != 4:
        raise refused(f"boxes of shape {places.shape}", "pass [n, 4]: left, top, right, bottom")
    names = [labels] if isinstance(labels, str) else labels
    if names is not None and len(names) != places.shape[0]:
        names = None

    def make(tag: str) -> list[Value]:
        plain = pixels(picture(held.fetch(), order))
        height, width, channels = plain.shape
        drawn = draw(plain, places.fetch(), names, rescale)
        return [Value(tag, image=Image(height, width, channels, encode.png(drawn)))]

    return Prepared(make, held.nbytes + places.nbytes)


def draw(
    pixels: NDArray[np.uint8], boxes: NDArray[Any], labels: Sequence[str] | None, rescale: float
) -> NDArray[np.uint8]:
    """Draw red frames two pixels wide, labelled in black on red."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(np.ascontiguousarray(pixels))
    brush, font = ImageDraw.Draw(picture), ImageFont.load_default()
    for number, (left, top, right, bottom) in enumerate(boxes.tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        brush.line(corners, width=2, fill="Red")
        if labels is not None:
            _label(brush, font, str(labels[number]), left, bottom)
    size = (int(picture.width * rescale), int(picture.height * rescale))
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _label(brush: Any, font: Any, text: str, left: float, bottom: float) -> None:
    x0, y0, x1, y1 = font.getbbox(text)
    margin = float(np.ceil(0.05 * (y1 - y0)))
    top = bottom - (y1 - y0) - 2 * margin
    brush.rectangle([(left, top), (left + x1 - x0, bottom)], fill="Red")
    brush.text((left + margin, bottom - (y1 - y0) - margin), text, fill="black", font=font)


# --- embeddings -------------------------------------------------------------------------------------


def prepare_embedding(
    directory: str,
    tag: str,
    step: int,
    mat: Any,
    metadata: Any,
    header: Sequence[str] | None,
    label_img: Any,
) -> Prepared:
    """Return vectors whose files are written on the background thread.

    Args:
        directory: Directory of the run.
        tag: Part of the folder's name, escaped so that no two tags share one.
        step: Part of the folder's name.
        mat: [points, dimensions].
        metadata: A label per point, or several with ``header``.
        header: Names of several columns of labels.
        label_img: [points, channels, height, width].

    Raises:
        RefusalError: They do not fit.
    """
    held = vectors_of(mat)
    rows = labels_of(metadata, header, held.shape[0])
    sprite = None if label_img is None else hold(label_img, "NCHW", batch=True, convert=_colours)
    folder = f"{str(step).zfill(5)}/{escaped(tag)}"

    def make(_: str) -> Made:
        write_embedding(Path(directory), folder, f"{tag}:{str(step).zfill(5)}", held, rows, sprite)
        return None

    return Prepared(make, held.nbytes + (sprite.nbytes if sprite else 0))


def _colours(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels as RGB, also from grey ones."""
    found = clipped(array)
    return np.repeat(found, 3, -1) if found.shape[-1] == 1 else found


def escaped(tag: str) -> str:
    """Return a tag as the name of a folder."""
    for odd in "%/\\":
        tag = tag.replace(odd, f"%{ord(odd):02x}")
    return {".": "%2e", "..": "%2e%2e"}.get(tag, tag)
