"""WAV with 16 bits a sample."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return sound as WAV.

    Args:
        samples: int16 [frames, channels].
        rate: Frames per second.
    """
    channels = samples.shape[1]
    data = np.ascontiguousarray(samples, "<i2").tobytes()
    shape = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2, channels * 2, 16)
    chunks = b"fmt " + struct.pack("<I", len(shape)) + shape + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def as_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Return samples of -1 to 1 with 16 bits; what is beyond is clipped, int16 stays what it is."""
    if samples.dtype == np.int16:
        return samples
    return np.asarray(np.clip(samples, -1, 1) * np.iinfo(np.int16).max, np.int16)
