"""Embeddings as TensorBoard's projector finds them: ``projector_config.pbtxt`` and the files that it names.

The files of a config are read only if they lie under the log directory: a log is data, not a list of
requests.
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import EventFileError
from stepscope.files import regular_bytes, run_directory
from stepscope.protos import classes
from stepscope.store.log import Log
from stepscope.text import counted, printable

CONFIG = "projector_config.pbtxt"
MAX_CONFIG_BYTES = 16 << 20
MAX_FILE_BYTES = 2 << 30
WRITE_ANEW = "write it with torch's SummaryWriter.add_embedding, or with TensorBoard's visualize_embeddings"
"""The next action if a projector's config cannot be read."""
MAX_NUMBERS = 1 << 28
"""Most numbers of one matrix: 1 GiB as float32."""
MAX_TEXTS = 1 << 24
"""Labels of all points in all columns: each is an object of Python, of a hundred bytes."""
BLOCK_BYTES, MAX_LINE_BYTES = 256 << 10, 64 << 20
"""Of numbers as text: how much is read at once, and the longest line."""
_MESSAGES = """
Config: embeddings 2 EmbeddingInfo*
EmbeddingInfo: tensor_name 1 bytes, metadata_path 2 bytes, tensor_shape 4 uint32*, sprite 5 Sprite, \
tensor_path 6 bytes
Sprite: image_path 1 bytes, single_image_dim 2 uint32*
"""
"""Field numbers as in TensorBoard's projector_config.proto; of others nothing is read."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """One embedding of a run, as its config names it.

    Attributes:
        name: Name of its tensor.
        folder: Directory of the config; relative paths count from there.
        tensor_path: Rows of numbers between tabs, or float32 as bytes; empty: in a checkpoint.
        metadata_path: A label a line, or columns between tabs below a line of their names; empty: none.
        sprite_path: One picture of all points' pictures; empty: none.
        sprite_size: Width and height of the picture of one point.
        tensor_shape: Of a tensor in bytes.
    """

    name: str
    folder: Path
    tensor_path: str = ""
    metadata_path: str = ""
    sprite_path: str = ""
    sprite_size: tuple[int, int] = (0, 0)
    tensor_shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of the points.

    Attributes:
        columns: Names of the columns.
        rows: One per point, each with a text per column.
    """

    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def embeddings_of(log: Log, run: str) -> list[Embedding]:
    """Return the embeddings of a run, as its config lists them.

    Keras writes the config one folder above its runs ``train`` and ``validation``: that of a folder which is
    itself no run belongs to the runs below it that have none.

    Raises:
        EventFileError: It is not a config.
    """
    runs = {other.name for other in log.runs()}
    root, folder = log.path.resolve(), run_directory(log.path, run)
    while not (folder / CONFIG).is_file():
        above = folder.parent
        if above == log.path.parent or folder == log.path or name_of(log.path, above) in runs:
            return []
        folder = above
    data = read(root, folder / CONFIG, MAX_CONFIG_BYTES)
    return [embedding_of(block, folder) for block in parse(data.decode("utf-8", "replace")).embeddings]


def name_of(root: Path, folder: Path) -> str:
    """Return the run that lies in a folder."""
    return printable(folder.relative_to(root).as_posix())


def embedding_of(block: Any, folder: Path) -> Embedding:
    """Return the embedding of one block of a config."""
    texts = (block.tensor_name, block.tensor_path, block.metadata_path, block.sprite.image_path)
    name, tensor, metadata, sprite = (text.decode("utf-8", "replace") for text in texts)
    width, height = [*block.sprite.single_image_dim, 0, 0][:2]
    return Embedding(name, folder, tensor, metadata, sprite, (width, height), tuple(block.tensor_shape))


def parse(text: str) -> Any:
    """Return a config in protobuf's text format as a message, whose texts are bytes.

    Raises:
        EventFileError: It is not in that format.
    """
    from google.protobuf import text_format

    config = classes("stepscope.projector", _MESSAGES)("Config")()
    try:
        return text_format.Parse(text, config, allow_unknown_field=True)
    except (text_format.ParseError, RecursionError) as error:
        raise EventFileError(f"not a projector config: {error}", hint=WRITE_ANEW) from None


# --- files --------------------------------------------------------------------------------------------


def file_of(root: Path, folder: Path, name: str) -> Path:
    """Return a file that a config names.

    Raises:
        EventFileError: It is outside the log directory, or not a file.
    """
    try:
        path = (folder / name).resolve()
        inside = path.is_relative_to(root)
        if inside and path.is_file():
            return path
    except (OSError, ValueError):
        inside = True
    why = "is not there" if inside else "lies outside the log directory"
    raise EventFileError(f"{name!r:.200} of the projector's config {why}", hint="move the files below it")


