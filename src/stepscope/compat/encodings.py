"""Values as torch's writer stores them, field by field, in the messages of event files.

They are older than TensorBoard's present encodings, which ``ss.Run`` writes: no data class, lists of numbers
instead of bytes, metadata with every value. Pixels, buckets, frames and boxes are those of
``torch.utils.tensorboard.summary`` and ``_utils``; the functions run on the background thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events import tensors
from stepscope.events.kinds import layout as layouts
from stepscope.events.kinds.mesh import Content
from stepscope.events.kinds.pr_curve import TINY
from stepscope.events.messages import Audio, Histogram, Image, Metadata, Shape, Tensor, Value
from stepscope.events.wire import encode, varint
from stepscope.record.problems import RefusalError, shown
from stepscope.record.summaries import encode as media
from stepscope.record.summaries.arrays import labels_of, take_examples, vectors_of, write_embedding
from stepscope.record.summaries.documents import text_bytes
from stepscope.record.summaries.encoder import Made, Prepared, bounded, refused
from stepscope.record.summaries.media import hold, layout_of, ordered
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.record.values import Pending, read
from stepscope.text import counted

FLOAT, DOUBLE = 1, 2
MOST_THRESHOLDS = 127
_TENSORS: dict[str, tuple[int, str]] = {
    "float32": (FLOAT, "float_val"),
    "float64": (DOUBLE, "double_val"),
    "int32": (3, "int_val"),
    "uint8": (4, "uint32_val"),
    "int16": (5, "int_val"),
    "int8": (6, "int_val"),
    "complex64": (8, "scomplex_val"),
    "int64": (9, "int64_val"),
    "bool": (10, "bool_val"),
    "bfloat16": (14, "half_val"),
    "complex128": (18, "dcomplex_val"),
    "float16": (19, "half_val"),
}
"""By type of the elements: DataType, and the field that lists the values (a half as float32 bits)."""


def floats(array: NDArray[Any]) -> list[float]:
    """Return numbers as float32, infinite beyond its range."""
    with np.errstate(over="ignore", invalid="ignore"):
        numbers: list[float] = np.asarray(array).reshape(-1).astype(np.float32).tolist()
    return numbers


def float_tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor that lists float32."""
    return Tensor(FLOAT, Shape.of(*array.shape), float_val=floats(array))


# --- numbers ----------------------------------------------------------------------------------------


def scalar(number: Callable[[], float], *, double: bool) -> Prepared:
    """Return a number as a tensor, as ``new_style`` requests."""

    def make(tag: str) -> list[Value]:
        plain = number()
        tensor = Tensor(DOUBLE, double_val=[plain]) if double else Tensor(FLOAT, float_val=floats(plain))  # type: ignore[arg-type]
        return [Value(tag, tensor=tensor, metadata=Metadata.of("scalars"))]

    return Prepared(make, 256)


def titled_scalar(number: Callable[[], float], display_name: str, description: str) -> Prepared:
    """Return a number with tensorboardX's title and description."""

    def make(tag: str) -> list[Value]:
        about = Metadata(display_name=display_name, summary_description=description)
        return [Value(tag, simple_value=floats(number())[0], metadata=about)]  # type: ignore[arg-type]

    return Prepared(make, 256)


def tensor(values: Any) -> Prepared:
    """Return an array of any shape as ``add_tensor`` does."""
    kind = str(getattr(values, "dtype", "")).removeprefix("torch.")
    held = snapshot(values)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        array = held.fetch()
        return [Value(tag, tensor=_listed(array, kind or array.dtype.name), metadata=Metadata.of("tensor"))]

    return Prepared(make, held.nbytes)


def _listed(array: NDArray[Any], kind: str) -> Tensor:
    if kind not in _TENSORS:
        kind = array.dtype.name
    if kind not in _TENSORS:
        return tensors.tensor(array)  # a type that torch refuses
    number, field = _TENSORS[kind]
    flat = np.ascontiguousarray(array).reshape(-1)
    if field == "half_val":
        flat = flat.astype(np.float32).view(np.int32)
    elif flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return Tensor(number, Shape.of(*array.shape), **{field: flat.tolist()})


# --- sounds and texts -------------------------------------------------------------------------------


