import struct

import numpy as np
import pytest

from stepscope.events import Event, Metadata, SessionLog, Shape, Summary, Tensor, Value, encode_event
from stepscope.events.wire import length_prefixed, varint


class Decoded:
    """Payloads decoded one after the other, with what came out as plain lists."""

    def __init__(self, kernel, payloads, *, rows=64, notes=64):
        self.tags, self.rows = kernel.Tags(), kernel.Rows(rows, notes)
        data = b"".join(payloads)
        lengths = np.array([len(payload) for payload in payloads], np.int64)
        starts = np.cumsum(lengths) - lengths
        self.points, self.notes, done = [], [], 0
        while done < len(payloads):
            before = done
            done = kernel.decode(data, starts, lengths, done, len(payloads), 1000, self.tags, self.rows)
            self.take(kernel)
            if self.rows.needed:
                self.tags.grow(self.rows.needed)
            elif before == done:
                self.rows = kernel.Rows(2 * len(self.rows.tag), 2 * len(self.rows.note_wall))
            else:
                self.rows.clear()

    def take(self, kernel):
        rows, n = self.rows, self.rows.count
        columns = (rows.tag, rows.wall, rows.step, rows.value, rows.position)
        tag, *others = (np.asarray(column)[:n].tolist() for column in columns)
        self.points += zip(map(self.name, tag), *others, strict=True)
        notes = np.asarray(rows.notes).reshape(-1, kernel.NOTE)[: rows.noted].tolist()
        self.notes += [(kind, self.name(tag), *rest) for kind, tag, *rest in notes]
        self.wide = [bool(flag & kernel.IS_WIDE) for flag in np.asarray(self.tags.flags)[: self.tags.count]]
        rows.count = rows.noted = 0

    def name(self, tag):
        if tag < 0:
            return None
        start = self.tags.ends[tag - 1] if tag else 0
        return bytes(self.tags.names)[start : self.tags.ends[tag]].decode()

    @property
    def values(self):
        return [value for _, _, _, value, _ in self.points]


def event(*values, wall=1.5e9, step=3):
    return encode_event(Event(wall, step, summary=Summary(list(values))))


def test_an_old_style_scalar(kernel):
    found = Decoded(kernel, [event(Value("loss", simple_value=0.5))])
    assert found.points == [("loss", 1.5e9, 3, 0.5, 988)]
    assert not found.notes


@pytest.mark.parametrize(
    "step", [0, 1, 127, 128, 300, 1 << 20, 1 << 31, (1 << 56) - 1, 1 << 56, (1 << 63) - 1, -1, -(1 << 63)]
)
def test_every_step(kernel, step):
    found = Decoded(kernel, [event(Value("loss", simple_value=0.5), step=step)] * 3)
    assert [point[2] for point in found.points] == [step] * 3


def test_several_values_in_an_event(kernel):
    payload = event(Value("a", simple_value=1.0), Value("b", simple_value=2.0), Value("a", simple_value=3.0))
    found = Decoded(kernel, [payload] * 2)
    assert [(tag, value) for tag, _, _, value, _ in found.points] == [("a", 1), ("b", 2), ("a", 3)] * 2
    assert {position for *_, position in found.points} == {988, 988 + len(payload)}


SCALARS = Metadata.of("scalars")
NUMBERS = [
    (Tensor(1, Shape(), float_val=[0.5]), 0.5, False),
    (Tensor(1, None, tensor_content=struct.pack("<f", 0.5)), 0.5, False),
    (Tensor(2, Shape(), double_val=[0.1]), 0.1, True),
    (Tensor(2, Shape(), tensor_content=struct.pack("<d", 0.1)), 0.1, True),
    (Tensor(3, Shape(), int_val=[-7]), -7, True),
    (Tensor(3, Shape(), tensor_content=struct.pack("<i", -7)), -7, True),
    (Tensor(4, Shape(), int_val=[200]), 200, False),
    (Tensor(4, Shape(), tensor_content=b"\xc8"), 200, False),
    (Tensor(5, Shape(), int_val=[-300]), -300, False),
    (Tensor(5, Shape(), tensor_content=struct.pack("<h", -300)), -300, False),
    (Tensor(6, Shape(), int_val=[-5]), -5, False),
    (Tensor(6, Shape(), tensor_content=struct.pack("<b", -5)), -5, False),
    (Tensor(9, Shape(), int64_val=[-(1 << 40)]), -(1 << 40), True),
    (Tensor(9, Shape(), tensor_content=struct.pack("<q", -(1 << 40))), -(1 << 40), True),
    (Tensor(10, Shape(), bool_val=[True]), 1, False),
    (Tensor(10, Shape(), tensor_content=b"\x01"), 1, False),
    (Tensor(14, Shape(), half_val=[0x3F80]), 1.0, False),
    (Tensor(14, Shape(), tensor_content=struct.pack("<H", 0xC000)), -2.0, False),
    (Tensor(17, Shape(), int_val=[60000]), 60000, False),
    (Tensor(17, Shape(), tensor_content=struct.pack("<H", 60000)), 60000, False),
    (Tensor(19, Shape(), half_val=[0x3800]), 0.5, False),
    (
        Tensor(19, Shape(), tensor_content=struct.pack("<e", -0.3)),
        struct.unpack("<e", struct.pack("<e", -0.3))[0],
        False,
    ),
    (Tensor(19, Shape(), tensor_content=struct.pack("<H", 1)), 2.0**-24, False),
    (Tensor(19, Shape(), tensor_content=struct.pack("<H", 0xFC00)), float("-inf"), False),
    # torch writes the bits of a float32 where those of a half belong
    (Tensor(19, Shape(), half_val=[struct.unpack("<i", struct.pack("<f", 1.5))[0]]), 1.5, False),
    (Tensor(22, Shape(), uint32_val=[4_000_000_000]), 4_000_000_000, True),
    (Tensor(22, Shape(), tensor_content=struct.pack("<I", 4_000_000_000)), 4_000_000_000, True),
    (Tensor(23, Shape(), uint64_val=[1 << 63]), float(1 << 63), True),
    (Tensor(23, Shape(), tensor_content=struct.pack("<Q", 1 << 63)), float(1 << 63), True),
    (Tensor(1, Shape()), 0.0, False),  # as TensorFlow: no value at all is zero
]


