"""Values as TensorFlow's ``tf.summary`` stores them, which CommonLoopUtils' writer calls.

All are tensors, with metadata that names the plugin and no class of data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.compat.dialect import number
from stepscope.events import hparams, tensors
from stepscope.events.kinds import audio as sounds
from stepscope.events.kinds import histogram
from stepscope.events.messages import Metadata, Tensor, Value
from stepscope.record.problems import shown
from stepscope.record.summaries import encode
from stepscope.record.summaries.arrays import checked_buckets, split_finite
from stepscope.record.summaries.documents import text_bytes
from stepscope.record.summaries.encoder import Prepared, bounded, refused
from stepscope.record.summaries.snapshot import of_array, snapshot

SAMPLES = 32_768.0
"""The full scale of a sound, as in ``tf.audio.encode_wav``."""


def scalar(value: Any) -> Prepared:
    """Return a number as a tensor of float32."""
    found = number(value)

    def make(tag: str) -> list[Value]:
        with np.errstate(over="ignore"):
            single = np.float32(found if isinstance(found, float) else found.read())
        return [Value(tag, tensor=tensors.tensor(np.asarray(single)), metadata=Metadata.of("scalars"))]

    return Prepared(make, 256)


def array(value: Any, metadata: Metadata | None) -> Prepared:
    """Return a tensor of numbers or of texts, with metadata that names the plugin that shows it."""
    if isinstance(value, str | bytes) or getattr(getattr(value, "dtype", None), "kind", "x") in "OSU":
        text = tensors.tensor(np.asarray(value))
        return Prepared(lambda tag: [Value(tag, tensor=text, metadata=metadata)], 1024)
    held = of_array(np.asarray(value)) if isinstance(value, int | float) else snapshot(value)
    return Prepared(
        lambda tag: [Value(tag, tensor=tensors.tensor(held.fetch()), metadata=metadata)], held.nbytes
    )


def text(value: Any) -> Prepared:
    """Return a text, or an array of texts."""
    about = Metadata.of("text")
    if not isinstance(value, str | bytes):
        return array(np.asarray(value, object) if isinstance(value, list | tuple) else value, about)
    tensor = Tensor.of_texts(text_bytes(value))
    return Prepared(lambda tag: [Value(tag, tensor=tensor, metadata=about)], 1024)


def histograms(values: Any, buckets: int | None) -> Prepared:
    """Return the distribution of values; NaN and infinities are in no bucket."""
    count = 30 if buckets is None else max(buckets, 0)
    if count:
        checked_buckets(count)
    held = snapshot(values, "an array of numbers")

    def make(tag: str) -> list[Value]:
        finite = split_finite(held)[0] if held.size else np.zeros(0)
        rows = tensors.tensor(histogram.rows_of(finite, count))
        return [Value(tag, tensor=rows, metadata=Metadata.of("histograms"))]

    return Prepared(make, held.nbytes)


# --- pictures and sounds ----------------------------------------------------------------------------


def images(values: Any) -> Prepared:
    """Return images [n, height, width, channels], or a single one, as PNGs with their size."""
    held = snapshot(values, "images")
    shape = (1, *held.shape) if len(held.shape) == 3 else held.shape
    if len(shape) != 4 or shape[3] not in (1, 2, 3, 4) or 0 in shape[1:]:
        raise refused(f"images of shape {held.shape}", "pass [n, height, width, channels], 1 to 4 channels")
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        pixels = saturated(held.fetch().reshape(shape))
        parts = [str(shape[2]).encode(), str(shape[1]).encode(), *map(encode.png, pixels)]
        tensor = Tensor.of_texts(*parts, sizes=(len(parts),))
        return [Value(tag, tensor=tensor, metadata=Metadata.of("images"))]

    return Prepared(make, held.nbytes)


def saturated(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels as ``tf.image.convert_image_dtype(…, saturate=True)`` converts them to uint8.

    Raises:
        RefusalError: It does not accept their type.
    """
    kind = pixels.dtype
    if kind == np.uint8:
        return pixels.astype(np.uint8)
    if kind.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):  # NaN is black
            scaled = np.nan_to_num(pixels * kind.type(255.5), nan=0.0, posinf=255.0, neginf=0.0)
            return np.asarray(scaled.clip(0, 255), np.uint8)
    if kind.kind not in "iu":
        raise refused(f"pixels of {kind}", "pass floats of 0 to 1, or uint8")
    most = int(np.iinfo(kind).max)
    if most < 255:  # int8
        return np.asarray(pixels.clip(0).astype(np.uint8) * np.uint8(256 // (most + 1)), np.uint8)
    return np.asarray((pixels // ((most + 1) // 256)).clip(0, 255), np.uint8)


def audio(sound: Any, sample_rate: int) -> Prepared:
    """Return sounds [n, frames, channels] as WAVs of 16 bits, clipped to -1 to 1."""
    held = snapshot(sound, "samples")
    if len(held.shape) != 3 or 0 in held.shape:
        raise refused(f"sounds of shape {held.shape}", "pass [n, frames, channels]")
    if isinstance(sample_rate, bool) or not 0 < int(sample_rate) < 1 << 31:
        raise refused(f"sample_rate={shown(sample_rate)}", "frames per second, as sample_rate=44_100")
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        clips = [encode.wav(whole_samples(each), int(sample_rate)) for each in held.fetch()]
        return [sounds.value(tag, clips)]

    return Prepared(make, held.nbytes)


def whole_samples(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Return samples with 16 bits, rounded half away from zero; int16 is returned unchanged."""
    if samples.dtype == np.int16:
        return samples
    scaled = samples.astype(np.float32) * np.float32(SAMPLES)
    if np.isnan(scaled).any():
        raise refused("samples that are NaN", "np.nan_to_num(samples), say")
    rounded = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)
    return np.asarray(rounded.clip(-SAMPLES, SAMPLES - 1), np.int16)


# --- hyper-parameters -------------------------------------------------------------------------------


def session_start(given: Mapping[str, Any] | Sequence[Any], now: float) -> Value:
    """Return the value that records hyper-parameters; sessions with equal ones form a group.

    Args:
        given: Nested mappings and lists.
        now: The present time, in seconds since the epoch.
    """
    found = {name: _plain(value) for name, value in sorted(flattened(given).items())}
    words = json.dumps(found, sort_keys=True, separators=(",", ":"))
    group = hashlib.sha256(words.encode()).hexdigest()
    value = hparams.start_value(found, group_name=group, start_time_secs=now)
    assert value.metadata is not None
    value.metadata.data_class = 0
    return value


def flattened(values: Mapping[str, Any] | Sequence[Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings and lists as one mapping, with keys joined by dots; None becomes empty text."""
    items = values.items() if hasattr(values, "items") else enumerate(values)
    found: dict[str, Any] = {}
    for name, value in items:
        if isinstance(value, list | tuple) or hasattr(value, "items"):
            found.update(flattened(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = "" if value is None else value
    return found


def _plain(value: Any) -> bool | int | float | str:
    """Return a hyper-parameter that can be recorded: the element of an array of one, the text of others."""
    if not isinstance(value, bool | int | float | str) and getattr(value, "size", 0) == 1:
        value = value.item()
    return value if isinstance(value, bool | int | float | str) else str(value)
