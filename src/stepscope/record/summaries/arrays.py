"""Summaries of arrays: the array itself, histograms, precision-recall curves, meshes and embeddings.

Of an embedding the vectors lie in files that TensorBoard's projector reads, beside the event file.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stepscope.events.kinds import histogram, mesh, pr_curve
from stepscope.events.messages import Tensor, Value
from stepscope.events.tensors import tensor
from stepscope.record.problems import RefusalError, shown
from stepscope.record.summaries import encode
from stepscope.record.summaries.encoder import Prepared, bounded, refused
from stepscope.record.summaries.media import Held, hold
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.text import counted

PLUGIN = "tensor"
"""The name that torch's ``add_tensor`` gives."""


def prepare_array(values: Any) -> Prepared:
    """Return an array of any shape and type that TensorFlow has."""
    held = snapshot(values)
    bounded(held.nbytes)

    def make(tag: str) -> list[Value]:
        return [Value.of(tag, PLUGIN, tensor(held.fetch()))]

    return Prepared(make, held.nbytes)


Buckets = int | Literal["fixed"]
MAX_BUCKETS = 10_000
NONFINITE = "/nonfinite"
"""A second series with the number of NaN and infinite values that a histogram left out."""


def prepare_histogram(values: Any, buckets: Buckets, description: str = "") -> Prepared:
    """Return the histogram of some values.

    Raises:
        RefusalError: There are none, or they are not real numbers.
    """
    checked_buckets(buckets)
    held = snapshot(values, "an array of numbers")
    if not held.size:
        raise refused(f"an empty array of shape {held.shape}", "log nothing where there are no values")

    def make(tag: str) -> list[Value]:
        finite, nonfinite = split_finite(held)
        rows = rows_of(finite, buckets)
        records = [histogram.value(tag, rows, description=description)]
        return records if not nonfinite else [*records, Value(tag + NONFINITE, simple_value=float(nonfinite))]

    return Prepared(make, held.nbytes)


def rows_of(values: NDArray[Any], buckets: Buckets) -> NDArray[np.float64]:
    """Return left edge, right edge and count of each bucket."""
    if buckets == "fixed":
        from stepscope.record import edges

        return without_width(edges.rows(edges.counts(values)), values)
    return histogram.rows_of(values, int(buckets))


def without_width(rows: NDArray[np.float64], values: NDArray[Any]) -> NDArray[np.float64]:
    """Return rows whose outermost buckets have no width if they hold nothing but their inner edge.

    So values that end at 1, as a sigmoid's, are not drawn from 1 to 1.25. Inner edges still tell buckets
    apart.
    """
    with np.errstate(over="ignore"):
        low, high = np.asarray([values.min(), values.max()]).astype(np.float32)  # as they were counted
    if rows[-1, 0] == high:
        rows[-1, 1] = high
    if rows[0, 1] == low:
        rows[0, 0] = low
    return rows


def split_finite(held: Snapshot) -> tuple[NDArray[Any], int]:
    """Return the finite values and the number of the others.

    Raises:
        RefusalError: None is finite, or they are complex.
    """
    values = held.fetch().reshape(-1)
    if values.dtype.kind == "c":
        raise refused("complex numbers", "log their abs(), real or imag")
    if values.dtype.kind == "b":
        return values.astype(np.uint8), 0
    if values.dtype.kind != "f":
        return values, 0
    if np.isfinite(values.min()) and np.isfinite(values.max()):  # no mask where none is needed
        return values, 0
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise RefusalError(
            "nonfinite", f"all {values.size} values are NaN or infinite", "find where they come from"
        )
    return finite, values.size - finite.size


def checked_buckets(buckets: object) -> None:
    """Check how many buckets are asked for."""
    whole = isinstance(buckets, int) and not isinstance(buckets, bool) and 1 <= buckets <= MAX_BUCKETS
    if buckets != "fixed" and not whole:
        raise refused(f"buckets={shown(buckets)}", f"an integer from 1 to {MAX_BUCKETS}, or 'fixed'")


