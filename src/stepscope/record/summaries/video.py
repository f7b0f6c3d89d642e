"""Videos: frames become a GIF; encoded bytes stay what they are."""

from __future__ import annotations

import math
from typing import Any

from stepscope.events.kinds import image, media
from stepscope.events.kinds.media import Size
from stepscope.events.messages import Value
from stepscope.record.problems import shown
from stepscope.record.summaries import encode
from stepscope.record.summaries.picture import Convert, as_uint8, check_shape, inferred, ordered
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.record.summary_encoder import Prepared, bounded, refused

MOVING = ("image/gif", "image/webp", "image/png", "image/avif", "video/mp4", "video/webm")


def prepare(
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
        RefusalError: It is none.
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
        raise refused(f"{len(data)} bytes that are no video", "pass GIF, WebP, MP4 or WebM")
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