@pytest.mark.parametrize(("tensor", "number", "wide"), NUMBERS)
def test_every_tensor_of_one_number(kernel, tensor, number, wide):
    found = Decoded(kernel, [event(Value("x", tensor=tensor))] * 3)
    assert found.values == [number] * 3
    assert found.wide == [wide]


def test_a_tensor_of_one_element_is_a_scalar_only_for_the_scalars_plugin(kernel):
    tensor = Tensor(1, Shape.of(1, 1), float_val=[0.5])
    payloads = [event(Value("yes", tensor=tensor, metadata=SCALARS)), event(Value("no", tensor=tensor))]
    found = Decoded(kernel, payloads * 2)
    assert [(tag, value) for tag, _, _, value, _ in found.points] == [("yes", 0.5)] * 2
    assert [note[:2] for note in found.notes] == [(kernel.METADATA, "yes"), (8, "no"), (8, "no")]


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(7, Shape(), string_val=[b"text"]),
        Tensor(8, Shape(), scomplex_val=[1.0, 2.0]),
        Tensor(1, Shape.of(2), float_val=[0.5]),
        Tensor(1, Shape.of(0)),
        Tensor(1, Shape.of(-1), float_val=[1.0]),
        Tensor(1, Shape(unknown_rank=True), float_val=[1.0]),
        Tensor(1, Shape(), tensor_content=b"\0\0\0"),
        Tensor(1, Shape(), double_val=[1.0]),
        Tensor(24, Shape(), float8_val=b"\1"),
        Tensor(),
    ],
)
def test_other_tensors_are_noted(kernel, tensor):
    found = Decoded(kernel, [event(Value("x", tensor=tensor, metadata=SCALARS), step=9)])
    assert not found.points
    assert [note[:3] for note in found.notes] == [(kernel.METADATA, "x", 9), (8, "x", 9)]


def test_metadata_is_noted_once_and_says_where_it_is(kernel):
    payload = event(Value("x", simple_value=1.0, metadata=Metadata.of("scalars", b"content")))
    found = Decoded(kernel, [payload] * 3)
    ((_, _, _, position, index, start, length),) = found.notes
    assert payload[start : start + length] == bytes(Metadata.of("scalars", b"content"))
    assert (position, index) == (988, 0)
    assert len(found.points) == 3


def test_what_is_no_summary_is_noted_whole(kernel):
    payloads = [
        encode_event(Event(1.0, file_version="brain.Event:2")),
        encode_event(Event(2.0, 5, session_log=SessionLog(1))),
        encode_event(Event(3.0, graph_def=b"graph")),
    ]
    found = Decoded(kernel, payloads)
    assert [note[0] - kernel.EVENT for note in found.notes] == [3, 7, 4]
    data = b"".join(payloads)
    assert [data[note[5] : note[5] + note[6]] for note in found.notes] == payloads


FIELD = varint(100 << 3 | 2) + length_prefixed(b"unknown")
GROUP = varint(101 << 3 | 3) + varint(1 << 3) + b"\x05" + varint(101 << 3 | 4)


@pytest.mark.parametrize(
    "extra",
    [
        FIELD,
        GROUP,
        varint(7 << 3 | 0 << 0 | (200 << 3)) + b"\x01",
        varint(99 << 3 | 5) + b"abcd",
        varint(98 << 3 | 1) + b"abcdefgh",
    ],
)
def test_unknown_fields_are_skipped(kernel, extra):
    value = extra + bytes(Value("x", simple_value=1.0)) + extra
    summary = extra + b"\x0a" + length_prefixed(value) + extra
    payload = (
        extra
        + b"\x09"
        + struct.pack("<d", 7.0)
        + extra
        + b"\x10\x05"
        + b"\x2a"
        + length_prefixed(summary)
        + extra
    )
    assert [point[:4] for point in Decoded(kernel, [payload] * 3).points] == [("x", 7.0, 5, 1.0)] * 3


