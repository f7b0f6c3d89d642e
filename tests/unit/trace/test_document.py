"""A Chrome trace document becomes columns, wherever its blocks end."""

import json

import numpy as np
import pytest

from stepscope.errors import TraceError
from stepscope.trace import document as module
from stepscope.trace.document import MISSING, read_document

EVENTS = [
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": "7",
        "ts": 1.5,
        "dur": 2,
        "args": {"External id": 3, "Input Dims": [[1, 2], []]},
    },
    {
        "ph": "i",
        "name": "[memory]",
        "pid": 1,
        "tid": 7,
        "ts": 2,
        "args": {"Bytes": -64, "Addr": 18446744073709551615},
    },
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": 'a "quoted" [1]'}},
    {"ph": "s", "id": "0x1f", "cat": "ac2g", "ts": 3},
    {"ph": "X", "name": "no time"},
]
DOCUMENT = {"schemaVersion": 1, "before": {"a": [1, {"b": "]}"}]}, "traceEvents": EVENTS, "after": "x"}


def read(text, block=None):
    data = text if isinstance(text, bytes) else text.encode()
    size = block or max(1, len(data))
    return read_document(data[at : at + size] for at in range(0, len(data), size))


def check(document):
    texts = document.strings
    assert bytes(document.phase) == b"XiMX"
    assert [texts[n] for n in document.name.tolist()] == ["aten::mm", "[memory]", "process_name", "no time"]
    assert [texts[n] for n in document.thread.tolist()] == ["7", "7", "", ""]
    assert document.start_ns.tolist() == [1500, 2000, MISSING, MISSING]
    assert document.duration_ns.tolist() == [2000, MISSING, MISSING, MISSING]
    assert document.column("External id").tolist() == [3, -1, -1, -1]
    assert document.column("Bytes", 0).tolist() == [0, -64, 0, 0]
    assert document.column("Addr").view(np.uint64)[1] == 2**64 - 1
    assert json.loads(texts[int(document.column("Input Dims")[0])]) == [[1, 2], []]
    assert json.loads(texts[int(document.column("args")[2])]) == EVENTS[2]["args"]
    assert document.metadata == {"schemaVersion": 1, "before": DOCUMENT["before"], "after": "x"}
    assert document.dropped == {"launch_arrows": 1}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("block", [None, 1, 7, 100])
def test_columns(indent, block):
    check(read(json.dumps(DOCUMENT, indent=indent), block))


def test_a_mark_of_byte_order_and_white_space():
    check(read(b"\xef\xbb\xbf \n" + json.dumps(DOCUMENT).encode()))


def test_an_array_of_events_and_one_without_its_bracket():
    text = json.dumps(EVENTS)
    for data in (text, text[:-1], text[:-1] + ",\n"):
        assert len(read(data)) == 4
        assert read(data).notes == []


def test_more_events_than_a_chunk_and_more_texts_than_the_table(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_CHUNK", 8)
    monkeypatch.setattr(module, "SPARSE_PER_CHUNK", 9)
    monkeypatch.setattr(module._InternedTexts.__init__, "__defaults__", (4, 16))
    events = [
        {"ph": "X", "name": f"event {i}", "ts": i, "args": {"correlation": i, "bytes": 2 * i}}
        for i in range(50)
    ]
    document = read(json.dumps({"traceEvents": events}), 64)
    assert [document.strings[n] for n in document.name.tolist()] == [e["name"] for e in events]
    assert document.column("correlation").tolist() == list(range(50))
    assert document.column("bytes").tolist() == list(range(0, 100, 2))


@pytest.mark.parametrize("cut", range(10, len(json.dumps(DOCUMENT)), 7))
def test_a_cut_document_gives_what_was_whole(cut):
    text = json.dumps(DOCUMENT)
    first = text.index("traceEvents") + len('traceEvents": [')
    if cut < first:
        with pytest.raises(TraceError):
            read(text[:cut])
        return
    document = read(text[:cut])
    assert document.dropped["cut_short"] == 1
    assert "ends too early" in document.notes[0]
    assert bytes(document.phase) == b"XiMX"[: len(document)]


def test_malformed_events_are_skipped_and_counted():
    good = json.dumps(EVENTS[0])
    text = '{"traceEvents": [' + good + ', {"ph": "X", "name": "a "quoted" name", "ts": 1}, ' + good + "]}"
    document = read(text, 50)
    assert len(document) == 2
    assert document.dropped["malformed_events"] >= 1


def test_bytes_that_are_no_text():
    document = read(b'{"traceEvents": [{"ph": "X", "name": "a\xff\xfeb", "ts": 1}], "host": "\xff"}')
    assert document.strings[int(document.name[0])] == "a\ufffd\ufffdb"
    assert document.metadata["host"] == "\ufffd"


def test_huge_metadata_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_METADATA", 100)
    document = read(json.dumps({"env": "x" * 200, "traceEvents": []}), 16)
    assert document.metadata == {}
    assert document.dropped["metadata_bytes"] == 202
    assert "env" in document.notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got nothing"),
        ("hello", "expected a JSON object or array, got 'hello'"),
        (
            '{"segments": [], "device_traces": []}',
            r"expected an array at \$.traceEvents, got segments, device_traces",
        ),
        ('{"traceEvents": {"a": 1}}', "got traceEvents"),
        ("{", "got nothing"),
    ],
)
def test_what_is_no_trace(text, message):
    with pytest.raises(TraceError, match=message):
        read(text)
