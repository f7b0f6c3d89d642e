"""Sounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import audio, media
from stepscope.events.messages import Value
from stepscope.record.problems import shown
from stepscope.record.summaries import encode
from stepscope.record.summaries.snapshot import snapshot
from stepscope.record.summary_encoder import Prepared, bounded, refused

MAX_CHANNELS = 8


def prepare(
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
        RefusalError: It is none.
    """
    labels = [label] if label else []
    if isinstance(sound, bytes | bytearray | memoryview):
        data = bytes(sound)
        if not media.mime(data).startswith(("audio/", "video/")):
            raise refused(f"{len(data)} bytes that are no sound", "pass WAV, FLAC, MP3 or Ogg")
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
