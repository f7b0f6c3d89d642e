"""Answers to ``GET embeddings``, ``embedding``, ``neighbours`` and ``sprite``: points of many dimensions."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from stepscope.analyze.projection import Matrix, Projection, nearest, principal_components
from stepscope.errors import EventFileError
from stepscope.events.kinds.image import EncodedImage
from stepscope.lru import Lru
from stepscope.serve.frame import FrameArrays, pack
from stepscope.serve.records.ask import SHOWN_MIMES, shown
from stepscope.serve.reply import File, Refusal, refusing
from stepscope.serve.routes import FRAME, get
from stepscope.serve.types import Column
from stepscope.store import Log, StoredRun
from stepscope.store.projector import Embedding, Labels, embeddings_of, file_of, labels_of, matrix_of, read
from stepscope.text import counted

Reduction = Literal["pca", "umap"]


Metric = Literal["cosine", "euclidean"]


MAX_NEIGHBOURS = 200


class EmbeddingFacts(msgspec.Struct, frozen=True):
    """One embedding of a run, as its projector config names it."""

    name: str
    sprite: list[int] | None
    """Width and height of the picture of one point; null: there are none."""
    error: str | None
    """Why it cannot be shown, as far as that is known without reading it."""
    version: str
    """Another one once its files are."""


class EmbeddingList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/embeddings?run=``."""

    run: str
    embeddings: list[EmbeddingFacts]
    umap: bool
    """Whether umap-learn is installed where the server runs."""
    error: str | None
    """Why the config cannot be read."""


class EmbeddingHeader(msgspec.Struct, frozen=True):
    """Header of the frame that answers ``GET api/v1/embedding?run=&name=&method=&axes=``."""

    run: str
    name: str
    method: Reduction
    points: int
    dimensions: int
    exact: bool
    """False: components of a random sketch, because exact ones would take too long."""
    explained: list[float]
    """Share of the variance along each axis, 0 to 1; empty if axes mean nothing."""
    waiting_seconds: float | None
    """Since when it has been computed; null: it is done. Ask again until then."""
    columns: list[str]
    """Names of the columns of labels."""
    labels: list[list[str]]
    """One per point, each with a text per column."""
    labels_error: str | None
    places: Column
    """float32, three per point; absent axes are 0."""


class Neighbour(msgspec.Struct, frozen=True):
    """A point near another."""

    point: int
    distance: float


