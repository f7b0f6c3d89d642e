"""Files made to keep their reader busy, or to take its memory: what is spent on them is bounded."""

import os
import struct
import tracemalloc

import pytest
from support.records import NAME, encoded

from stepscope.errors import EventFileError
from stepscope.events import Event, EventFile, Summary, Tensor, Value, damage, decode_event, frame, wire
from stepscope.events import columns as event_columns
from stepscope.events import file as event_file
from stepscope.events.columns import ROWS
from stepscope.events.framing import header
from stepscope.events.source import EventSource
from stepscope.events.wire import each_of, length_prefixed


def scalar(step, tag="loss"):
    return encoded([Event(1e9, step, summary=Summary([Value(tag, simple_value=float(step))]))])


def steps(batch):
    return sorted(step for columns in batch.scalars for step in columns.step.tolist())


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


@pytest.fixture
def checked(monkeypatch):
    """The bytes that are read."""
    count = [0]

    class Counting(EventSource):
        def block(self, buffer, at, end):
            found = super().block(buffer, at, end)
            count[0] += len(found)
            return found

        def bytes(self, at, size):
            found = super().bytes(at, size)
            count[0] += len(found)
            return found

    monkeypatch.setattr("stepscope.events.file.EventSource", Counting)
    monkeypatch.setattr(damage, "FREE_BYTES", 1 << 20)
    return lambda: count[0]