def read(root: Path, path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        EventFileError: It cannot be read, or is too large.
    """
    try:
        return regular_bytes(path, most)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise EventFileError(
                f"{path.name} has more than {most:,} bytes", hint="record fewer points"
            ) from None
        raise EventFileError(
            f"{path.name} cannot be read: {error.strerror or error}",
            hint="let this user read the file, and check that it is still there",
        ) from None


def matrix_of(root: Path, embedding: Embedding) -> NDArray[np.float32]:
    """Return the vectors, [points, dimensions].

    Raises:
        EventFileError: They are in a checkpoint, or are not vectors.
    """
    if not embedding.tensor_path:
        raise EventFileError(
            f"the vectors of {embedding.name!r:.200} are in a checkpoint of TensorFlow, which is not read",
            hint="run.embedding(…) writes them as a file",
        )
    path = file_of(root, embedding.folder, embedding.tensor_path)
    data = read(root, path)
    matrix = (
        from_bytes(data, embedding)
        if embedding.tensor_shape and not is_text(data)
        else from_lines(data, path.name)
    )
    if not np.isfinite(matrix).all():
        bad = int((~np.isfinite(matrix).all(axis=1)).sum())
        raise EventFileError(
            f"{bad:,} vectors in {path.name} are NaN or infinite", hint="leave those points out"
        )
    return matrix


def is_text(data: bytes) -> bool:
    """Return whether bytes begin as rows of numbers do."""
    return bool(re.match(rb"[\s\d.eE+\-naifINF]{1,200}$", data[:200]))


def from_bytes(data: bytes, embedding: Embedding) -> NDArray[np.float32]:
    """Return a matrix that is stored as float32."""
    shape = embedding.tensor_shape
    if len(shape) != 2 or len(data) != 4 * shape[0] * shape[1] or not len(data):
        raise EventFileError(
            f"{len(data):,} bytes are not float32 values of shape {list(shape)}",
            hint="write it again with the shape that the config names",
        )
    return np.frombuffer(data, "<f4").reshape(shape)


def from_lines(data: bytes, name: str) -> NDArray[np.float32]:
    """Return a matrix that is stored as rows of numbers between tabs."""
    if not data.strip():
        raise EventFileError(
            f"{name} is empty", hint="write the embedding again; a copy may have been cut short"
        )
    blocks, numbers, lines = list[NDArray[np.float32]](), 0, 0
    for block in line_blocks(data, name):
        try:
            rows = np.loadtxt(io.BytesIO(block), np.float32, comments=None, ndmin=2)
            if blocks and rows.shape[1] != blocks[0].shape[1]:
                raise ValueError(f"{rows.shape[1]} numbers in a line, {blocks[0].shape[1]} in those before")
        except ValueError as error:
            where = f", from line {lines + 1:,} on" if lines else ""
            raise EventFileError(
                f"{name} does not hold rows of numbers{where}: {error}",
                hint="write tab-separated numbers, one point a line",
            ) from None
        numbers += rows.size
        lines += block.count(b"\n")
        if numbers > MAX_NUMBERS:
            raise EventFileError(
                f"{name} holds more than {MAX_NUMBERS:,} numbers",
                hint="embed fewer points, or fewer numbers of each",
            )
        blocks.append(rows)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def line_blocks(data: bytes, name: str) -> Iterator[bytes]:
    """Yield whole lines in blocks, without blocks of empty lines only.

    All lines at once would block every other thread of a server for half a minute.
    """
    at = 0
    while at < len(data):
        end = data.find(b"\n", min(at + BLOCK_BYTES, len(data)), at + MAX_LINE_BYTES) + 1
        if not end:
            end = len(data)
            if end - at > MAX_LINE_BYTES:
                raise EventFileError(
                    f"{name} has a line of more than {MAX_LINE_BYTES:,} bytes",
                    hint="write tab-separated numbers, one point a line",
                )
        block = data[at:end]
        if block.strip():
            yield block
        at = end


def labels_of(root: Path, embedding: Embedding, points: int) -> Labels:
    """Return the labels of the points; nothing if their number differs.

    As in TensorBoard, a first line names the columns if there is more than one.

    Raises:
        EventFileError: They cannot be read, or belong to other points.
    """
    if not embedding.metadata_path:
        return Labels()
    path = file_of(root, embedding.folder, embedding.metadata_path)
    data = read(root, path)
    width = data.count(b"\t", 0, data.find(b"\n") + 1) + 1
    if max((points + 2) * width, data.count(b"\n"), data.count(b"\t")) > MAX_TEXTS:
        raise EventFileError(
            f"{path.name} holds more than {MAX_TEXTS:,} labels",
            hint="write one label a line for each point, in fewer columns",
        )
    lines = data.decode("utf-8", "replace").split("\n")
    rows = [line.rstrip("\r").split("\t") for line in (lines[:-1] if lines[-1] == "" else lines)]
    named = bool(rows) and len(rows[0]) > 1
    columns = rows[0] if named else ["label"]
    rows = rows[1:] if named else rows
    if len(rows) != points:
        raise EventFileError(
            f"{path.name} has {counted(len(rows), 'label')} for {counted(points, 'point')}",
            hint="write one label a line, and a line of headings where there are several columns",
        )
    width = len(columns)
    return Labels(columns, [(row + [""] * width)[:width] for row in rows])
