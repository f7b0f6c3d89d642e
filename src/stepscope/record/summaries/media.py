"""Images, sounds and videos: the user's values become pixels or samples, and these a summary.

Pixels are uint8 [height, width, channels]. Frames become a WAV or a GIF; encoded bytes stay unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import audio, image, media
from stepscope.events.kinds.media import Size
from stepscope.events.messages import Value
from stepscope.record.problems import shown
from stepscope.record.summaries import encode
from stepscope.record.summaries.encode import apart
from stepscope.record.summaries.encoder import Prepared, bounded, refused
from stepscope.record.summaries.snapshot import Snapshot, of_array, snapshot

CHANNELS = (1, 3, 4)
MAX_SIDE = 1 << 16
_LAYOUT = "say which dimension is which, as in dataformats='CHW'"
Convert = Callable[[NDArray[Any]], NDArray[np.uint8]]


class Held(NamedTuple):
    """Pictures of one size, as the user passed them.

    Attributes:
        pixels: Returns them, uint8 [n, height, width, channels]; runs on the background thread.
        encoded: Instead of that, one that is encoded already.
        nbytes: Memory that they hold.
    """

    pixels: Callable[[], NDArray[np.uint8]]
    encoded: bytes | None
    nbytes: int

    def pictures(self) -> tuple[list[bytes], media.Size]:
        """Return them encoded, and their size."""
        if self.encoded is not None:
            return [self.encoded], media.size(self.encoded)
        pixels = self.pixels()
        return [encode.png(image) for image in pixels], media.Size(pixels.shape[2], pixels.shape[1])


def hold(image: Any, dataformats: str | None, *, batch: bool = False, convert: Convert | None = None) -> Held:
    """Take the value passed as an image, or as several of one size.

    Args:
        image: An array or tensor, a PIL image, a matplotlib figure, or encoded bytes.
        dataformats: Of an array: as ``CHW``, ``HW`` or, for a batch, ``NHWC``; None to infer it.
        batch: Several are expected.
        convert: How numbers become uint8; by default ``as_uint8``.

    Raises:
        RefusalError: It is not one.
    """
    if isinstance(image, bytes | bytearray | memoryview):
        return of_bytes(bytes(image))
    package = type(image).__module__.partition(".")[0]
    if package == "PIL":
        return of_pil(image)
    if hasattr(image, "canvas") and hasattr(image, "savefig"):
        held, order = of_array(rendered(image)), "HWC"
    else:
        held = snapshot(image, "an image: an array, a PIL image, a figure, or encoded bytes")
        order = layout_of(held, dataformats, batch=batch)
    return of_snapshot(held, order, convert or as_uint8)


def of_snapshot(held: Snapshot, order: str, convert: Convert) -> Held:
    """Take pixels in an order of dimensions as ``NCHW``."""
    check_shape(held.shape, order)
    bounded(held.nbytes)
    return Held(lambda: convert(ordered(held.fetch(), order)), None, held.nbytes)


def of_bytes(data: bytes) -> Held:
    """Take an encoded picture."""
    if not media.mime(data).startswith("image/"):
        raise refused(f"{len(data)} bytes that are not a picture", "pass PNG, JPEG, GIF, WebP or SVG")
    return Held(lambda: np.empty((0, 0, 0, 0), np.uint8), data, bounded(len(data)))


def of_pil(image: Any) -> Held:
    """Take a copy of a PIL image, because it can be drawn on later."""
    copy = image.copy()
    width, height = copy.size
    mode = copy.mode if copy.mode in ("L", "LA", "RGB", "RGBA") else _pil_mode(copy)

    def pixels() -> NDArray[np.uint8]:
        array = np.asarray(copy if copy.mode == mode else copy.convert(mode))
        return array.reshape(1, height, width, -1)

    return Held(pixels, None, width * height * 4)


def _pil_mode(image: Any) -> str:
    if "transparency" in image.info or image.mode in ("PA", "La", "RGBa"):
        return "RGBA"
    return "L" if image.mode in ("1", "I", "F", "I;16") else "RGB"


def rendered(figure: Any) -> NDArray[np.uint8]:
    """Draw a matplotlib figure at once, so that later changes to it do not show."""
    agg = import_module("matplotlib.backends.backend_agg")
    before = figure.canvas
    try:
        canvas = agg.FigureCanvasAgg(figure)
        canvas.draw()
        return np.array(canvas.buffer_rgba())
    finally:
        figure.set_canvas(before)


def layout_of(held: Snapshot, dataformats: str | None, *, batch: bool) -> str:
    """Return the order of an array's dimensions.

    Raises:
        RefusalError: It cannot be told, or is none.
    """
    rank = len(held.shape)
    if dataformats is None:
        return inferred(held, batch=batch)
    order = dataformats.upper()
    wanted = {"NHWC", "NHW"} if batch or rank == 4 else {"HWC", "HW"}
    if len(order) != rank or not any(sorted(order) == sorted(axes) for axes in wanted):
        hint = f"one letter per dimension, as in {' or '.join(sorted(wanted))}"
        raise refused(f"an image of shape {held.shape} with dataformats={dataformats!r}", hint)
    return order


def inferred(held: Snapshot, *, batch: bool) -> str:
    """Tell the order of dimensions from a shape: channels are 1, 3 or 4, first or last."""
    shape, rank = held.shape, len(held.shape)
    start = "N" if batch or rank == 4 else ""
    if rank - len(start) == 2 and (rank == 2 or batch):
        return start + "HW"
    if rank - len(start) != 3:
        expected = "[n, height, width, channels]" if batch else "[height, width, channels]"
        raise refused(f"an array of shape {shape}", f"pass {expected}, or with the channels first")
    first, last = shape[len(start)] in CHANNELS, shape[-1] in CHANNELS
    if not first and not last:
        raise refused(f"an array of shape {shape}, of which no dimension can be the channels", _LAYOUT)
    channels_first = first and (not last or held.family == "torch")
    return start + ("CHW" if channels_first else "HWC")


def check_shape(shape: tuple[int, ...], order: str) -> None:
    """Check the size of pictures and the number of channels."""
    sizes = dict(zip(order, shape, strict=True))
    if not math.prod(shape):
        raise refused(f"an empty image of shape {shape}", "log nothing where there is no image")
    if sizes.get("C", 1) not in (1, 2, 3, 4):
        raise refused(f"an image with {sizes['C']} channels", "1 grey, 2 grey and alpha, 3 RGB or 4 RGBA")
    if max(sizes["H"], sizes["W"]) > MAX_SIDE:
        raise refused(f"an image of {sizes['W']} x {sizes['H']} pixels", f"at most {MAX_SIDE} a side")


def ordered(array: NDArray[Any], order: str) -> NDArray[Any]:
    """Return an array as [n, height, width, channels]."""
    if "N" not in order:
        array, order = array[np.newaxis], "N" + order
    if "C" not in order:
        array, order = array[..., np.newaxis], order + "C"
    turned: NDArray[Any] = np.transpose(array, [order.index(name) for name in "NHWC"])
    return turned


def as_uint8(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels with 8 bits: floats of 0 to 1, clipped and rounded; booleans black and white; uint8.

    Raises:
        RefusalError: Other integers, or NaN.
    """
    kind = array.dtype.kind
    if array.dtype == np.uint8:
        return np.asarray(array, np.uint8)
    if kind == "b":
        return np.asarray(array * np.uint8(255), np.uint8)
    if kind != "f":
        raise refused(f"an image of {array.dtype}", "pass uint8 of 0 to 255, or floats of 0 to 1")
    missing = sum(int(np.isnan(array[part]).sum()) for part in _parts(array))
    if missing:
        raise refused(f"an image with {missing} NaN among {array.size} numbers", "np.nan_to_num(image), say")
    with np.errstate(over="ignore"):
        high = float(np.float32(array.max()))
    if high > 8 and np.isfinite(high):
        raise refused(f"an image of floats up to {high:g}", "divide by 255: floats are taken as 0 to 1")
    pixels: NDArray[np.uint8] = apart(array.shape, np.uint8)
    for part in _parts(array):
        pixels[part] = np.clip(array[part].astype(np.float32, copy=False), 0, 1) * np.float32(255) + 0.5
    return pixels