def audio(sound: Any, sample_rate: float) -> Prepared:
    """Return a sound of 16 bits: with one channel, or [frames, 2].

    Args:
        sound: Samples; they are clipped to -1 to 1.
        sample_rate: In Hz.
    """
    held = snapshot(sound, "samples")
    if not held.size:
        raise refused(f"an empty sound of shape {held.shape}", "log nothing where there is no sound")
    shape = tuple(size for size in held.shape if size != 1)
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 2):
        raise refused(f"a sound of shape {held.shape}", "pass (1, L), one channel, or (L, 2)")
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        samples = held.fetch().reshape(shape)
        if np.abs(samples).max() > 1:
            samples = samples.clip(-1, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            whole = (samples * np.iinfo(np.int16).max).astype("<i2")
        frames = whole.reshape(len(whole), -1)
        encoded = media.wav(frames, int(round(sample_rate)))  # noqa: RUF046  numpy's and torch's numbers, too
        clip = Audio(float(sample_rate), frames.shape[1], len(frames), encoded, "audio/wav")
        return [Value(tag, audio=clip)]

    return Prepared(make, held.nbytes)


def text(words: Any) -> Prepared:
    """Return a text as an array of one, as the originals store it."""
    data = text_bytes(words)
    stored = Tensor.of_texts(data, sizes=(1,))
    return Prepared(lambda tag: [Value(tag, tensor=stored, metadata=Metadata.of("text"))], bounded(len(data)))


# --- curves -----------------------------------------------------------------------------------------


def pr_curve(labels: Any, predictions: Any, thresholds: int, weights: Any) -> Prepared:
    """Return the curve of a binary classifier, with at most 127 thresholds."""
    if isinstance(thresholds, bool) or not isinstance(thresholds, int) or thresholds < 1:
        raise refused(f"num_thresholds={shown(thresholds)}", "an integer from 2 on")
    truth, guess, weight = take_examples(labels, predictions, weights)
    count = min(thresholds, MOST_THRESHOLDS)

    def make(tag: str) -> list[Value]:
        weighed = 1.0 if weight is None else weight.fetch().reshape(-1)
        rows = _curve(truth.fetch().reshape(-1), guess.fetch().reshape(-1), count, weighed)
        return [_curve_value(tag, rows, count)]

    return Prepared(make, truth.nbytes + guess.nbytes + (weight.nbytes if weight else 0))


def _curve(labels: NDArray[Any], predictions: NDArray[Any], count: int, weights: Any) -> NDArray[Any]:
    """Count as tensorboard/plugins/pr_curve/summary.py does; values outside 0 to 1 are in no bucket."""
    with np.errstate(invalid="ignore"):
        place = np.floor(predictions * (count - 1)).astype(np.int32)
    positive, span = labels.astype(np.float64), (0, count - 1)
    hits, _ = np.histogram(place, count, span, weights=positive * weights)
    misses, _ = np.histogram(place, count, span, weights=(1.0 - positive) * weights)
    right, wrong = hits[::-1].cumsum()[::-1], misses[::-1].cumsum()[::-1]
    rejected, missed = wrong[0] - wrong, right[0] - right
    precision, recall = right / np.maximum(TINY, right + wrong), right / np.maximum(TINY, right + missed)
    return np.stack([right, wrong, rejected, missed, precision, recall])


def pr_curve_counts(rows: Sequence[Any], thresholds: int) -> Prepared:
    """Return a curve of six rows that the caller has computed."""
    if isinstance(thresholds, bool) or not isinstance(thresholds, int):
        raise refused(f"num_thresholds={shown(thresholds)}", "an integer")
    held = [snapshot(row, "a row of a curve") for row in rows]
    shape = held[0].shape
    if len(shape) != 1 or any(row.shape != shape for row in held):
        raise refused(f"rows of shapes {[row.shape for row in held]}", "pass six of one length")

    def make(tag: str) -> list[Value]:
        return [_curve_value(tag, np.stack([row.fetch() for row in held]), min(thresholds, MOST_THRESHOLDS))]

    return Prepared(make, sum(row.nbytes for row in held))


def _curve_value(tag: str, rows: NDArray[Any], thresholds: int) -> Value:
    content = b"\x10" + varint(thresholds) if thresholds else b""  # PrCurvePluginData.num_thresholds
    return Value(tag, tensor=float_tensor(rows), metadata=Metadata.of("pr_curves", content))


# --- meshes and charts ------------------------------------------------------------------------------


def mesh(vertices: Any, colors: Any, faces: Any, config: Any) -> Prepared:
    """Return a point cloud or mesh, with one value for each part.

    Args:
        vertices: [batch, n, 3].
        colors: Likewise.
        faces: Likewise.
        config: Settings of THREE.js.
    """
    parts = [("VERTEX", 1, vertices), ("FACE", 2, faces), ("COLOR", 3, colors)]
    held = [(name, number, snapshot(part, "an array")) for name, number, part in parts if part is not None]
    for name, _, part in held:
        if len(part.shape) != 3:
            raise refused(f"{name.lower()} of shape {part.shape}", "pass [batch, n, 3]")
    try:
        words = "{}" if config is None else json.dumps(config, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise refused(
            f"a configuration that is not JSON: {error}", "plain numbers, texts and lists"
        ) from None
    components = sum(1 << number for _, number, _ in held)

    def make(tag: str) -> list[Value]:
        values = []
        for name, number, part in held:
            about = Content(0, tag, number, words, list(part.shape), components)
            metadata = Metadata.of("mesh", encode(about))
            values.append(Value(f"{tag}_{name}", tensor=float_tensor(part.fetch()), metadata=metadata))
        return values

    return Prepared(make, sum(part.nbytes for _, _, part in held))


def layout(categories: Any) -> Prepared:
    """Return which tags share a chart."""
    try:
        charts = {
            str(category): {str(title): [chart[0], list(chart[1])] for title, chart in charts.items()}
            for category, charts in categories.items()
        }
    except (AttributeError, TypeError, IndexError, KeyError):
        hint = "pass {category: {chart: ['Multiline', [tag, …]]}}, or ['Margin', [value, lower, upper]]"
        raise refused(f"a layout of {shown(categories)}", hint) from None
    for chart in (chart for group in charts.values() for chart in group.values()):
        if not all(isinstance(tag, str) for tag in chart[1]):
            raise refused("a chart whose tags are not text", "name the tags")
        if chart[0] == "Margin" and len(chart[1]) != 3:
            raise refused(f"a margin chart of {counted(len(chart[1]), 'tag')}", "pass value, lower and upper")
        chart[0] = "Margin" if chart[0] == "Margin" else "Multiline"
    stored = Tensor.of_texts(encode(layouts.layout_of(charts)))
    value = Value(layouts.TAG, tensor=stored, metadata=Metadata.of(layouts.PLUGIN))
    return Prepared(lambda _: [value], len(stored.string_val[0]))


COLUMNS = 8
"""Columns of a grid of images."""


def default_bins() -> list[float]:
    """Return the edges that torch calls "tensorflow": 10 % apart, from 1e-12 to 1e20, and negative."""
    edge, edges = 1e-12, []
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-bound for bound in edges[::-1]] + [0.0, *edges]


# --- images -----------------------------------------------------------------------------------------


def clipped(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels as torch does: uint8 unchanged, anything else times 255, clipped and truncated."""
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN is black there
        cut: NDArray[np.uint8] = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    return cut


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
    """Return a user's image as one picture; grey ones become RGB, as with the originals."""
    pixels = grid(ordered(array, order))
    return np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels


def prepare_image(image: Any, dataformats: str) -> Prepared:
    """Return an image; several become a grid."""
    return _prepare_image(snapshot(image, "an image"), dataformats)


def _prepare_image(held: Snapshot, dataformats: str) -> Prepared:
    order = image_order(held, dataformats)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        drawn = clipped(picture(held.fetch(), order))
        height, width, channels = drawn.shape
        return [Value(tag, image=Image(height, width, channels, media.png(drawn)))]

    return Prepared(make, held.nbytes)


def prepare_images(images: Any, dataformats: str) -> Prepared:
    """Return several images as a grid; for a list, the order of dimensions is that of each image."""
    if isinstance(images, list | tuple) and str(dataformats).upper() in ("CHW", "HWC"):
        parts = [snapshot(image, "an image") for image in images]
        if not parts or len({part.shape for part in parts}) > 1:
            raise refused(f"images of shapes {[part.shape for part in parts]}", "pass some of one size")
        shape = (len(parts), *parts[0].shape)
        nbytes = sum(part.nbytes for part in parts)
        held = Snapshot(
            lambda: np.stack([part.fetch() for part in parts]), shape, nbytes, floating=parts[0].floating
        )
        return _prepare_image(held, "N" + dataformats)
    return prepare_image(images, dataformats)


def image_order(held: Snapshot, dataformats: str) -> str:
    """Check the order of dimensions and return it."""
    if not isinstance(dataformats, str):
        raise refused(f"dataformats={dataformats!r:.60}", "text, as in CHW or NHWC")
    order = layout_of(held, dataformats, batch=len(held.shape) == 4)
    if 0 in held.shape:
        raise refused(f"an empty image of shape {held.shape}", "log nothing where there is no image")
    channels = dict(zip(order, held.shape, strict=True)).get("C", 1)
    if channels not in (1, 2, 3, 4):
        raise refused(
            f"an image with {counted(channels, 'channel')}", "1 grey, 2 grey and alpha, 3 RGB or 4 RGBA"
        )
    return order


def prepare_video(frames: Any, fps: float, dataformats: str = "NTCHW") -> Prepared:
    """Return videos side by side as one GIF."""
    held = snapshot(frames, "the frames of a video")
    order = str(dataformats).upper()
    if len(held.shape) != 5 or sorted(order) != sorted("NTCHW") or 0 in held.shape:
        raise refused(f"a video of shape {held.shape}", "pass (N, T, C, H, W)")
    channels = held.shape[order.index("C")]
    if channels not in (1, 3, 4):
        raise refused(f"a video with {counted(channels, 'channel')}", "1 grey, 3 RGB or 4 RGBA")
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        videos = held.fetch().transpose([order.index(name) for name in "NTHWC"])
        if videos.dtype == np.uint8:  # and then times 255 again, as both originals do it
            videos = np.float32(videos) / np.float32(255.0)
        film = clipped(side_by_side(videos))
        _, height, width, depth = film.shape
        return [Value(tag, image=Image(height, width, depth, media.gif(film, fps)))]

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
    inner = counts[start - 1 : end] if start > 0 else np.concatenate([[0], counts[:end]])
    return Histogram(
        float(values.min()),
        float(values.max()),
        float(len(values)),
        float(values.sum()),
        float(values.dot(values)),
        limits[start : end + 1].astype(np.float64).tolist(),
        inner.astype(np.float64).tolist(),
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
        raise refused(
            f"{counted(limits.size, 'limit')} and {counted(counts.size, 'count')}", "pass one limit per count"
        )
    low, high, count, total, squares = (float(number) for number in numbers)

    def make(tag: str) -> list[Value]:
        right, number = (array.fetch().reshape(-1).astype(np.float64).tolist() for array in (limits, counts))
        return [Value(tag, histo=Histogram(low, high, count, total, squares, right, number))]

    return Prepared(make, limits.nbytes + counts.nbytes)


# --- boxes ------------------------------------------------------------------------------------------


def prepare_image_with_boxes(
    image: Any, boxes: Any, rescale: float, dataformats: str, labels: Sequence[str] | None
) -> Prepared:
    """Return an image with boxes.

    Args:
        image: The image.
        boxes: [n, 4]: left, top, right and bottom in pixels.
        rescale: Factor of the size.
        dataformats: Of the image.
        labels: One per box.
    """
    held, places = snapshot(image, "an image"), snapshot(boxes, "boxes")
    order = image_order(held, dataformats)
    if len(places.shape) != 2 or places.shape[1] != 4:
        raise refused(f"boxes of shape {places.shape}", "pass [n, 4]: left, top, right, bottom")
    names = [labels] if isinstance(labels, str) else labels
    if names is not None and len(names) != places.shape[0]:
        names = None

    def make(tag: str) -> list[Value]:
        plain = clipped(picture(held.fetch(), order))
        height, width, channels = plain.shape
        drawn = draw(plain, places.fetch(), names, rescale)
        return [Value(tag, image=Image(height, width, channels, media.png(drawn)))]

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
    directory: str, tag: str, step: int, mat: Any, metadata: Any, header: Sequence[str] | None, label_img: Any
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
    pixels = clipped(array)
    return np.repeat(pixels, 3, -1) if pixels.shape[-1] == 1 else pixels


def escaped(tag: str) -> str:
    """Return a tag as the name of a folder."""
    for odd in "%/\\":
        tag = tag.replace(odd, f"%{ord(odd):02x}")
    return {".": "%2e", "..": "%2e%2e"}.get(tag, tag)


def number(value: Any) -> float | Pending:
    """Return a value that the originals accept as a number, including text that spells one and a list of one.

    Raises:
        RefusalError: It is not a number.
    """
    if isinstance(value, list):
        value = np.array(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "SU" and value.size == 1:
        value = value.item()
    if isinstance(value, str | bytes):
        try:
            return float(value)
        except ValueError:
            raise RefusalError("value", shown(value), "pass a number, or text that spells one") from None
    return read(value)
