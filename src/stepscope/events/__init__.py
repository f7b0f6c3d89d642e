"""TensorBoard event files: framing, messages, a writer, and a columnar reader that follows a growing file."""

from __future__ import annotations

from stepscope.events.columns import Batch, RecordColumns, ScalarColumns, Session
from stepscope.events.file import EventFile
from stepscope.events.framing import frame, masked_crc32c, unframe
from stepscope.events.messages import (
    Audio,
    DataClass,
    Dimension,
    Event,
    Histogram,
    Image,
    LogMessage,
    Metadata,
    PluginData,
    SessionLog,
    SessionStatus,
    Shape,
    SourceMetadata,
    Summary,
    TaggedRunMetadata,
    Tensor,
    Value,
    decode_event,
    encode_event,
)
from stepscope.events.status import FileStatus
from stepscope.events.writer import EventWriter

__all__ = [
    "Audio",
    "Batch",
    "DataClass",
    "Dimension",
    "Event",
    "EventFile",
    "EventWriter",
    "FileStatus",
    "Histogram",
    "Image",
    "LogMessage",
    "Metadata",
    "PluginData",
    "RecordColumns",
    "ScalarColumns",
    "Session",
    "SessionLog",
    "SessionStatus",
    "Shape",
    "SourceMetadata",
    "Summary",
    "TaggedRunMetadata",
    "Tensor",
    "Value",
    "decode_event",
    "encode_event",
    "frame",
    "masked_crc32c",
    "unframe",
]