def test_headers_that_begin_no_record_cost_no_more_than_some_times_the_file(path, checked):
    """Each has a right checksum and claims half a file, all of which would be checked for each."""
    size = 2 << 20
    path.write_bytes(scalar(1) + b"\xff" * 5 + header(size // 2) * (size // 12))
    file = EventFile(path)
    assert steps(file.read()) == [1]
    assert checked() < 30 * size
    assert file.status.problem is not None
    before = checked()
    with path.open("ab") as more:
        more.write(b"\xff")
    file.read()
    assert checked() - before < 10 * size  # and no more at the next look


@pytest.mark.slow
@pytest.mark.parametrize("claim", [100_000, 1_000_000])
def test_records_between_such_headers_do_not_pay_for_them_again_and_again(path, checked, claim):
    count = 30_000
    path.write_bytes(b"".join(header(claim) + scalar(step) for step in range(count)) + bytes(claim))
    assert steps(EventFile(path).read())[0] == 0
    assert checked() < 1 << 30  # of 15 GB and more


def test_a_file_with_much_damage_is_read_to_its_end(path):
    """One record in fifty is damaged, which is more than any disk does."""
    parts = [bytearray(scalar(step)) for step in range(20_000)]
    for at in range(0, len(parts), 50):
        parts[at][20] ^= 1
    path.write_bytes(b"".join(parts))
    assert len(steps(EventFile(path).read())) == 20_000 - 400


def test_an_event_of_a_million_empty_values_is_left_out_and_the_next_is_read(path):
    values = b"\x0a\x00" * (event_columns.MOST_NOTES + 1)
    event = b"\x09" + struct.pack("<d", 1e9) + b"\x2a" + length_prefixed(values)
    path.write_bytes(scalar(1) + frame(event) + scalar(2))
    file = EventFile(path)
    assert steps(file.read()) == [1, 2]
    assert (file.status.undecodable, file.status.records) == (1, 3)


def test_an_event_of_more_scalars_than_there_is_room_for_is_read_whole(path):
    count = ROWS + 5
    values = length_prefixed(b"\x0a\x01x\x15" + struct.pack("<f", 1.0))
    event = b"\x09" + struct.pack("<d", 1e9) + b"\x2a" + length_prefixed((b"\x0a" + values) * count)
    path.write_bytes(frame(event))
    file = EventFile(path)
    [x] = file.read().scalars
    assert (x.tag, len(x), x.value.sum()) == ("x", count, count)
    assert (file.status.undecodable, file.status.records) == (0, 1)


@pytest.mark.slow
def test_many_values_in_a_portion_are_given_in_several(path, monkeypatch):
    monkeypatch.setattr(event_columns, "MOST_NOTES", 1_000)
    texts = [Event(1e9, step, summary=Summary([Value("t", tensor=Tensor(7, string_val=[b"x"]))]))
             for step in range(40_000)]  # fmt: skip
    path.write_bytes(encoded(texts))
    file, found = EventFile(path), []
    while batch := file.read(1 << 30):
        found.append(len(batch.records.tag))
    assert sum(found) == 40_000
    assert len(found) > 1


def test_tags_beyond_those_that_are_read_are_counted(path, monkeypatch):
    monkeypatch.setattr(event_columns, "MOST_TAGS", 128)
    path.write_bytes(b"".join(scalar(1, f"tag {number}") for number in range(200)) + scalar(2, "tag 7"))
    file = EventFile(path)
    batch = file.read()
    assert [columns.tag for columns in batch.scalars] == [f"tag {number}" for number in range(128)]
    assert len(batch.scalars[7]) == 2
    assert file.status.beyond == 72
    assert "72 records left out, of more tags than are read of one file" in file.status.problem


MAX_PARTS = 1 << 12


@pytest.mark.parametrize(
    "parts",
    [
        b"\x12" + length_prefixed(b"\x12\x00" * (MAX_PARTS // wire.MESSAGE_PARTS + 1)),  # sizes of a shape
        b"\x3a" + length_prefixed(b"\x01" * (MAX_PARTS + 1)),  # packed numbers
        b"\x2a" + length_prefixed(bytes(4) * (MAX_PARTS + 1)),  # packed numbers of one width
        b"\x38\x01" * (MAX_PARTS + 1),  # the same, one by one
        b"\xf8\x07\x01" * (MAX_PARTS + 1),  # fields that nobody knows
    ],
    ids=["messages", "packed", "floats", "numbers", "unknown"],
)
def test_two_bytes_that_become_an_object_each_are_refused_beyond_a_number(parts, monkeypatch):
    monkeypatch.setattr(wire, "MOST_PARTS", MAX_PARTS)
    value = b"\x0a\x01a\x42" + length_prefixed(parts)
    with pytest.raises(EventFileError, match="a message of more than 4,096 parts"):
        decode_event(b"\x2a" + length_prefixed(b"\x0a" + length_prefixed(value)))
    assert decode_event(b"\x10\x05").step == 5  # the next message has its own


def test_so_many_parts_take_no_more_than_a_machine_has():
    assert wire.MOST_PARTS * 40 < 1 << 30
    nested = b"\x12" + length_prefixed(b"\x12\x00" * 10_000)
    tracemalloc.start()
    try:
        decode_event(b"\x2a" + length_prefixed(b"\x0a" + length_prefixed(b"\x42" + length_prefixed(nested))))
        each = tracemalloc.get_traced_memory()[1] / 10_000
    finally:
        tracemalloc.stop()
    assert each * wire.MOST_PARTS / wire.MESSAGE_PARTS < 1 << 30


def test_each_of_many_messages_has_its_own_parts_and_there_are_so_many_at_most(monkeypatch):
    monkeypatch.setattr(wire, "MOST_PARTS", MAX_PARTS)
    few, many = (b"\x0a\x02\x0a\x00" * count for count in (100, MAX_PARTS // wire.MESSAGE_PARTS + 1))
    assert len(list(each_of(Summary, "value", few))) == 100
    with pytest.raises(EventFileError, match="parts"):
        list(each_of(Summary, "value", many))


def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    file = EventFile(path)
    assert not file.read()
    assert "not a regular file" in file.status.problem


def test_an_effort_is_some_times_the_bytes_of_a_file():
    """A look costs 4 KiB besides what is checked; 256 MiB are free."""
    free, look = 256 << 20, 4 << 10
    effort = damage.Effort()
    assert effort.allows(free - look, 0)
    assert not effort.allows(0, 0)
    assert effort.is_spent
    effort = damage.Effort()
    assert effort.allows(free + 8 * 1000 - look, 1000)
    assert not effort.allows(0, 1000)
    assert not damage.Effort().allows(free + 8 * 1000 - look + 1, 1000)


def test_how_long_a_stretch_is_waited_for_does_not_depend_on_where_it_lies(path, monkeypatch):
    """Zeros at the end may still be written, also behind more bytes than are ever waited for."""
    monkeypatch.setattr(event_file, "MOST_WAITING", 1000)
    whole = b"".join(map(scalar, range(100)))
    assert len(whole) > 2000
    path.write_bytes(whole + bytes(600))
    file = EventFile(path)
    file.read()
    assert (file.status.records, file.status.zero_bytes) == (100, 600)
    path.write_bytes(whole + bytes(1001))
    file = EventFile(path)
    file.read()
    assert file.status.zero_bytes == 0