def _parts(array: NDArray[Any]) -> Iterator[tuple[slice, ...]]:
    """Yield slices of some rows each, of pictures or anything else; results of one slice are soon freed."""
    depth = min(array.ndim, 2)
    outer = range(array.shape[0]) if depth == 2 else range(1)
    length = array.shape[depth - 1] if depth else 1
    rows = max(1, PART_BYTES * length * len(outer) // max(array.nbytes, 1))
    for number in outer:
        for start in range(0, length, rows):
            some = slice(start, start + rows)
            yield (slice(number, number + 1), some) if depth == 2 else (some,) * depth
            encode.breathe()


PART_BYTES = 1 << 20


def prepare_image(
    picture: Any, dataformats: str | None = None, description: str = "", convert: Convert | None = None
) -> Prepared:
    """Return one image."""
    return of_held([hold(picture, dataformats, convert=convert)], description)


def prepare_images(
    pictures: Any,
    dataformats: str | None = None,
    max_images: int | None = None,
    description: str = "",
    convert: Convert | None = None,
) -> Prepared:
    """Return several images of one step, the first ``max_images`` of them.

    Args:
        pictures: An array of four dimensions, or a list of images.
        dataformats: As ``NCHW``; of each image if it is a list.
        max_images: None for all.
        description: Markdown.
        convert: How numbers become uint8.
    """
    if isinstance(pictures, list | tuple):
        if not pictures:
            raise refused("no image", "log nothing where there are none")
        held = [hold(image, dataformats, convert=convert) for image in pictures[:max_images]]
    else:
        if (
            max_images is not None
            and (dataformats or "N")[:1].upper() == "N"
            and hasattr(pictures, "__getitem__")
        ):
            pictures = pictures[:max_images]
        held = [hold(pictures, dataformats, batch=True, convert=convert)]
    return of_held(held, description)


def of_held(held: Sequence[Held], description: str) -> Prepared:
    """Return images that were taken."""

    def make(tag: str) -> list[Value]:
        drawn = [item.pictures() for item in held]
        size = drawn[0][1] if drawn else Size(0, 0)
        pictures = [picture for several, _ in drawn for picture in several]
        return [image.value(tag, pictures, size.width, size.height, description=description)]

    return Prepared(make, bounded(sum(item.nbytes for item in held)))


# --- sounds and films ------------------------------------------------------------------------------


MAX_CHANNELS = 8


def prepare_audio(sound: Any, sample_rate: int, label: str = "", description: str = "") -> Prepared:
    """Return a sound.

    Args:
        sound: Samples [frames], [frames, channels] or [channels, frames], floats of -1 to 1 or int16; or
            encoded bytes.
        sample_rate: Frames per second.
        label: Markdown.
        description: Markdown.

    Raises:
        RefusalError: It is not one.
    """
    labels = [label] if label else []
    if isinstance(sound, bytes | bytearray | memoryview):
        data = bytes(sound)
        if not media.mime(data).startswith(("audio/", "video/")):
            raise refused(f"{len(data)} bytes that are not a sound", "pass WAV, FLAC, MP3 or Ogg")
        return Prepared(lambda tag: [audio.value(tag, [data], labels, description=description)], len(data))
    if isinstance(sample_rate, bool) or not isinstance(sample_rate, int) or not 0 < sample_rate < 1 << 31:
        raise refused(f"sample_rate={shown(sample_rate)}", "frames per second, as sample_rate=44_100")
    held = snapshot(sound, "an array of samples")
    order = order_of(held.shape)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        clips = [
            encode.wav(encode.as_int16(channel), sample_rate)
            for channel in channels_last(held.fetch(), order)
        ]
        return [audio.value(tag, clips, labels, description=description)]

    return Prepared(make, held.nbytes)


def order_of(shape: tuple[int, ...]) -> str:
    """Return the order of dimensions: channels are at most 8, and last unless only the first can be them."""
    if not shape or 0 in shape:
        raise refused(f"an empty sound of shape {shape}", "log nothing where there is no sound")
    if len(shape) == 1:
        return "T"
    if len(shape) == 2 and min(shape) <= MAX_CHANNELS:
        return "TC" if shape[1] <= MAX_CHANNELS and shape[1] <= shape[0] else "CT"
    raise refused(f"a sound of shape {shape}", "pass [frames] or [frames, channels]")


def channels_last(samples: NDArray[Any], order: str) -> NDArray[Any]:
    """Return samples as [n, frames, channels].

    Raises:
        RefusalError: They are no samples.
    """
    if samples.dtype.kind != "f" and samples.dtype != np.int16:
        raise refused(f"samples of {samples.dtype}", "pass floats of -1 to 1, or int16")
    if samples.dtype.kind == "f" and np.isnan(samples).any():
        raise refused("samples that are NaN", "np.nan_to_num(samples), say")
    if order == "T":
        return samples[np.newaxis, :, np.newaxis]
    if order == "NTC":
        return samples
    return (samples if order == "TC" else samples.T)[np.newaxis]


MOVING = ("image/gif", "image/webp", "image/png", "image/avif", "video/mp4", "video/webm")


def prepare_video(
    frames: Any,
    fps: float,
    dataformats: str | None = None,
    description: str = "",
    convert: Convert | None = None,
) -> Prepared:
    """Return a video.

    Args:
        frames: [frames, height, width, channels] or with the channels before height and width; with another
            dimension in front several videos; or encoded bytes.
        fps: Frames per second.
        dataformats: A permutation of ``THWC``, or of ``NTHWC``; None to infer it.
        description: Markdown.
        convert: How numbers become uint8.

    Raises:
        RefusalError: It is not one.
    """
    if isinstance(frames, bytes | bytearray | memoryview):
        return film_of_bytes(bytes(frames), description)
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < math.inf:
        raise refused(f"fps={shown(fps)}", "frames per second, as fps=10")
    held = snapshot(frames, "the frames of a video")
    order = film_layout(held, dataformats)
    check_shape(held.shape, order)
    bounded(held.nbytes)
    names = order if "N" in order else "N" + order

    def make(tag: str) -> list[Value]:
        array = held.fetch().reshape(held.shape if "N" in order else (1, *held.shape))
        array = array.transpose([names.index(name) for name in "NTHWC" if name in names])
        films = [(convert or as_uint8)(ordered(film, "NHWC"[: film.ndim])) for film in array]
        size = Size(films[0].shape[2], films[0].shape[1])
        encoded = [encode.gif(film, fps) for film in films]
        return [image.value(tag, encoded, *size, video=True, description=description)]

    return Prepared(make, held.nbytes)


def film_of_bytes(data: bytes, description: str) -> Prepared:
    """Take an encoded video."""
    if media.mime(data) not in MOVING:
        raise refused(f"{len(data)} bytes that are not a video", "pass GIF, WebP, MP4 or WebM")
    size = media.size(data)
    return Prepared(
        lambda tag: [image.value(tag, [data], *size, video=True, description=description)], bounded(len(data))
    )


def film_layout(held: Snapshot, dataformats: str | None) -> str:
    """Return the order of dimensions, as ``TCHW``."""
    rank = len(held.shape)
    if dataformats is not None:
        order = dataformats.upper()
        if len(order) != rank or sorted(order.replace("N", "")) not in (sorted("THWC"), sorted("THW")):
            raise refused(
                f"a video of shape {held.shape} with dataformats={dataformats!r}",
                "one letter per dimension, as in THWC or NTCHW",
            )
        return order
    if rank == 3:
        return "THW"
    if rank not in (4, 5):
        raise refused(f"a video of shape {held.shape}", "pass [frames, height, width, channels]")
    inner = Snapshot(held.fetch, held.shape[-3:], 0, held.family, floating=held.floating)
    return ("T" if rank == 4 else "NT") + inferred(inner, batch=False)