class NeighbourList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/neighbours?run=&name=&point=&metric=&count=``, nearest first."""

    run: str
    name: str
    point: int
    metric: Metric
    neighbours: list[Neighbour]


KEPT = 3
"""Embeddings whose vectors stay in memory."""
IN_CHECKPOINT = "its vectors are in a checkpoint of TensorFlow, which is not read"
Stamp = tuple[Any, ...]
Name = Annotated[str | None, Meta(description="name of an embedding; default: the last")]


class EmbeddingAnswers:
    """Answers about embeddings and holds those asked for last. Safe for threads.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._matrices: Lru[Stamp, Matrix] = Lru(KEPT)
        self._projections: Lru[Stamp, Projection] = Lru(KEPT)
        self._jobs: dict[Stamp, tuple[float, list[Any]]] = {}

    @get("embeddings")
    def listing(self, run: StoredRun, log: Log | None) -> EmbeddingList:
        """Return the embeddings of a run."""
        assert log is not None
        error = None
        embeddings: list[Embedding] = []
        try:
            embeddings = embeddings_of(log, run.name)
        except EventFileError as trouble:
            error = trouble.message
        facts = [
            EmbeddingFacts(
                embedding.name,
                list(embedding.sprite_size) if embedding.sprite_path and all(embedding.sprite_size) else None,
                None if embedding.tensor_path else IN_CHECKPOINT,
                version_of(log.path.resolve(), embedding),
            )
            for embedding in embeddings
        ]
        return EmbeddingList(run.name, facts, has_umap(), error)

    @get("embedding", frame=EmbeddingHeader)
    def points(
        self,
        run: StoredRun,
        log: Log | None,
        name: Name = None,
        method: Reduction = "pca",
        axes: Annotated[int, Meta(ge=2, le=3)] = 3,
    ) -> bytes:
        """Return the points of an embedding in three dimensions, with their labels, as a frame.

        Raises:
            Refusal: No such embedding, or one that cannot be read.
        """
        if method == "umap" and not has_umap():
            raise Refusal(409, "umap-learn is not installed where the server runs", "pip install umap-learn")
        embedding, matrix, stamp = self.of(run, log, name)
        if method == "umap" and len(matrix) < axes + 2:
            least = f"{axes + 2} points for {counted(axes, 'dimension')}"
            raise Refusal(422, f"UMAP needs at least {least}, found {len(matrix)}", "PCA shows fewer")
        projection, since = self.projected(method, axes, matrix, stamp)
        labels, labels_error = Labels(), None
        assert log is not None
        try:
            labels = labels_of(log.path.resolve(), embedding, len(matrix))
        except EventFileError as trouble:
            labels_error = trouble.message
        places = np.zeros((len(matrix) if projection else 0, 3), np.float32)
        if projection:
            places[:, : projection.places.shape[1]] = projection.places
        arrays = FrameArrays()
        header = EmbeddingHeader(
            run=run.name, name=embedding.name, method=method, points=len(matrix), dimensions=matrix.shape[1],
            exact=projection.exact if projection else True,
            explained=projection.explained if projection else [],
            waiting_seconds=since, columns=labels.columns if projection else [],
            labels=labels.rows if projection else [], labels_error=labels_error,
            places=arrays.add(places.ravel()),
        )  # fmt: skip
        return pack(header, arrays)

    @get("neighbours")
    def neighbours(
        self,
        run: StoredRun,
        log: Log | None,
        name: Name = None,
        point: Annotated[int, Meta(ge=0, description="number of a point")] = 0,
        metric: Metric = "cosine",
        count: Annotated[int, Meta(ge=1, le=MAX_NEIGHBOURS)] = 20,
    ) -> NeighbourList:
        """Return the points nearest to one.

        Raises:
            Refusal: No such embedding or point.
        """
        embedding, matrix, _ = self.of(run, log, name)
        if point >= len(matrix):
            raise Refusal(400, f"no point {point}: there are {len(matrix)}", "ask api/v1/embedding")
        order, far = nearest(matrix, point, count, metric)
        near = [Neighbour(*neighbour) for neighbour in zip(order.tolist(), far.tolist(), strict=True)]
        return NeighbourList(run.name, embedding.name, point, metric, near)

    @get("sprite", media=(*sorted(SHOWN_MIMES), FRAME))
    def sprite(self, run: StoredRun, log: Log | None, name: Name = None) -> File:
        """Return the sprite image of all points.

        Raises:
            Refusal: There is none.
        """
        embedding, root = named(run, log, name)
        if not embedding.sprite_path:
            raise Refusal(404, f"{embedding.name!r:.200} has no pictures", "run.embedding(…, images=…)")
        with refusing({EventFileError: 404}):
            data = read(root, file_of(root, embedding.folder, embedding.sprite_path))
        mime = (
            "image/png"
            if data[:8] == b"\x89PNG\r\n\x1a\n"
            else "image/jpeg"
            if data[:2] == b"\xff\xd8"
            else ""
        )
        picture = shown(EncodedImage(mime, data))
        return File(picture.data, picture.mime)

    def of(self, run: StoredRun, log: Log | None, name: str | None) -> tuple[Embedding, Matrix, Stamp]:
        """Return an embedding with its vectors, and a stamp that changes when they do."""
        embedding, root = named(run, log, name)
        with refusing({EventFileError: 422}):
            stamp = stamp_of(root, embedding)
            known = self._matrices.get(stamp)
            matrix = matrix_of(root, embedding) if known is None else known
        self._matrices.put(stamp, matrix)
        return embedding, matrix, stamp

    def projected(
        self, method: str, axes: int, matrix: Matrix, stamp: Stamp
    ) -> tuple[Projection | None, float | None]:
        """Return the points in two or three dimensions, or since when they have been computed."""
        key = (method, axes, *stamp)
        known = self._projections.get(key)
        if known is None and method == "pca":
            known = principal_components(matrix, axes)
        if known is None:
            known, since = self.in_background(key, matrix)
            if known is None:
                return None, since
        self._projections.put(key, known)
        return known, None

    def in_background(self, key: Stamp, matrix: Matrix) -> tuple[Projection | None, float]:
        """Return the result of a thread of its own, or since when it has been at it, in seconds."""
        with self._lock:
            if key not in self._jobs:
                self._jobs[key] = (self._clock(), [])
                begin = threading.Thread(
                    target=self.run, args=(key, matrix), name="stepscope-umap", daemon=True
                )
                begin.start()
            since, result = self._jobs[key]
            if result:
                del self._jobs[key]
        if result and isinstance(result[0], Exception):
            raise Refusal(422, f"UMAP failed: {result[0]!s:.300}", "see the server's terminal")
        return (result[0] if result else None), self._clock() - since

    def run(self, key: Stamp, matrix: Matrix) -> None:
        """Compute one projection and leave it, or why there is none, for whoever asks next."""
        result = self._jobs[key][1]
        try:
            result.append(umap_projection(matrix, key[1]))
        except Exception as error:  # noqa: BLE001  whatever another package raises is told to who asked
            result.append(error)


