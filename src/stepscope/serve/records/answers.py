"""Answers to ``GET records``, ``record``, ``blob`` and ``graph``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope.errors import EventFileError
from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.events.kinds.image import EncodedImage, Images
from stepscope.events.kinds.reading import Kind
from stepscope.serve.records import graph
from stepscope.serve.records.ask import SHOWN_MIMES, Tag, attempts_of, shown, thinned
from stepscope.serve.reply import File, Refusal, refusing
from stepscope.serve.routes import FRAME, get
from stepscope.store import RecordSeries as StoredSeries
from stepscope.store import RecordTag, StoredRun

RecordKind = Kind


MAX_RECORDS = 20_000
"""Values in one answer."""


class RecordTags(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/records?run=``: the tags of a run whose values are not scalars."""

    run: str
    tags: list[RecordTag]


class BlobFacts(msgspec.Struct, frozen=True):
    """Encoded bytes, available from ``GET api/v1/blob``."""

    mime: str
    bytes: int
    label: str
    """Markdown; of sounds."""


class TableCells(msgspec.Struct, frozen=True):
    """A table; every row has one cell per column."""

    columns: list[str]
    rows: list[list[str | float | bool | None]]


class RecordValue(msgspec.Struct, frozen=True):
    """One value; what does not belong to its kind is null."""

    at: int
    """Its place in the series, for ``GET api/v1/blob``."""
    step: int
    wall: float
    error: str | None = None
    """Why it cannot be read."""
    rows: list[list[float]] | None = None
    """A histogram: left edge, right edge and count of each bucket. A curve: its six rows."""
    texts: list[str] | None = None
    """A text, or the cells of an array of them, row by row."""
    shape: list[int] | None = None
    """Shape of an array of texts, a mesh [batch, points, 3] or a tensor; of pictures, width and height."""
    table: TableCells | None = None
    blobs: list[BlobFacts] | None = None
    """Pictures, sounds, films; of a mesh or tensor one, its numbers as little-endian float32."""
    facts: dict[str, Any] | None = None
    """Hyper-parameters, a layout, an embedding, or Stepscope's own records."""


class RecordSeries(msgspec.Struct, frozen=True):
    """The values of a tag by one writer in one attempt, thinned evenly if they are many."""

    writer: str
    attempt: int
    total: int
    values: list[RecordValue]
    superseded_from: int | None = None
    """A later attempt of the same writer recorded the steps from here on again; null: it did not."""
    superseded: int = 0
    """How many of ``total`` are at such steps."""


class RecordAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/record?run=&tag=``."""

    run: str
    tag: str
    kind: RecordKind
    series: list[RecordSeries]


class GraphAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/graph?run=&tag=``."""

    run: str
    nodes: list[Node]
    tags: list[str]
    """Tags of the existing costs."""
    costs: list[NodeCost]
    """Costs of the requested tag, by default the newest."""


NUMBERS = "application/x-float32"
Count = Annotated[int, Meta(ge=0)]


@get("records")
def listing(run: StoredRun) -> RecordTags:
    """Return the tags of a run that are not scalars."""
    return RecordTags(run.name, run.records())


@get("record")
def record(
    run: StoredRun,
    tag: Tag,
    limit: Annotated[int, Meta(ge=1, le=MAX_RECORDS, description="largest number of values")] = 100,
) -> RecordAnswer:
    """Return the values of a tag, without their bytes."""
    attempts = attempts_of(run, tag)
    series = [
        RecordSeries(
            one.writer,
            one.attempt,
            len(one),
            [value_of(*one.place(at), at) for at in thinned(len(one), limit)],
            one.superseded_from,
            len(one) - int(one.counts.sum()),
        )
        for one in attempts
    ]
    return RecordAnswer(run.name, tag, attempts[0].files[0].kind, series)


@get("blob", media=(*sorted(SHOWN_MIMES), FRAME, NUMBERS, "application/x-protobuf"))
def blob(
    run: StoredRun,
    tag: Tag,
    writer: Annotated[str | None, Meta(description="default: any")] = None,
    attempt: Annotated[int, Meta(ge=0, le=1 << 31, description="default: any")] = 0,
    at: Annotated[Count | None, Meta(description="number of the value; default: the newest")] = None,
    index: Annotated[int, Meta(ge=0, description="which of the value's blobs")] = 0,
) -> File:
    """Return the bytes of one value.

    Raises:
        Refusal: No such value.
    """
    attempts = [
        one for one in attempts_of(run, tag) if writer in (None, one.writer) and attempt in (0, one.attempt)
    ]
    if not attempts:
        raise Refusal(404, f"no writer {writer!r} in attempt {attempt}", "see api/v1/record of this tag")
    at = len(attempts[-1]) - 1 if at is None else at
    if at >= len(attempts[-1]):
        raise Refusal(400, f"no value {at}: there are {len(attempts[-1])}", "see api/v1/record of this tag")
    with refusing({EventFileError: 404}):
        series, place = attempts[-1].place(at)
        value = series[place]
    blobs = blobs_of(value)
    if not blobs:
        raise Refusal(404, f"{tag!r} is of kind {series.kind}, which has no bytes", "see api/v1/record")
    if index >= len(blobs):
        raise Refusal(400, f"no blob {index}: the value has {len(blobs)}", "see api/v1/record of this tag")
    return File(blobs[index].data, blobs[index].mime)