def prepare_histogram_counts(counts: Any, edges: Any, description: str = "") -> Prepared:
    """Return the histogram of counts that the caller has.

    Args:
        counts: One per bucket.
        edges: One more: the beginning of each, and the end of the last one.
        description: Markdown.

    Raises:
        RefusalError: They do not fit.
    """
    counted, limits = snapshot(counts, "counts"), snapshot(edges, "edges")
    if len(counted.shape) != 1 or len(limits.shape) != 1 or limits.size != counted.size + 1:
        raise refused(
            f"{counted.shape} counts and {limits.shape} edges", "pass one edge more than there are counts"
        )

    def make(tag: str) -> list[Value]:
        number, limit = counted.fetch().astype(np.float64), limits.fetch().astype(np.float64)
        if not (np.isfinite(number).all() and (number >= 0).all()):
            raise refused("counts that are negative or not finite", "count values")
        if not np.isfinite(limit).all() or (np.diff(limit) < 0).any():
            raise refused("edges that are not in ascending order or not finite", "sort them")
        return [histogram.value(tag, np.stack([limit[:-1], limit[1:], number], 1), description=description)]

    return Prepared(make, counted.nbytes + limits.nbytes)


def take_examples(labels: Any, predictions: Any, weights: Any) -> tuple[Snapshot, Snapshot, Snapshot | None]:
    """Take the labels, predictions and weights of as many examples.

    Raises:
        RefusalError: They do not fit.
    """
    truth, guess = snapshot(labels, "labels"), snapshot(predictions, "probabilities")
    weight = None if weights is None else snapshot(weights, "weights")
    if truth.size != guess.size or not truth.size:
        raise refused(
            f"{counted(truth.size, 'label')} and {counted(guess.size, 'prediction')}",
            "pass one of each per example",
        )
    if weight is not None and weight.size not in (1, truth.size):
        raise refused(
            f"{counted(weight.size, 'weight')} for {counted(truth.size, 'example')}", "pass one per example"
        )
    return truth, guess, weight


THRESHOLDS = 200


def prepare_curve(
    labels: Any, predictions: Any, thresholds: int = THRESHOLDS, weights: Any = None, description: str = ""
) -> Prepared:
    """Return the curve of a classifier of two classes.

    Args:
        labels: Booleans, or 0 and 1.
        predictions: Probabilities, as many.
        thresholds: How many, at least 2.
        weights: Of each example.
        description: Markdown.

    Raises:
        RefusalError: They do not fit.
    """
    if isinstance(thresholds, bool) or not isinstance(thresholds, int) or not 2 <= thresholds <= 1 << 20:
        raise refused(f"num_thresholds={shown(thresholds)}", "an integer from 2 on")
    truth, guess, weight = take_examples(labels, predictions, weights)

    def make(tag: str) -> list[Value]:
        probability = guess.fetch().reshape(-1).astype(np.float64)
        if not ((probability >= 0) & (probability <= 1)).all():
            raise refused("predictions beyond 0 to 1, or NaN", "pass probabilities, not logits")
        weighed = None if weight is None else weight.fetch().reshape(-1)
        curve = pr_curve.curve_of(truth.fetch().reshape(-1), probability, thresholds, weighed)
        return [pr_curve.value(tag, curve.astype(np.float32), description=description)]

    return Prepared(make, truth.nbytes + guess.nbytes + (weight.nbytes if weight else 0))


