"""The messages of TensorBoard's event files.

Field numbers are those of TensorFlow: event.proto, summary.proto, tensor.proto, tensor_shape.proto. Graphs
and run metadata stay bytes: who shows a graph decodes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from stepscope.events.wire import Message, decode, encode, message, wire

STRING = 7
"""The number of texts as a type of tensors."""


class SessionStatus(IntEnum):
    """The status in a SessionLog."""

    UNSPECIFIED, START, STOP, CHECKPOINT = range(4)


class DataClass(IntEnum):
    """How the values of a tag are stored, in its metadata."""

    UNKNOWN, SCALAR, TENSOR, BLOB_SEQUENCE = range(4)


@message
class SessionLog(Message):
    """A session began, ended or saved a checkpoint."""

    status: int = wire(1, "int32")
    checkpoint_path: str = wire(2, "string")
    msg: str = wire(3, "string")


@message
class TaggedRunMetadata(Message):
    """A serialized RunMetadata under a tag."""

    tag: str = wire(1, "string")
    run_metadata: bytes = wire(2, "bytes")


@message
class LogMessage(Message):
    """A log line; long deprecated."""

    level: int = wire(1, "int32")
    message: str = wire(2, "string")


@message
class SourceMetadata(Message):
    """The writer of the file."""

    writer: str = wire(1, "string")


@message
class Image(Message):
    """An encoded image. colorspace: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA, 5 YUV, 6 BGRA."""

    height: int = wire(1, "int32")
    width: int = wire(2, "int32")
    colorspace: int = wire(3, "int32")
    encoded_image_string: bytes = wire(4, "bytes")


@message
class Audio(Message):
    """An encoded sound. sample_rate in Hz."""

    sample_rate: float = wire(1, "float")
    num_channels: int = wire(2, "int64")
    length_frames: int = wire(3, "int64")
    encoded_audio_string: bytes = wire(4, "bytes")
    content_type: str = wire(5, "string")


@message
class Histogram(Message):
    """An old-style histogram: bucket i counts the values in (bucket_limit[i - 1], bucket_limit[i]]."""

    min: float = wire(1, "double")
    max: float = wire(2, "double")
    num: float = wire(3, "double")
    sum: float = wire(4, "double")
    sum_squares: float = wire(5, "double")
    bucket_limit: list[float] = wire(6, "double", repeated=True)
    bucket: list[float] = wire(7, "double", repeated=True)


@message
class Dimension(Message):
    """One dimension of a shape; size -1 is unknown."""

    size: int = wire(1, "int64")
    name: str = wire(2, "string")


@message
class Shape(Message):
    """The shape of a tensor; no dimension is a scalar."""

    dim: list[Dimension] = wire(2, Dimension, repeated=True)
    unknown_rank: bool = wire(3, "bool")

    @classmethod
    def of(cls, *sizes: int) -> Shape:
        """Return the shape of these sizes."""
        return cls([Dimension(size) for size in sizes])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size of each dimension."""
        return tuple(dimension.size for dimension in self.dim)


@message
class Tensor(Message):
    """A tensor: its values lie in tensor_content (little-endian, row-major) or in the list of their type.

    ``tensors.array`` and ``tensors.tensor`` convert from and to numpy.
    """

    dtype: int = wire(1, "int32")
    tensor_shape: Shape | None = wire(2, Shape)
    version_number: int = wire(3, "int32")
    tensor_content: bytes = wire(4, "bytes")
    float_val: list[float] = wire(5, "float", repeated=True)
    double_val: list[float] = wire(6, "double", repeated=True)
    int_val: list[int] = wire(7, "int32", repeated=True)
    string_val: list[bytes] = wire(8, "bytes", repeated=True)
    scomplex_val: list[float] = wire(9, "float", repeated=True)
    int64_val: list[int] = wire(10, "int64", repeated=True)
    bool_val: list[bool] = wire(11, "bool", repeated=True)
    dcomplex_val: list[float] = wire(12, "double", repeated=True)
    half_val: list[int] = wire(13, "int32", repeated=True)
    resource_handle_val: list[bytes] = wire(14, "bytes", repeated=True)
    variant_val: list[bytes] = wire(15, "bytes", repeated=True)
    uint32_val: list[int] = wire(16, "uint32", repeated=True)
    uint64_val: list[int] = wire(17, "uint64", repeated=True)
    float8_val: bytes = wire(18, "bytes")

    @classmethod
    def of_texts(cls, *texts: bytes, sizes: Sequence[int] = ()) -> Tensor:
        """Return texts as a tensor of these sizes; a single one by default."""
        return cls(STRING, Shape.of(*sizes), string_val=list(texts))