def test_fields_in_any_order(kernel):
    value = b"\x15" + struct.pack("<f", 2.5) + b"\x0a\x01x"
    payloads = []
    for step in (1, 2, 3):
        summary = b"\x2a" + length_prefixed(b"\x0a" + length_prefixed(value))
        payloads.append(summary + bytes([0x10, step]) + b"\x09" + struct.pack("<d", 7.0))
    found = Decoded(kernel, payloads)
    assert [point[:4] for point in found.points] == [("x", 7.0, step, 2.5) for step in (1, 2, 3)]


def test_a_step_behind_the_summary_is_no_part_of_the_pattern(kernel):
    payloads = []
    for step in (1, 2, 3):
        summary = bytes(Summary([Value("x", simple_value=float(step))]))
        payloads.append(
            b"\x09" + struct.pack("<d", 7.0) + b"\x2a" + length_prefixed(summary) + bytes([0x10, step])
        )
    assert [point[2:4] for point in Decoded(kernel, payloads).points] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_several_summaries_are_one(kernel):
    one, two = bytes(Summary([Value("a", simple_value=1.0)])), bytes(Summary([Value("b", tensor=Tensor(7))]))
    payload = b"\x2a" + length_prefixed(one) + b"\x10\x04" + b"\x2a" + length_prefixed(two)
    found = Decoded(kernel, [payload])
    assert [point[:3] for point in found.points] == [("a", 0.0, 4)]
    assert [(note[1], note[2], note[4]) for note in found.notes] == [("b", 4, 1)]


@pytest.mark.parametrize(
    "payload",
    [
        b"\x09\x00",
        b"\x2a\x05\x0a\x01x",
        b"\x2a\x04\x0a\x05\x0a\x01",
        b"\x10" + b"\xff" * 11,
        b"\x00\x00",
        b"\x0c",
        b"\x0b\x08\x01",
        b"\x0b" * 300,
        b"\x2a\x08\x0a\x06\x42\x04\x08\x01\x12\x09",
    ],
)
def test_what_is_no_event_is_noted_and_the_rest_read(kernel, payload):
    good = event(Value("x", simple_value=1.0))
    found = Decoded(kernel, [good, payload, good])
    assert found.values == [1.0, 1.0]
    assert [note[0] for note in found.notes] == [kernel.UNDECODABLE]


def test_nothing_stays_of_an_event_that_turns_out_malformed(kernel):
    values = b"\x0a" + length_prefixed(bytes(Value("a", simple_value=1.0, metadata=SCALARS)))
    broken = b"\x2a" + length_prefixed(values + b"\x0a\x7f")
    good = event(Value("a", simple_value=2.0, metadata=Metadata.of("scalars", b"kept")))
    found = Decoded(kernel, [broken, good])
    assert found.values == [2.0]
    assert [note[0] for note in found.notes] == [kernel.UNDECODABLE, kernel.METADATA]


def test_many_tags_in_changing_order(kernel):
    random = np.random.default_rng(0)
    names = [f"tag/{'x' * int(random.integers(0, 40))}{i}" for i in range(300)]
    order = [names[i] for i in random.integers(0, 300, 2000)]
    found = Decoded(kernel, [event(Value(name, simple_value=1.0)) for name in order])
    assert [point[0] for point in found.points] == order


def test_more_values_than_there_is_room_for(kernel):
    payload = event(*(Value(f"v{i}", simple_value=float(i)) for i in range(50)))
    assert Decoded(kernel, [payload] * 3, rows=4, notes=1).values == [float(i) for i in range(50)] * 3


def test_a_tag_whose_values_change_kind(kernel):
    kinds = [
        Value("x", simple_value=1.0),
        Value("x", tensor=Tensor(2, Shape(), double_val=[2.0])),
        Value("x", tensor=Tensor(7, Shape(), string_val=[b"no"])),
        Value("x", simple_value=3.0),
    ]
    found = Decoded(kernel, [event(value) for value in kinds] * 20)
    assert found.values == [1.0, 2.0, 3.0] * 20
    assert len(found.notes) == 20


def test_wall_times_that_are_no_number(kernel):
    walls = [float("nan"), float("inf"), 5.0]
    found = Decoded(kernel, [event(Value("x", simple_value=1.0), wall=wall) for wall in walls])
    assert repr([point[1] for point in found.points]) == repr(walls)


def test_what_follows_the_number_is_part_of_the_pattern(kernel):
    number = b"\x0a\x01x\x15" + struct.pack("<f", 1.0)
    tails = [varint(99 << 3 | 5) + b"abcd", b"\x1a\x04abcd"]  # an unknown field; an old-style histogram
    first, second = (
        b"\x09" + bytes(8) + b"\x2a" + length_prefixed(b"\x0a" + length_prefixed(number + t)) for t in tails
    )
    found = Decoded(kernel, [first, first, second, first])
    assert found.values == [1.0, 1.0, 1.0]
    assert [note[0] for note in found.notes] == [3]
