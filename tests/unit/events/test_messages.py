"""Every message against the one of TensorBoard's own protocol buffers, in both directions."""

import pytest
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2

from stepscope.events import (
    Audio,
    Dimension,
    Event,
    Histogram,
    Image,
    LogMessage,
    Metadata,
    PluginData,
    SessionLog,
    Shape,
    SourceMetadata,
    Summary,
    TaggedRunMetadata,
    Tensor,
    Value,
    decode_event,
    encode_event,
)

TENSOR = Tensor(
    dtype=19,
    tensor_shape=Shape([Dimension(2, "rows"), Dimension(-1)], unknown_rank=True),
    version_number=1,
    tensor_content=b"content",
    float_val=[1.5, -2.5],
    double_val=[0.1],
    int_val=[-1, 1 << 30],
    string_val=[b"a", b""],
    scomplex_val=[1.0, 2.0],
    int64_val=[-(1 << 63), (1 << 63) - 1],
    bool_val=[True, False],
    dcomplex_val=[0.1, 0.2],
    half_val=[15360],
    uint32_val=[(1 << 32) - 1],
    uint64_val=[(1 << 64) - 1],
    float8_val=b"\1\2",
)
VALUES = [
    Value("t", node_name="node", simple_value=0.5),
    Value("t", obsolete_old_style_histogram=b"old"),
    Value("t", image=Image(1, 2, 3, b"png")),
    Value("t", histo=Histogram(1.0, 2.0, 3.0, 4.0, 5.0, [0.5, 1e308], [1.0, 2.0])),
    Value("t", audio=Audio(44100.0, 2, 1 << 40, b"wav", "audio/wav")),
    Value("t", tensor=TENSOR),
    Value("t", metadata=Metadata(PluginData("scalars", b"\1"), "shown", "**text**", 1)),
]
EVENTS = [
    Event(1.5, -3, file_version="brain.Event:2", source_metadata=SourceMetadata("writer")),
    Event(1.5, 1 << 62, graph_def=b"graph"),
    Event(log_message=LogMessage(20, "hello")),
    Event(session_log=SessionLog(3, "path", "message")),
    Event(tagged_run_metadata=TaggedRunMetadata("step1", b"metadata")),
    Event(meta_graph_def=b"meta"),
    Event(summary=Summary(VALUES)),
    *(Event(2.0, 7, summary=Summary([value])) for value in VALUES),
]


@pytest.mark.parametrize("event", EVENTS)
def test_tensorboard_reads_and_writes_the_same(event):
    theirs = event_pb2.Event.FromString(encode_event(event))
    assert decode_event(theirs.SerializeToString(deterministic=True)) == event
    assert encode_event(event) == theirs.SerializeToString(deterministic=True)


def test_no_field_of_theirs_is_unknown_to_us():
    for theirs, ours in [
        (event_pb2.Event, Event),
        (event_pb2.SessionLog, SessionLog),
        (event_pb2.TaggedRunMetadata, TaggedRunMetadata),
        (event_pb2.LogMessage, LogMessage),
        (summary_pb2.Summary, Summary),
        (summary_pb2.Summary.Value, Value),
        (summary_pb2.Summary.Image, Image),
        (summary_pb2.Summary.Audio, Audio),
        (summary_pb2.HistogramProto, Histogram),
        (summary_pb2.SummaryMetadata, Metadata),
        (summary_pb2.SummaryMetadata.PluginData, PluginData),
        (tensor_pb2.TensorProto, Tensor),
    ]:
        assert {f.number: f.name for f in theirs.DESCRIPTOR.fields}.items() <= {
            number: row.name for number, row in ours.table.items()
        }.items()


def test_values_of_an_event_without_summary():
    assert Event().values == []


def test_plugin_name_of_metadata_without_plugin():
    assert Metadata().plugin_name == ""
    assert Metadata.of("text").plugin_name == "text"
