"""Values as torch's and tensorboardX's writers store them, field by field, in the messages of event files.

They are older than TensorBoard's present encodings, which ``ss.Run`` writes: no data class, lists of numbers
instead of bytes, metadata with every value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events import tensors
from stepscope.events.kinds import layout as layouts
from stepscope.events.kinds.mesh import Content
from stepscope.events.kinds.pr_curve import TINY
from stepscope.events.messages import Audio, Metadata, Shape, Tensor, Value
from stepscope.events.wire import encode, varint
from stepscope.record.problems import shown
from stepscope.record.summaries import encode as media
from stepscope.record.summaries.documents import text_bytes
from stepscope.record.summaries.encoder import Prepared, bounded, refused
from stepscope.record.summaries.snapshot import snapshot

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
        found: list[float] = np.asarray(array).reshape(-1).astype(np.float32).tolist()
    return found


def float_tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor that lists float32."""
    return Tensor(FLOAT, Shape.of(*array.shape), float_val=floats(array))


# --- numbers ----------------------------------------------------------------------------------------


def scalar(number: Callable[[], float], *, double: bool) -> Prepared:
    """Return a number as a tensor, as ``new_style`` requests."""

    def make(tag: str) -> list[Value]:
        found = number()
        tensor = Tensor(DOUBLE, double_val=[found]) if double else Tensor(FLOAT, float_val=floats(found))  # type: ignore[arg-type]
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


def audio(sound: Any, sample_rate: float, *, stereo: bool = False) -> Prepared:
    """Return a sound of 16 bits: with one channel, or as tensorboardX does, [frames] or [frames, 1 or 2].

    Args:
        sound: Samples; they are clipped to -1 to 1.
        sample_rate: In Hz.
        stereo: tensorboardX's way.
    """
    held = snapshot(sound, "samples")
    if not held.size:
        raise refused(f"an empty sound of shape {held.shape}", "log nothing where there is no sound")
    shape = held.shape if stereo else tuple(size for size in held.shape if size != 1)
    if len(shape) not in ((1, 2) if stereo else (1,)) or (len(shape) == 2 and shape[1] not in (1, 2)):
        raise refused(
            f"a sound of shape {held.shape}", "pass (1, L), one channel" if not stereo else "(L, 2)"
        )
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        samples = held.fetch().reshape(shape)
        if np.abs(samples).max() > 1:
            samples = samples.clip(-1, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            whole = _floored(samples) if stereo else (samples * np.iinfo(np.int16).max).astype("<i2")
        frames = whole.reshape(len(whole), -1)
        encoded = media.wav(frames, int(round(sample_rate)))  # noqa: RUF046  numpy's and torch's numbers, too
        clip = Audio(float(sample_rate), frames.shape[1], len(frames), encoded, "audio/wav")
        return [Value(tag, audio=clip)]

    return Prepared(make, held.nbytes)


def _floored(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Return samples as libsndfile does, which tensorboardX calls: integers unchanged, else rounded down."""
    if samples.dtype.kind in "iu":
        return samples.astype(np.int16)
    found: NDArray[np.int16] = np.floor(samples * 32768.0).clip(-32768, 32767).astype(np.int16)
    return found


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
    truth, guess = snapshot(labels, "labels"), snapshot(predictions, "probabilities")
    weight = None if weights is None else snapshot(weights, "weights")
    if truth.size != guess.size or not truth.size:
        raise refused(f"{truth.size} labels and {guess.size} predictions", "pass one of each per example")
    if weight is not None and weight.size not in (1, truth.size):
        raise refused(f"{weight.size} weights for {truth.size} examples", "pass one per example")
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


def mesh(vertices: Any, colors: Any, faces: Any, config: Any, *, numbered: bool) -> Prepared:
    """Return a point cloud or mesh, with one value for each part.

    Args:
        vertices: [batch, n, 3].
        colors: Likewise.
        faces: Likewise.
        config: Settings of THREE.js.
        numbered: As tensorboardX does: tags end in numbers, and no value says which others there are.
    """
    parts = [("VERTEX", 1, vertices), ("FACE", 2, faces), ("COLOR", 3, colors)]
    held = [(name, number, snapshot(part, "an array")) for name, number, part in parts if part is not None]
    for name, _, part in held:
        if len(part.shape) != 3:
            raise refused(f"{name.lower()} of shape {part.shape}", "pass [batch, n, 3]")
    try:
        words = "{}" if config is None and not numbered else json.dumps(config, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise refused(
            f"a configuration that is not JSON: {error}", "plain numbers, texts and lists"
        ) from None
    components = 0 if numbered else sum(1 << number for _, number, _ in held)

    def make(tag: str) -> list[Value]:
        found = []
        for name, number, part in held:
            about = Content(0, tag, number, words, list(part.shape), components)
            metadata = Metadata.of("mesh", encode(about))
            end = str(number) if numbered else name
            found.append(Value(f"{tag}_{end}", tensor=float_tensor(part.fetch()), metadata=metadata))
        return found

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
    for chart in (chart for each in charts.values() for chart in each.values()):
        if not all(isinstance(tag, str) for tag in chart[1]):
            raise refused("a chart whose tags are not text", "name the tags")
        if chart[0] == "Margin" and len(chart[1]) != 3:
            raise refused(f"a margin chart of {len(chart[1])} tags", "pass value, lower and upper")
        chart[0] = "Margin" if chart[0] == "Margin" else "Multiline"
    stored = Tensor.of_texts(encode(layouts.layout_of(charts)))
    value = Value(layouts.TAG, tensor=stored, metadata=Metadata.of(layouts.PLUGIN))
    return Prepared(lambda _: [value], len(stored.string_val[0]))