def stamp_of(root: Path, embedding: Embedding) -> Stamp:
    """Return a stamp that changes when the vectors do."""
    if not embedding.tensor_path:
        return (str(embedding.folder), embedding.name)
    return (str(embedding.folder), embedding.tensor_path, *state_of(root, embedding, embedding.tensor_path))


def version_of(root: Path, embedding: Embedding) -> str:
    """Return a stamp that changes when one of its files does, without reading any."""
    parts = []
    for path in (embedding.tensor_path, embedding.metadata_path, embedding.sprite_path):
        part = ""
        with suppress(OSError, EventFileError):  # said when it is asked for
            part = "-".join(f"{number:x}" for number in state_of(root, embedding, path)) if path else ""
        parts.append(part)
    return ".".join(parts)


def state_of(root: Path, embedding: Embedding, path: str) -> tuple[int, int]:
    """Return time of the last change and size of one of its files, which are others once it is.

    Raises:
        EventFileError: It lies elsewhere, or is not a file.
        OSError: It is gone.
    """
    state = file_of(root, embedding.folder, path).stat()
    return state.st_mtime_ns, state.st_size


def has_umap() -> bool:
    """Return whether umap-learn is installed."""
    return find_spec("umap") is not None


def umap_projection(matrix: Matrix, axes: int) -> Projection:
    """Return UMAP's points with its defaults and a fixed seed (McInnes et al. 2018)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TensorFlow, which is not needed, and of points that are alike
        umap = import_module("umap")
        near = max(2, min(15, len(matrix) - 1))
        made = umap.UMAP(n_components=axes, n_neighbors=near, random_state=0, n_jobs=1)
        places = np.asarray(made.fit_transform(matrix), np.float32)
    return Projection(places - places.mean(0), [], True)


def named(run: StoredRun, log: Log | None, name: str | None) -> tuple[Embedding, Path]:
    """Return an embedding of a run, by default the last, and the folder that all files lie in."""
    assert log is not None
    with refusing({EventFileError: 422}):
        embeddings = embeddings_of(log, run.name)
    if name is None:
        name = embeddings[-1].name if embeddings else ""
    for embedding in embeddings:
        if embedding.name == name:
            return embedding, log.path.resolve()
    raise Refusal(404, f"run {run.name!r} has no embedding {name!r:.200}", "see api/v1/embeddings")