@message
class PluginData(Message):
    """The plugin that shows a tag, and its data."""

    plugin_name: str = wire(1, "string")
    content: bytes = wire(2, "bytes")


@message
class Metadata(Message):
    """Facts of a tag (SummaryMetadata). Writers send it with the first value of a tag in a file."""

    plugin_data: PluginData | None = wire(1, PluginData)
    display_name: str = wire(2, "string")
    summary_description: str = wire(3, "string")
    data_class: int = wire(4, "int32")

    @classmethod
    def of(cls, plugin_name: str, content: bytes = b"", **fields: Any) -> Metadata:
        """Return the metadata of a plugin's tag."""
        return cls(PluginData(plugin_name, content), **fields)

    @property
    def plugin_name(self) -> str:
        """Name of the plugin that shows the tag, empty if there is none."""
        return self.plugin_data.plugin_name if self.plugin_data else ""


@message
class Value(Message):
    """One value of a summary: a tag and at most one of simple_value … tensor."""

    tag: str = wire(1, "string")
    simple_value: float | None = wire(2, "float", oneof="value")
    obsolete_old_style_histogram: bytes | None = wire(3, "bytes", oneof="value")
    image: Image | None = wire(4, Image, oneof="value")
    histo: Histogram | None = wire(5, Histogram, oneof="value")
    audio: Audio | None = wire(6, Audio, oneof="value")
    node_name: str = wire(7, "string")
    tensor: Tensor | None = wire(8, Tensor, oneof="value")
    metadata: Metadata | None = wire(9, Metadata)

    @classmethod
    def of(
        cls,
        tag: str,
        plugin_name: str,
        tensor: Tensor,
        content: bytes = b"",
        *,
        data_class: DataClass = DataClass.TENSOR,
        description: str = "",
    ) -> Value:
        """Return a tensor as the value of a plugin's tag, with the metadata that goes with the first one."""
        fields = {"data_class": data_class, "summary_description": description}
        return cls(tag, tensor=tensor, metadata=Metadata.of(plugin_name, content, **fields))


@message
class Summary(Message):
    """The values of one event."""

    value: list[Value] = wire(1, Value, repeated=True)


@message
class Event(Message):
    """One record: wall time in seconds, step, and at most one of file_version … meta_graph_def."""

    wall_time: float = wire(1, "double")
    step: int = wire(2, "int64")
    file_version: str | None = wire(3, "string", oneof="what")
    graph_def: bytes | None = wire(4, "bytes", oneof="what")
    summary: Summary | None = wire(5, Summary, oneof="what")
    log_message: LogMessage | None = wire(6, LogMessage, oneof="what")
    session_log: SessionLog | None = wire(7, SessionLog, oneof="what")
    tagged_run_metadata: TaggedRunMetadata | None = wire(8, TaggedRunMetadata, oneof="what")
    meta_graph_def: bytes | None = wire(9, "bytes", oneof="what")
    source_metadata: SourceMetadata | None = wire(10, SourceMetadata)

    @property
    def values(self) -> list[Value]:
        """The values of its summary."""
        return self.summary.value if self.summary else []


def encode_event(event: Event) -> bytes:
    """Return an event as the payload of a record."""
    return encode(event)


def decode_event(payload: bytes) -> Event:
    """Return the event in the payload of a record.

    Raises:
        EventFileError: The bytes are not a protocol-buffer message.
    """
    return decode(Event, payload)
