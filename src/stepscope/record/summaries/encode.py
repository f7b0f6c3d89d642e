"""Pixels and samples become files that browsers open: PNG, GIF, WAV.

Runs on a background thread, which passes large ones to another process; Pillow is imported there.
"""

from __future__ import annotations

import io
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepscope.record.offload import OFFLOAD

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]
"""uint8 [height, width, channels]: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA."""
_LEVEL, _RUNS = 1, 3
"""zlib's strategy Z_RLE: after PNG's filters, the result is as small as with others, and faster."""
_COLORS = 256
_SAMPLE = 1 << 16
"""Pixels of a film from which its palette is made."""
_LONGEST = 65_535
"""The longest that GIF can show one frame, in hundredths of a second; equal frames become one."""


def png(pixels: Pixels) -> bytes:
    """Return a picture as PNG; no pixel is changed."""
    found = OFFLOAD.run("png", pixels)
    return png_here(pixels) if found is None else found


def png_here(pixels: Pixels) -> bytes:
    """Return a picture as PNG, made in this process."""
    file = io.BytesIO()
    _image(pixels).save(file, "PNG", compress_level=_LEVEL, compress_type=_RUNS)
    return file.getvalue()


def gif(frames: Pixels, fps: float) -> bytes:
    """Return frames as a GIF that repeats for ever.

    Colours are exact if all frames together have at most 256, otherwise the nearest of 256. A frame that
    equals the one before becomes a longer showing of that.

    Args:
        frames: uint8 [frames, height, width, channels], at least one; alpha is drawn on white.
        fps: Frames per second; GIF counts in hundredths of a second, and viewers take 50 at most. All
            frames together are shown for 11 minutes at most.
    """
    found = OFFLOAD.run("gif", frames, fps=fps)
    return gif_here(frames, fps) if found is None else found


def gif_here(frames: Pixels, fps: float) -> bytes:
    """Return frames as a GIF, made in this process."""
    count, height, width, _ = frames.shape
    colors, indices = _palette(_opaque(frames).reshape(count * height, width, 3))
    images = [_image(each[..., np.newaxis]) for each in indices.reshape(count, height, width)]
    for image in images:
        image.putpalette(colors)
    shown_ms = 10 * min(max(round(100 / fps), 2), _LONGEST // count)
    file = io.BytesIO()
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=shown_ms, loop=0, optimize=False
    )
    return file.getvalue()


def wav(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return sound as WAV.

    Args:
        samples: int16 [frames, channels].
        rate: Frames per second.
    """
    found = OFFLOAD.run("wav", samples, rate=rate)
    return wav_here(samples, rate) if found is None else found


def wav_here(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return sound as WAV, made in this process."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(np.ascontiguousarray(samples, "<i2").tobytes())
    return file.getvalue()


def as_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Return samples of -1 to 1 with 16 bits; what is beyond is clipped, int16 stays what it is."""
    if samples.dtype == np.int16:
        return samples
    return np.asarray(np.clip(samples, -1, 1) * np.iinfo(np.int16).max, np.int16)


def _image(pixels: Pixels) -> Image:
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))


def _palette(rgb: Pixels) -> tuple[list[int], Pixels]:
    """Return red, green and blue of each colour in turn, and which of them each pixel has."""
    wide = rgb.astype(np.uint32)
    packed = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    few = np.unique(packed) if len(np.unique(_some(packed.reshape(-1)))) <= _COLORS else None
    if few is not None and len(few) <= _COLORS:
        colors = np.stack([few >> 16, few >> 8 & 255, few & 255], 1)
        return colors.reshape(-1).tolist(), np.searchsorted(few, packed).astype(np.uint8)
    from PIL.Image import Dither

    some = _image(_some(rgb.reshape(-1, 3))[np.newaxis]).quantize(_COLORS, dither=Dither.NONE)
    return some.getpalette() or [], np.asarray(_image(rgb).quantize(palette=some, dither=Dither.NONE))


def _some(pixels: NDArray[Any]) -> NDArray[Any]:
    return pixels[:: max(1, len(pixels) // _SAMPLE)]


def _opaque(frames: Pixels) -> Pixels:
    if frames.shape[3] in (2, 4):
        alpha = frames[..., -1:].astype(np.uint16)
        mixed = frames[..., :-1] * alpha + np.uint16(255) * (255 - alpha)
        frames = (mixed // 255).astype(np.uint8)
    return np.broadcast_to(frames, (*frames.shape[:3], 3))
