"""Moving pictures as GIF: one palette for all frames, codes without a dictionary.

GIF's LZW is written with a clear code before its table would grow: a little more than one byte a pixel, made
with whole arrays and without the interpreter's lock, and every reader takes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stepscope.record.summaries.palette import Palette, palette_of

Frames = NDArray[np.uint8]
"""uint8 [frames, height, width, channels], channels as in PNG; alpha is drawn on white."""
BLOCK = 255


def encode(frames: Frames, fps: float) -> bytes:
    """Return frames as a GIF that repeats for ever.

    Colours are exact where all frames together have at most 256, else the nearest of 256.

    Args:
        frames: At least one.
        fps: Frames per second; GIF counts in hundredths of a second, and viewers take 50 at most.
    """
    palette = palette_of(opaque(frames))
    _, height, width = palette.pixels.shape
    bits = max(2, int(len(palette.colors) - 1).bit_length())
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF0 | (bits - 1), 0, 0)
    table = np.zeros((1 << bits, 3), np.uint8)
    table[: len(palette.colors)] = palette.colors
    repeat = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
    delay = min(max(round(100 / fps), 2), 65535)
    return b"".join([head, table.tobytes(), repeat, *_frames(palette, bits, delay), b"\x3b"])


def _frames(palette: Palette, bits: int, delay: int) -> Iterator[bytes]:
    _, height, width = palette.pixels.shape
    control = b"\x21\xf9\x04\x04" + struct.pack("<H", delay) + b"\x00\x00"
    place = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0)
    for frame in palette.pixels:
        yield control + place + bytes((bits,)) + _blocks(codes(frame.reshape(-1), bits)) + b"\x00"


def codes(pixels: NDArray[np.uint8], bits: int) -> bytes:
    """Return pixels as codes of ``bits + 1`` bits each, low bits first."""
    clear, end, run = 1 << bits, (1 << bits) + 1, (1 << bits) - 2
    rows = -(-len(pixels) // run)
    table = np.full((rows, run + 1), clear, np.uint16)
    flat = np.zeros(rows * run, np.uint16)
    flat[: len(pixels)] = pixels
    table[:, 1:] = flat.reshape(rows, run)
    every = np.append(table.reshape(-1)[: len(pixels) + rows], np.uint16(end))
    spread = np.unpackbits(every.astype("<u2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little")
    return np.packbits(spread[:, : bits + 1].reshape(-1), bitorder="little").tobytes()


def _blocks(data: bytes) -> bytes:
    parts = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
    return b"".join(bytes((len(part),)) + part for part in parts)


def opaque(frames: Frames) -> Frames:
    """Return frames as RGB."""
    if frames.shape[3] in (2, 4):
        alpha = frames[..., -1:].astype(np.uint16)
        mixed = frames[..., :-1] * alpha + np.uint16(255) * (255 - alpha)
        frames = (mixed // 255).astype(np.uint8)
    return np.broadcast_to(frames, (*frames.shape[:3], 3))
