import math
import struct
from array import array

import pytest
from support.records import decoded

from stepscope.record.event_log import Encoder, PointColumns


def columns(points, names):
    tags, values, steps, walls = zip(*points, strict=True)
    ids = array("i", map(names.index, tags))
    return PointColumns(len(points), ids, array("d", values), array("q", steps), array("d", walls))


def test_points_of_one_call_share_an_event():
    names = ["a", "long/name"]
    points = [("a", 1.0, 0, 5.0), ("long/name", 2.0, 0, 5.0), ("a", 3.0, 1, 5.0), ("a", 4.0, 1, 6.0)]
    data, done, changes = Encoder(names).encode(columns(points, names), 0, 4)
    assert (done, changes) == (4, 1)
    assert [
        (event.wall_time, event.step, [(value.tag, value.simple_value) for value in event.values])
        for event in decoded(data)
    ] == [
        (5.0, 0, [("a", 1.0), ("long/name", 2.0)]),
        (5.0, 1, [("a", 3.0)]),
        (6.0, 1, [("a", 4.0)]),
    ]


@pytest.mark.parametrize("step", [0, 1, 127, 128, 2**31, 2**63 - 1, -1, -(2**63)])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, math.inf, -math.inf, 3.4028234e38, 1.2e-38])
def test_every_step_and_value(step, value):
    data, _, _ = Encoder(["t"]).encode(columns([("t", value, step, 1.5e9)], ["t"]), 0, 1)
    [event] = decoded(data)
    assert event.step == step
    assert struct.pack("<f", event.values[0].simple_value) == struct.pack("<f", value)


def test_nan_stays_nan():
    data, _, _ = Encoder(["t"]).encode(columns([("t", math.nan, 0, 1.0)], ["t"]), 0, 1)
    assert math.isnan(next(decoded(data)).values[0].simple_value)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("number", [1e300, -1e39, 1e-40, -1e-46, 5e-324])
def test_it_stops_at_a_number_that_no_float32_holds(at, number):
    points = [("t", 1.0, 0, 1.0), ("t", 2.0, 0, 1.0), ("t", 3.0, 0, 1.0)]
    points[at] = ("t", number, 0, 1.0)
    data, done, _ = Encoder(["t"]).encode(columns(points, ["t"]), 0, 3)
    assert done == at
    assert [value.simple_value for event in decoded(data) for value in event.values] == [1.0, 2.0, 3.0][:at]


def test_tags_may_come_later_and_be_of_any_length():
    names = ["a"]
    encoder = Encoder(names)
    encoder.encode(columns([("a", 1.0, 0, 1.0)], names), 0, 1)
    names += ["é" * 500, "b"]
    data, _, _ = encoder.encode(columns([("é" * 500, 1.0, 0, 1.0), ("b", 2.0, 1, 1.0)], names), 0, 2)
    assert [event.values[0].tag for event in decoded(data)] == ["é" * 500, "b"]


def test_rows_between_two_places():
    names = ["a"]
    points = [("a", float(i), i, float(i)) for i in range(10)]
    data, done, changes = Encoder(names).encode(columns(points, names), 3, 6)
    assert (done, changes) == (3, 2)
    assert [event.step for event in decoded(data)] == [3, 4, 5]


def test_the_rows_after_one():
    rest = columns([("a", float(i), i, 0.5) for i in range(5)], ["a"]).after(3)
    assert rest.size == 2
    assert list(rest.steps) == [3, 4]