@get("graph")
def graph_answer(
    run: StoredRun, tag: Annotated[str, Meta(description="tag of the costs; default: the newest")] = ""
) -> GraphAnswer:
    """Return the graph of a run and the costs of its nodes.

    Raises:
        Refusal: The run has none.
    """
    costs = [record.tag for record in sorted(run.records(), key=age) if record.kind == "run_metadata"]
    if not run.tags("graph"):
        raise Refusal(404, f"run {run.name!r} has no graph", "record one with run.graph(…)")
    tag = tag or (costs[-1] if costs else "")
    if tag and tag not in costs:
        raise Refusal(404, f"run {run.name!r} has no costs {tag!r}", f"it has {', '.join(costs) or 'none'}")
    with refusing({EventFileError: 404}):
        nodes = graph.nodes_of_run(run)
        taken = graph.costs_of(run.record(tag)[-1][-1]) if tag else []
    return GraphAnswer(run.name, graph.with_flops(nodes, taken), costs, taken)


def age(tag: RecordTag) -> tuple[int, float, str]:
    """Return the sort key of tags, the newest last."""
    return tag.last_step, tag.last_wall, tag.tag


# --- values -------------------------------------------------------------------------------------------


def value_of(series: StoredSeries, place: int, at: int) -> RecordValue:
    """Return a value as it travels; one that cannot be read says why.

    Args:
        series: The file that holds it.
        place: Its place there.
        at: Its place in the attempt.
    """
    step, wall = int(series.step[place]), float(series.wall[place])
    try:
        value = series[place]
        fields = SHAPES.get(series.kind, as_facts)(value)
    except EventFileError as error:
        return RecordValue(at, step, wall, error.message)
    return RecordValue(at, step, wall, **fields)


def as_rows(value: NDArray[Any]) -> dict[str, Any]:
    """Return a histogram or a curve."""
    return {"rows": value.astype(float).tolist()}


def as_pictures(value: Images) -> dict[str, Any]:
    """Return pictures or films."""
    return {"blobs": facts_of(value), "shape": [value.width, value.height]}


def as_array(value: Any) -> dict[str, Any]:
    """Return an array, whose numbers are a blob; one of texts is answered as these."""
    if not isinstance(value, np.ndarray):
        return {}
    if value.dtype == object:
        texts = [text.decode("utf-8", "backslashreplace") for text in value.reshape(-1).tolist()]
        return {"texts": texts, "shape": list(value.shape)}
    return {"blobs": facts_of(value), "shape": list(value.shape)}


def as_facts(value: Any) -> dict[str, Any]:
    """Return the facts by name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = plain(dataclasses.asdict(value))
    return {"facts": value if isinstance(value, dict) else None}


def as_blobs(value: Any) -> dict[str, Any]:
    """Return sounds, or serialized messages."""
    return {"blobs": facts_of(value)}


SHAPES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "histogram": as_rows,
    "pr_curve": as_rows,
    "text": lambda value: {"texts": value.reshape(-1).tolist(), "shape": list(value.shape)},
    "table": lambda value: {"table": TableCells(list(value.columns), list(map(list, value.rows)))},
    "image": as_pictures,
    "video": as_pictures,
    "audio": as_blobs,
    "mesh": as_array,
    "tensor": as_array,
    "other": as_array,
    "graph": as_blobs,
    "run_metadata": as_blobs,
    "keras_model": as_blobs,
}


def plain(value: Any) -> Any:
    """Return a message as JSON types, without unset fields."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items() if part not in (None, b"", "unknown")}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def facts_of(value: Any) -> list[BlobFacts]:
    """Return the facts about the bytes of a value."""
    labels = [clip.label for clip in value] if isinstance(value, tuple) else []
    blobs = blobs_of(value)
    return [
        BlobFacts(blob.mime, len(blob.data), labels[number] if labels else "")
        for number, blob in enumerate(blobs)
    ]


def blobs_of(value: Any) -> list[EncodedImage]:
    """Return the bytes of a value; of numbers as float32."""
    if isinstance(value, Images):
        return [shown(blob) for blob in value.blobs]
    if isinstance(value, tuple):
        return [shown(clip.blob) for clip in value]
    if isinstance(value, bytes):
        return [EncodedImage("application/x-protobuf", value)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # beyond float32 is infinite
            return [EncodedImage(NUMBERS, np.ascontiguousarray(value, "<f4").tobytes())]
    return []
