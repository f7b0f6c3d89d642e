"""Sounds and videos: frames become a WAV or a GIF; encoded bytes stay what they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import audio, image, media
from stepscope.events.kinds.media import Size
from stepscope.events.messages import Value
from stepscope.record.problems import shown
from stepscope.record.summaries import encode
from stepscope.record.summaries.image import Convert, as_uint8, check_shape, inferred, ordered
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.record.summary_encoder import Prepared, bounded, refused

MAX_CHANNELS = 8


def prepare_audio(
    sound: Any, sample_rate: int, label: str = "", description: str = "", *, batch: bool = False
) -> Prepared:
    """Return a sound, or several.

    Args:
        sound: Samples [frames], [frames, channels] or [channels, frames], floats of -1 to 1 or int16; or
            encoded bytes. With ``batch`` [n, frames, channels].
        sample_rate: Frames per second.
        label: Markdown.
        description: Markdown.
        batch: Several are expected.

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
    order = "NTC" if batch and len(held.shape) == 3 else order_of(held.shape)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        clips = [
            encode.wav(encode.as_int16(each), sample_rate) for each in channels_last(held.fetch(), order)
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
        return of_bytes(bytes(frames), description)
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < math.inf:
        raise refused(f"fps={shown(fps)}", "frames per second, as fps=10")
    held = snapshot(frames, "the frames of a video")
    order = layout_of(held, dataformats)
    check_shape(held.shape, order)
    bounded(held.nbytes)
    names = order if "N" in order else "N" + order

    def make(tag: str) -> list[Value]:
        array = held.fetch().reshape(held.shape if "N" in order else (1, *held.shape))
        array = array.transpose([names.index(name) for name in "NTHWC" if name in names])
        films = [(convert or as_uint8)(ordered(each, "NHWC"[: each.ndim])) for each in array]
        size = Size(films[0].shape[2], films[0].shape[1])
        encoded = [encode.gif(film, fps) for film in films]
        return [image.value(tag, encoded, *size, video=True, description=description)]

    return Prepared(make, held.nbytes)


def of_bytes(data: bytes, description: str) -> Prepared:
    """Take an encoded video."""
    if media.mime(data) not in MOVING:
        raise refused(f"{len(data)} bytes that are not a video", "pass GIF, WebP, MP4 or WebM")
    size = media.size(data)
    return Prepared(
        lambda tag: [image.value(tag, [data], *size, video=True, description=description)], bounded(len(data))
    )


def layout_of(held: Snapshot, dataformats: str | None) -> str:
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