def prepare_mesh(
    vertices: Any, colors: Any = None, faces: Any = None, config: Any = None, description: str = ""
) -> Prepared:
    """Return a point cloud, or with faces a mesh of triangles.

    Args:
        vertices: Positions [n, 3], or [batch, n, 3].
        colors: RGB of 0 to 255, one per vertex.
        faces: Numbers of the three vertices of each triangle.
        config: Settings of THREE.js.
        description: Markdown.

    Raises:
        RefusalError: They do not fit.
    """
    given = {"vertices": vertices, "faces": faces, "colors": colors}
    parts = {name: _part(name, array) for name, array in given.items() if array is not None}
    if "vertices" not in parts:
        raise refused("no vertices", "pass positions [n, 3]")
    if "colors" in parts and parts["colors"].shape != parts["vertices"].shape:
        raise refused(
            f"colors of shape {parts['colors'].shape} for vertices of shape {parts['vertices'].shape}",
            "pass one color per vertex",
        )
    if config is not None and not isinstance(config, Mapping):
        raise refused("a config that is not a mapping", "config={'camera': …}")
    settings = json.dumps(config or {}, sort_keys=True)

    def make(tag: str) -> list[Value]:
        arrays = {name: _batch(held.fetch()) for name, held in parts.items()}
        if not np.isfinite(arrays["vertices"]).all():
            raise refused("positions that are NaN or infinite", "leave those vertices out")
        return mesh.values(tag, arrays, settings, description=description)

    return Prepared(make, bounded(sum(held.nbytes for held in parts.values())))


def _part(name: str, value: Any) -> Snapshot:
    held = snapshot(value, name)
    if len(held.shape) not in (2, 3) or held.shape[-1] != 3 or not held.size:
        raise refused(f"{name} of shape {held.shape}", f"pass {name} as [n, 3] or [batch, n, 3]")
    return held


def _batch(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.ndim == 3 else array[np.newaxis]


# --- embeddings -------------------------------------------------------------------------------------


EMBEDDING = "stepscope_embedding"
CONFIG = "projector_config.pbtxt"
FOLDER = "projector"
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_BREAKS = re.compile(r"[\t\r\n]+")
_UNCHANGING = frozenset({str, int, float, bool, bytes, type(None)})
Labels = Callable[[], Iterator[bytes]]
MAX_SPRITE = 8192
"""Browsers take no larger texture."""


def prepare_embedding(
    directory: str,
    vectors: Any,
    step: int,
    *,
    labels: Sequence[Any] | None = None,
    columns: Sequence[str] | None = None,
    images: Any = None,
    dataformats: str | None = None,
    name: str | None = None,
) -> Prepared:
    """Return an embedding, whose files are written on the background thread.

    Args:
        directory: Of the run.
        vectors: [points, dimensions].
        step: Part of its name.
        labels: One per point: a text, or one text for each of ``columns``.
        columns: Names of the columns of labels.
        images: One per point, shown in its place.
        dataformats: Of the images.
        name: Name of the embedding, if not the tag and step.

    Raises:
        RefusalError: They do not fit.
    """
    held = vectors_of(vectors)
    rows = labels_of(labels, columns, held.shape[0])
    sprite = None if images is None else hold(images, dataformats, batch=True)

    def make(tag: str) -> list[Value]:
        folder = f"{FOLDER}/{_ODD.sub('_', tag)}/{step:08d}"
        facts = write_embedding(Path(directory), folder, name or f"{tag}:{step:08d}", held, rows, sprite)
        return [Value.of(tag, EMBEDDING, Tensor.of_texts(json.dumps(facts).encode()))]

    return Prepared(make, held.nbytes + (sprite.nbytes if sprite else 0))


def vectors_of(vectors: Any) -> Snapshot:
    """Return the vectors of an embedding: [points, dimensions]."""
    held = snapshot(vectors, "an array [points, dimensions]")
    if len(held.shape) != 2 or not held.size:
        raise refused(f"vectors of shape {held.shape}", "pass [points, dimensions]")
    return held


def labels_of(labels: Sequence[Any] | None, columns: Sequence[str] | None, points: int) -> Labels | None:
    """Return a function that makes the lines of the label file; the first line names several columns."""
    if labels is None:
        return None
    names = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(names) != points:
        raise refused(f"{counted(len(names), 'label')} for {counted(points, 'point')}", "pass one per point")
    if not columns:
        fixed = names if _UNCHANGING.issuperset(map(type, names)) else [str(label) for label in names]
        return lambda: _label_lines(_cell(label) for label in fixed)
    if any(isinstance(row, str) or len(row) != len(columns) for row in names):
        raise refused("labels that do not have one part per column", f"pass {len(columns)} parts each")
    rows = [tuple(row) for row in [columns, *names]]
    if not all(_UNCHANGING.issuperset(map(type, row)) for row in rows):
        rows = [tuple(map(str, row)) for row in rows]
    return lambda: _label_lines("\t".join(map(_cell, row)) for row in rows)


def _label_lines(rows: Iterator[str]) -> Iterator[bytes]:
    """Yield lines some at a time, and let the training go on in between."""
    while some := list(itertools.islice(rows, encode.LINES)):
        yield ("\n".join(some) + "\n").encode("utf-8", "replace")
        encode.breathe()


def _cell(value: object) -> str:
    """Return a label on one line."""
    return _BREAKS.sub(" ", str(value)) or " "


def write_embedding(
    directory: Path, folder: str, name: str, held: Snapshot, rows: Labels | None, sprite: Held | None
) -> dict[str, Any]:
    """Write the files and name them in the projector's config; return the written paths."""
    matrix = held.fetch()
    if matrix.dtype.kind == "f" and not np.isfinite(matrix).all():
        raise refused("vectors that are NaN or infinite", "leave those points out")
    place = directory / folder
    place.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"name": name, "points": matrix.shape[0], "dimensions": matrix.shape[1]}
    encode.write_rows(place / "tensors.tsv", matrix)
    facts["tensor_path"] = f"{folder}/tensors.tsv"
    config = [f"  tensor_name: {_quoted(name)}", f"  tensor_path: {_quoted(facts['tensor_path'])}"]
    if rows is not None:
        with (place / "metadata.tsv").open("wb") as file:
            file.writelines(rows())
        facts["metadata_path"] = f"{folder}/metadata.tsv"
        config.append(f"  metadata_path: {_quoted(facts['metadata_path'])}")
    if sprite is not None:
        picture, width, height = sprite_of(sprite.pixels(), matrix.shape[0])
        facts["sprite_path"] = _put(directory, folder, "sprite.png", picture)
        sizes = f"    single_image_dim: {width}\n    single_image_dim: {height}"
        config.append(f"  sprite {{\n    image_path: {_quoted(facts['sprite_path'])}\n{sizes}\n  }}")
    _add_to_config(directory / CONFIG, "\n".join(["embeddings {", *config, "}"]) + "\n", name)
    return facts


