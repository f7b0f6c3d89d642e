"""The encoder, compiled and as plain Python, against the codec of single events."""

from array import array

import numpy as np
import pytest

from stepscope.events import Event, Summary, Value, encode_event, frame
from stepscope.events.kinds import histogram
from stepscope.kernels import encode as compiled
from stepscope.record.edges import BUCKETS, EDGES, rows

FIELDS = [b"\x0a\x01a\x15", b"\x0a\x04loss\x15", b"\x0a\xc8\x01" + b"x" * 200 + b"\x15"]
NAMES = ["a", "loss", "x" * 200]


@pytest.fixture
def encode(kernel):
    def encode(points, *, room=100_000):
        columns = [
            array(code, column) for code, column in zip("idqd", zip(*points, strict=True), strict=True)
        ]
        ends = array("i", [len(b"".join(FIELDS[: i + 1])) for i in range(len(FIELDS))])
        out = bytearray(room)
        done, size, changes = kernel.scalars(*columns, bytearray(b"".join(FIELDS)), ends, out)
        assert not any(out[size:]), "nothing is left behind the records"
        return bytes(out[:size]), done, changes

    return encode


def record(wall, step, *values):
    summary = Summary([Value(NAMES[tag], simple_value=value) for tag, value in values])
    return frame(encode_event(Event(wall, step, summary=summary)))


def test_the_checksum_is_one_of_those_that_there_are():
    assert compiled.IMPLEMENTATION in ("sse4.2", "armv8", "table")


@pytest.mark.parametrize("step", [0, 1, 127, 128, 16_383, 16_384, 2**40, 2**63 - 1, -1, -(2**63)])
def test_a_point_is_the_record_that_the_codec_makes(encode, step):
    assert encode([(0, 0.5, step, 1.5e9)]) == (record(1.5e9, step, (0, 0.5)), 1, 0)


def test_one_call_is_one_record(encode):
    points = [(0, 1.0, 5, 2.0), (1, 2.0, 5, 2.0), (2, 3.0, 5, 2.0), (0, 4.0, 6, 2.0), (0, 5.0, 6, 3.0)]
    expected = (
        record(2.0, 5, (0, 1.0), (1, 2.0), (2, 3.0)) + record(2.0, 6, (0, 4.0)) + record(3.0, 6, (0, 5.0))
    )
    assert encode(points) == (expected, 5, 1)


def test_it_stops_where_the_room_ends_between_two_records(encode):
    points = [(1, float(i), i, i + 1.0) for i in range(10)]
    whole = [record(i + 1.0, i, (1, float(i))) for i in range(10)]
    for room in range(len(b"".join(whole)) + 1):
        data, done, _ = encode(points, room=room)
        assert data == b"".join(whole[:done])
        assert done == 10 or len(data) + len(whole[done]) > room


@pytest.mark.parametrize("value", [3.5e38, -3.5e38, 1e300, 3.4028236e38])
def test_it_stops_at_a_number_that_no_float32_holds(encode, value):
    points = [(0, 1.0, 0, 1.0), (1, value, 0, 1.0), (2, 1.0, 0, 1.0)]
    assert encode(points) == (record(1.0, 0, (0, 1.0)), 1, 0)
    assert encode(points[1:]) == (b"", 0, 0)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 3.4028234e38, 1.2e-38, -0.0])
def test_numbers_at_the_edge(encode, value):
    assert encode([(0, value, 1, 1.0)]) == (record(1.0, 1, (0, value)), 1, 0)


def test_steps_are_counted_where_they_change(encode):
    assert encode([(0, 1.0, step, i + 1.0) for i, step in enumerate([3, 3, 4, 4, 5, 3])])[2] == 3


COUNTS = {
    "one": {512: 3},
    "nothing": {},
    "neighbours": {10: 1, 11: 2},
    "stretches": {0: 1, 5: 2**40, 6: 1, 9: 7},
    "both ends": {0: 1, BUCKETS - 1: 2},
    "not finite": {BUCKETS: 9},
    "a long name " * 20: dict.fromkeys(range(100, 900, 3), 5),
    "all": dict.fromkeys(range(BUCKETS), 1),
}


def test_histograms_are_the_values_that_the_codec_makes(kernel, monkeypatch):
    monkeypatch.setattr(histogram, "kernel", kernel)
    tags, counts = list(COUNTS), np.zeros((len(COUNTS), BUCKETS + 1), np.int64)
    for row, filled in zip(counts, COUNTS.values(), strict=True):
        row[list(filled)] = list(filled.values())
    expected = [
        histogram.value(tag, rows(row[:BUCKETS]))
        for tag, row in zip(tags, counts, strict=True)
        if row[:BUCKETS].any()
    ]
    assert len(expected) == len(COUNTS) - 2
    assert bytes(histogram.summary(tags, counts, EDGES)) == bytes(Summary(expected))
    assert bytes(histogram.summary([], counts[:0], EDGES)) == b""
