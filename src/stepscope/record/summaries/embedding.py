"""Embeddings: the files that TensorBoard's projector reads, beside the event file."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.events.messages import DataClass, Metadata, Shape, Tensor, Value
from stepscope.events.tensors import STRING
from stepscope.record.summaries import encode
from stepscope.record.summaries.media import Held, hold
from stepscope.record.summaries.snapshot import Snapshot, snapshot
from stepscope.record.summary_encoder import Prepared, refused

PLUGIN = "stepscope_embedding"
CONFIG = "projector_config.pbtxt"
FOLDER = "projector"
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_BREAKS = re.compile(r"[\t\r\n]+")
_UNCHANGING = frozenset({str, int, float, bool, bytes, type(None)})
Labels = Callable[[], Iterator[bytes]]
MAX_SPRITE = 8192
"""Browsers take no larger texture."""


def prepare(
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
        name: Of the embedding, where not the tag and step.

    Raises:
        RefusalError: They do not fit.
    """
    held = snapshot(vectors, "an array [points, dimensions]")
    if len(held.shape) != 2 or not held.size:
        raise refused(f"vectors of shape {held.shape}", "pass [points, dimensions]")
    rows = labels_of(labels, columns, held.shape[0])
    sprite = None if images is None else hold(images, dataformats, batch=True)

    def make(tag: str) -> list[Value]:
        folder = f"{FOLDER}/{_ODD.sub('_', tag)}/{step:08d}"
        facts = write(Path(directory), folder, name or f"{tag}:{step:08d}", held, rows, sprite)
        tensor = Tensor(STRING, Shape(), string_val=[json.dumps(facts).encode()])
        return [Value(tag, tensor=tensor, metadata=Metadata.of(PLUGIN, data_class=int(DataClass.TENSOR)))]

    return Prepared(make, held.nbytes + (sprite.nbytes if sprite else 0))


def labels_of(labels: Sequence[Any] | None, columns: Sequence[str] | None, points: int) -> Labels | None:
    """Return a function that makes the lines of the label file; the first line names several columns."""
    if labels is None:
        return None
    found = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(found) != points:
        raise refused(f"{len(found)} labels for {points} points", "pass one per point")
    if not columns:
        fixed = found if _UNCHANGING.issuperset(map(type, found)) else [str(label) for label in found]
        return lambda: _lines(_cell(label) for label in fixed)
    if any(isinstance(row, str) or len(row) != len(columns) for row in found):
        raise refused("labels that do not have one part per column", f"pass {len(columns)} parts each")
    rows = [tuple(row) for row in [columns, *found]]
    if not all(_UNCHANGING.issuperset(map(type, row)) for row in rows):
        rows = [tuple(map(str, row)) for row in rows]
    return lambda: _lines("\t".join(map(_cell, row)) for row in rows)


def _lines(rows: Iterator[str]) -> Iterator[bytes]:
    """Yield lines some at a time, and let the training go on in between."""
    while some := list(itertools.islice(rows, encode.LINES)):
        yield ("\n".join(some) + "\n").encode("utf-8", "replace")
        encode.breathe()


def _cell(value: object) -> str:
    """Return a label on one line."""
    return _BREAKS.sub(" ", str(value)) or " "


def write(
    directory: Path, folder: str, name: str, held: Snapshot, rows: Labels | None, sprite: Held | None
) -> dict[str, Any]:
    """Write the files and name them in the projector's config; return what was written."""
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
    _name(directory / CONFIG, "\n".join(["embeddings {", *config, "}"]) + "\n", name)
    return facts


def _put(directory: Path, folder: str, name: str, data: bytes) -> str:
    (directory / folder / name).write_bytes(data)
    return f"{folder}/{name}"


def _name(path: Path, block: str, name: str) -> None:
    """Add a block to the config; it replaces one of the same name from an earlier attempt."""
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    blocks = [each for each in re.split(r"(?m)^(?=embeddings \{)", known) if each.strip()]
    kept = [each for each in blocks if f"tensor_name: {_quoted(name)}" not in each]
    path.write_text("".join([*kept, block]), encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True) if text.isascii() else json.dumps(text, ensure_ascii=False)


def sprite_of(pixels: NDArray[np.uint8], points: int) -> tuple[bytes, int, int]:
    """Return all images in one square picture, row by row, and the size of each.

    Raises:
        RefusalError: Their number is not that of the points, or the picture would be too large.
    """
    count, height, width, channels = pixels.shape
    if count != points:
        raise refused(f"{count} images for {points} points", "pass one per point")
    side = math.ceil(count**0.5)
    if side * max(height, width) > MAX_SPRITE:
        hint = f"all of them together may have {MAX_SPRITE} pixels a side"
        raise refused(f"{count} images of {width} x {height}", hint)
    canvas = np.zeros((side * side, height, width, channels), np.uint8)
    canvas[:count] = pixels
    square = canvas.reshape(side, side, height, width, channels).transpose(0, 2, 1, 3, 4)
    return encode.png(square.reshape(side * height, side * width, channels)), width, height