def _put(directory: Path, folder: str, name: str, data: bytes) -> str:
    (directory / folder / name).write_bytes(data)
    return f"{folder}/{name}"


def _add_to_config(path: Path, block: str, name: str) -> None:
    """Add a block to the config; it replaces one of the same name from an earlier attempt."""
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    blocks = [block for block in re.split(r"(?m)^(?=embeddings \{)", known) if block.strip()]
    others = [block for block in blocks if f"tensor_name: {_quoted(name)}" not in block]
    path.write_text("".join([*others, block]), encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True) if text.isascii() else json.dumps(text, ensure_ascii=False)


def sprite_of(pixels: NDArray[np.uint8], points: int) -> tuple[bytes, int, int]:
    """Return all images in one square picture, row by row, and the size of each.

    Raises:
        RefusalError: Their number is not that of the points, or the picture would be too large.
    """
    count, height, width, channels = pixels.shape
    if count != points:
        raise refused(f"{counted(count, 'image')} for {counted(points, 'point')}", "pass one per point")
    side = math.ceil(count**0.5)
    if side * max(height, width) > MAX_SPRITE:
        hint = f"all of them together may have {MAX_SPRITE} pixels a side"
        raise refused(f"{counted(count, 'image')} of {width} x {height}", hint)
    canvas = np.zeros((side * side, height, width, channels), np.uint8)
    canvas[:count] = pixels
    square = canvas.reshape(side, side, height, width, channels).transpose(0, 2, 1, 3, 4)
    return encode.png(square.reshape(side * height, side * width, channels)), width, height
