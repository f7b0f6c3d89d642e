import os
import struct

import msgspec
import numpy as np
import pytest

from stepscope.errors import EventFileError
from stepscope.events import (
    Event,
    EventFile,
    EventWriter,
    Image,
    LogMessage,
    Metadata,
    SessionLog,
    SessionStatus,
    Shape,
    Summary,
    TaggedRunMetadata,
    Tensor,
    Value,
    encode_event,
    frame,
    masked_crc32c,
)
from stepscope.events import columns as event_columns
from stepscope.events.columns import ROWS
from stepscope.events.framing import header
from stepscope.events.source import EventSource


def scalar(step, tag="x", value=None, wall=1e9):
    return Event(
        wall, step, summary=Summary([Value(tag, simple_value=float(step) if value is None else value)])
    )


def record(step, **fields):
    return frame(encode_event(scalar(step, **fields)))


NAME = "events.out.tfevents.1.host"
VERSION = frame(encode_event(Event(1e9, file_version="brain.Event:2")))
SIZE = len(record(1))
JUNK = np.random.default_rng(0).integers(1, 256, 3 << 20, np.uint8).tobytes()
"""More than the window in which the next record is looked for."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / NAME


def steps(batch, tag="x"):
    return [step for columns in batch.scalars if columns.tag == tag for step in columns.step.tolist()]


def assert_status(file, **expected):
    assert {name: getattr(file.status, name) for name in expected} == expected


# --- what is read ------------------------------------------------------------------------------------


def test_columns_of_a_series(path):
    path.write_bytes(VERSION + record(5, wall=1.5) + record(6, tag="y") + record(7, value=0.1, wall=2.5))
    batch = EventFile(path).read()
    x, y = batch.scalars
    assert (x.tag, y.tag, len(x), len(y)) == ("x", "y", 2, 1)
    assert x.wall.tolist() == [1.5, 2.5]
    assert x.step.tolist() == [5, 7]
    assert x.value.tolist() == [5.0, np.float32(0.1)]
    assert x.position.tolist() == [len(VERSION), len(VERSION) + 2 * SIZE]
    assert [c.dtype for c in (x.wall, x.step, x.value, x.position)] == ["f8", "i4", "f4", "u4"]
    assert (batch.first_wall, batch.last_wall) == (1.5, 1e9)


def test_columns_are_as_wide_as_they_must_be(path):
    wide = Value("d", tensor=Tensor(2, Shape(), double_val=[0.1]))
    path.write_bytes(record(1 << 40) + frame(encode_event(Event(summary=Summary([wide])))))
    x, d = EventFile(path).read().scalars
    assert (x.step.dtype, x.value.dtype, d.value.dtype, d.value.tolist()) == ("i8", "f4", "f8", [0.1])


@pytest.mark.parametrize(
    ("step", "kind"), [(2**31 - 1, "i4"), (2**31, "i8"), (-(2**31), "i4"), (-(2**31) - 1, "i8")]
)
def test_steps_at_the_edge_of_32_bits(path, step, kind):
    path.write_bytes(record(step))
    [x] = EventFile(path).read().scalars
    assert (x.step.dtype, x.step.tolist()) == (kind, [step])


@pytest.mark.slow
def test_a_file_larger_than_all_buffers(path):
    count = 3 * ROWS + 5
    writer = EventWriter(path.parent)
    for step in range(count):
        writer.scalar(f"tag{step % 3}", step, step, 1e9)
    writer.close()
    file = EventFile(writer.path)
    batch = file.read()
    assert_status(file, records=count + 1, scalars=count)
    for number, columns in enumerate(batch.scalars):
        assert columns.step.tolist() == list(range(number, count, 3))
        assert (columns.value == columns.step).all()


@pytest.mark.parametrize("rows", [ROWS, 64])
def test_tags_of_one_loop_share_steps_and_times(path, monkeypatch, rows):
    monkeypatch.setattr(event_columns, "ROWS", rows)
    monkeypatch.setattr(event_columns, "_idle", [])
    path.write_bytes(
        b"".join(
            record(step, tag=tag, wall=1e9 + step + (tag == "late"))
            for step in range(100)
            for tag in ("a", "b", "late", "c", "sparse")
            if tag != "sparse" or step % 10 == 0
        )
    )
    a, b, late, c, sparse = EventFile(path).read().scalars
    if rows == ROWS:  # else each tag is joined of pieces
        assert a.step is b.step is late.step is c.step
        assert a.wall is b.wall
    assert len({id(one.value) for one in (a, b, c)}) == 3
    for one in (a, b, late, c):
        assert one.step.tolist() == one.value.tolist() == list(range(100))
        assert (one.wall - one.step == 1e9 + (one is late)).all()
    assert sparse.step.tolist() == sparse.value.tolist() == list(range(0, 100, 10))


def test_a_record_larger_than_a_block(path):
    image = Value("image", image=Image(encoded_image_string=bytes(range(256)) * 5000))
    event = Event(2.0, 3, summary=Summary([image]))
    path.write_bytes(record(1) + frame(encode_event(event)) + record(2))
    file = EventFile(path)
    batch = file.read()
    assert steps(batch) == [1, 2]
    assert batch.records.plugin == ["images"]
    assert file.event_at(batch.records.position[0]) == event


def test_other_values_are_where_they_say(path):
    values = [
        Value("text", tensor=Tensor(7, Shape(), string_val=[b"a"]), metadata=Metadata.of("text")),
        Value("old", image=Image(1, 1)),
        Value("none"),
    ]
    events = [
        Event(1.0, 1, summary=Summary(values)),
        Event(2.0, 2, graph_def=b"graph"),
        Event(3.0, 3, meta_graph_def=b"meta"),
        Event(4.0, 4, tagged_run_metadata=TaggedRunMetadata("step4", b"metadata")),
        Event(5.0, 5, log_message=LogMessage(1, "hello")),
        Event(6.0, 6, summary=Summary(values[:1])),
    ]
    path.write_bytes(VERSION + b"".join(frame(encode_event(event)) for event in events))
    file = EventFile(path)
    batch = file.read()
    found = batch.records
    assert found.tag == [
        "text", "old", "none", "__run_graph__", "__meta_graph__", "step4", "__log_message__", "text",
    ]  # fmt: skip
    assert found.plugin == ["text", "images", "", "graphs", "graphs", "graph_tagged_run_metadata", "", "text"]
    assert found.step.tolist() == [1, 1, 1, 2, 3, 4, 5, 6]
    assert found.wall.tolist() == [1, 1, 1, 2, 3, 4, 5, 6]
    assert found.index.tolist() == [0, 1, 2, 0, 0, 0, 0, 0]
    assert [file.event_at(at) for at in found.position[2:]] == events
    assert batch.metadata == {"text": Metadata.of("text")}
    assert not batch.scalars


def test_metadata_is_given_once_as_first_seen(path):
    first, later = Metadata.of("scalars", b"1", display_name="first"), Metadata.of("scalars", b"2")
    values = [Value("x", simple_value=1.0, metadata=found) for found in (first, later)]
    path.write_bytes(b"".join(frame(encode_event(Event(summary=Summary([value])))) for value in values))
    file = EventFile(path)
    assert file.read().metadata == {"x": first}
    with path.open("ab") as out:
        out.write(frame(encode_event(Event(summary=Summary([values[1]])))))
    assert file.read().metadata == {}


def test_sessions(path):
    logs = [
        Event(1.0, 2, session_log=SessionLog(SessionStatus.START)),
        Event(3.0, 4, session_log=SessionLog(3)),
    ]
    path.write_bytes(VERSION + b"".join(frame(encode_event(event)) for event in logs))
    start, checkpoint = EventFile(path).read().sessions
    assert (start.position, start.status, start.step, start.wall) == (len(VERSION), 1, 2, 1.0)
    assert (checkpoint.status, checkpoint.step) == (SessionStatus.CHECKPOINT, 4)


def test_wall_times_that_are_no_number_kill_nothing(path):
    path.write_bytes(record(1, wall=float("nan")) + record(2, wall=5.0) + record(3, wall=float("nan")))
    batch = EventFile(path).read()
    assert steps(batch) == [1, 2, 3]
    assert (batch.first_wall, batch.last_wall) == (5.0, 5.0)
    path.write_bytes(record(1, wall=float("nan")))
    assert EventFile(path).read().first_wall is None


def test_a_tag_that_is_no_text(path):
    path.write_bytes(frame(encode_event(Event(summary=Summary([Value("\udcff\udcfe", simple_value=1.0)])))))
    (columns,) = EventFile(path).read().scalars
    assert columns.tag == "\\xff\\xfe"


def test_the_version_of_the_file(path):
    path.write_bytes(VERSION)
    file = EventFile(path)
    assert not file.read()
    assert_status(file, version="brain.Event:2", records=1, problem=None)


# --- following ---------------------------------------------------------------------------------------


def test_a_growing_file(path):
    path.write_bytes(VERSION + record(1))
    file = EventFile(path)
    assert steps(file.read()) == [1]
    assert not file.read()
    with path.open("ab") as out:
        out.write(record(2) + record(3))
    batch = file.read()
    assert (steps(batch), batch.replaced, batch.late) == ([2, 3], False, False)
    assert file.position == path.stat().st_size


def test_a_torn_tail_waits_and_resumes(path):
    for cut in range(1, SIZE):
        path.write_bytes(VERSION + record(1) + record(2)[:cut])
        file = EventFile(path)
        assert steps(file.read()) == [1]
        assert_status(file, torn_bytes=cut, zero_bytes=0, problem=None)
        path.write_bytes(VERSION + record(1) + record(2) + record(3))
        assert steps(file.read()) == [2, 3]
        assert_status(file, torn_bytes=0, replaced=0)


def test_an_unchanged_file_is_not_opened(path, monkeypatch):
    path.write_bytes(VERSION + record(1)[:-1])
    file = EventFile(path)
    file.read()
    monkeypatch.setattr("stepscope.events.file.EventSource", None)
    assert not file.read()


def test_reading_in_portions(path):
    path.write_bytes(b"".join(map(record, range(20))))
    file = EventFile(path)
    found = []
    while batch := file.read(max_bytes=2 * SIZE):
        assert 1 <= len(steps(batch)) <= 4
        assert file.status.torn_bytes == 0
        found += steps(batch)
    assert found == list(range(20))


# --- damage ------------------------------------------------------------------------------------------


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("at", range(SIZE))
def test_a_corrupt_record_is_skipped_alone(path, at):
    path.write_bytes(VERSION + record(1) + flip(record(2), at) + record(3))
    file = EventFile(path)
    assert steps(file.read()) == [1, 3]
    kind = "resyncs" if at < 12 else "skipped_records"
    assert_status(file, skipped_bytes=SIZE, **{kind: 1})
    assert "skipped" in file.status.problem


@pytest.mark.parametrize(
    ("content", "found", "counts"),
    [
        (
            record(1) + flip(record(2), 20) + flip(record(3), 20) + record(4), [1, 4],
            {"skipped_records": 2, "resyncs": 0, "skipped_bytes": 2 * SIZE},
        ),
        (record(1) + flip(record(2), 20), [1], {"skipped_records": 1, "torn_bytes": 0}),
        (record(1) + record(2)[:20] + record(3) + record(4), [1, 3, 4], {"resyncs": 1, "skipped_bytes": 20}),
        (record(1) + JUNK + record(2), [1, 2], {"resyncs": 1, "skipped_bytes": len(JUNK)}),
    ],
    ids=["corrupt records in a row", "a corrupt last record", "lost bytes", "more than a window is broken"],
)  # fmt: skip
def test_damage_is_skipped_and_counted(path, content, found, counts):
    path.write_bytes(content)
    file = EventFile(path)
    assert steps(file.read()) == found
    assert_status(file, **counts)


def test_a_torn_record_that_another_writer_went_on_behind(path):
    path.write_bytes(record(1) + record(2)[:-5])
    file = EventFile(path)
    assert steps(file.read()) == [1]
    with path.open("ab") as out:
        out.write(VERSION + record(3))
    assert steps(file.read()) == [3]
    assert_status(file, resyncs=1, torn_bytes=0)


def test_a_broken_tail_waits_for_a_record(path):
    path.write_bytes(record(1) + b"no record at all, for sure")
    file = EventFile(path)
    assert steps(file.read()) == [1]
    assert file.status.torn_bytes == 26
    assert "the last 26 bytes are not a record" in file.status.problem
    with path.open("ab") as out:
        out.write(record(2))
    assert steps(file.read()) == [2]
    assert_status(file, resyncs=1, skipped_bytes=26, torn_bytes=0)


def test_a_large_record_behind_a_broken_stretch(path):
    large = frame(encode_event(Event(graph_def=bytes(range(1, 256)) * 10_000)))
    path.write_bytes(record(1) + b"junk" * 5 + large + record(2))
    batch = EventFile(path).read()
    assert (steps(batch), batch.records.tag) == ([1, 2], ["__run_graph__"])


def test_records_that_hold_no_event_are_counted(path):
    path.write_bytes(VERSION + record(1) + frame(b"\xff\xff") + record(2))
    file = EventFile(path)
    assert steps(file.read()) == [1, 2]
    assert_status(file, undecodable=1, records=4)
    assert "1 record skipped that holds no event" in file.status.problem.replace("hold no", "holds no")


# --- holes -------------------------------------------------------------------------------------------


def test_a_hole_at_the_end_is_read_when_it_is_filled(path):
    path.write_bytes(VERSION + record(1) + bytes(3 * SIZE))
    file = EventFile(path)
    assert steps(file.read()) == [1]
    assert_status(file, zero_bytes=3 * SIZE, torn_bytes=0)
    assert "not written yet" in file.status.problem
    path.write_bytes(VERSION + record(1) + record(2) + bytes(2 * SIZE))
    assert steps(file.read()) == [2]
    path.write_bytes(VERSION + b"".join(map(record, (1, 2, 3, 4))))
    assert steps(file.read()) == [3, 4]
    assert_status(file, zero_bytes=0, problem=None, replaced=0, skipped_bytes=0)


def test_a_hole_in_the_middle_is_passed_and_read_when_it_is_filled(path):
    hole = bytes(2 * SIZE)
    path.write_bytes(VERSION + record(1) + hole + record(4))
    file = EventFile(path)
    assert steps(file.read()) == [1, 4]
    assert file.status.zero_bytes == len(hole)
    with path.open("ab") as out:
        out.write(record(5))
    batch = file.read()
    assert (steps(batch), batch.late) == ([5], False)
    path.write_bytes(VERSION + b"".join(map(record, (1, 2, 3, 4, 5))))
    batch = file.read()
    assert (steps(batch), batch.late, batch.replaced) == ([2, 3], True, False)
    assert batch.scalars[0].position.tolist() == [len(VERSION) + SIZE, len(VERSION) + 2 * SIZE]
    assert_status(file, zero_bytes=0, records=6, problem=None)


def test_a_hole_is_filled_without_a_new_time(path):
    whole = VERSION + b"".join(map(record, (1, 2, 3)))
    path.write_bytes(VERSION + bytes(SIZE) + whole[len(VERSION) + SIZE :])
    file = EventFile(path)
    assert steps(file.read()) == [2, 3]
    before = path.stat()
    with path.open("r+b") as out:
        out.write(whole)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert steps(file.read()) == [1]


@pytest.mark.parametrize("start", range(0, 2 * SIZE, 3))
@pytest.mark.parametrize("length", [16, 30, SIZE, 2 * SIZE + 7])
def test_a_hole_anywhere_loses_nothing(path, start, length):
    whole = VERSION + b"".join(map(record, range(1, 9)))
    start += len(VERSION)
    path.write_bytes(whole[:start] + bytes(length) + whole[start + length :])
    file = EventFile(path)
    first = steps(file.read())
    path.write_bytes(whole)
    assert sorted(first + steps(file.read())) == list(range(1, 9))
    assert_status(file, zero_bytes=0, skipped_bytes=0, problem=None)


def test_a_hole_filled_with_junk_is_skipped(path):
    path.write_bytes(record(1) + bytes(2 * SIZE) + record(4))
    file = EventFile(path)
    file.read()
    path.write_bytes(record(1) + b"\x07" * (2 * SIZE) + record(4))
    assert not file.read()
    assert_status(file, zero_bytes=0, resyncs=1, skipped_bytes=2 * SIZE)


def test_a_file_of_zeros(path):
    path.write_bytes(bytes(5 << 20))
    file = EventFile(path)
    assert not file.read()
    assert file.status.zero_bytes == 5 << 20


# --- replaced and truncated --------------------------------------------------------------------------


class Counting(EventSource):
    """Counts the bytes that are read."""

    read = 0

    def block(self, buffer, at, end):
        found = super().block(buffer, at, end)
        Counting.read += len(found)
        return found

    def bytes(self, at, size):
        found = super().bytes(at, size)
        Counting.read += len(found)
        return found


@pytest.fixture
def counted(path, monkeypatch):
    """The bytes that are read; where the file system keeps holes, a file of any length takes no room."""
    with path.open("wb") as file:
        file.truncate(1 << 30)
    if path.stat().st_blocks:
        pytest.skip("the file system keeps no holes")
    monkeypatch.setattr("stepscope.events.file.EventSource", Counting)
    Counting.read = 0
    return lambda: Counting.read


@pytest.mark.parametrize("header", [b"", header(1 << 36)])
def test_a_terabyte_that_is_not_there_takes_no_time(path, counted, header):
    """Whoever writes into a log directory can make such a file at no cost."""
    length = 1 << 40
    with path.open("wb") as file:
        file.write(record(0) + record(1) + header)
        for at in (1 << 39, length - 10_000):  # one of them begins within a page that holds zeros
            file.seek(at + 5)
            file.write(record(at >> 33))
        file.truncate(length)
    file = EventFile(path)
    assert steps(file.read()) == [0, 1, 64, (length - 10_000) >> 33]
    assert file.status.skipped_bytes > 1 << 39
    before = counted()
    assert before < 400 << 20
    for _ in range(5):  # while nothing changes nothing is read anew
        assert not len(file.read().scalars)
    assert counted() - before < 1 << 20
    with path.open("ab") as more:
        more.write(record(7))
    assert steps(file.read()) == [7]


def test_a_header_that_claims_more_than_an_event_may_hold_takes_no_memory(path, counted):
    import resource

    with path.open("wb") as file:
        file.write(record(0) + header((2 << 30) + 1))
        file.truncate(8 << 30)
        file.seek(8 << 30)
        file.write(record(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert steps(EventFile(path).read()) == [0, 1]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


@pytest.mark.parametrize(
    ("name", "head", "found", "counts"),
    [
        ("other", VERSION, [7, 8, 9], {"replaced": 1, "truncated": 0, "records": 4}),
        (NAME, VERSION, [5], {"replaced": 0, "truncated": 1, "scalars": 1}),
        (NAME, frame(encode_event(Event(5.0, file_version="brain.Event:2"))), [7, 8, 9], {"replaced": 1}),
        (NAME, VERSION, [1, 3, 4], {}),
    ],
    ids=["replaced", "shorter", "rewritten from its head", "rewritten behind its head"],
)
def test_a_file_that_became_another_is_read_from_its_beginning(path, name, head, found, counts):
    path.write_bytes(VERSION + record(1) + record(2))
    file = EventFile(path)
    file.read()
    written = path.with_name(name)
    written.write_bytes(head + b"".join(map(record, found)))
    written.replace(path)
    batch = file.read()
    assert (batch.replaced, steps(batch)) == (True, found)
    assert_status(file, **counts)
    assert not file.read()


def test_a_torn_tail_that_is_cut_off_replaces_nothing(path):
    path.write_bytes(VERSION + record(1) + record(2)[:20])
    file = EventFile(path)
    file.read()
    path.write_bytes(VERSION + record(1))
    assert not file.read()
    assert_status(file, truncated=0, replaced=0, torn_bytes=0)


# --- what is not an event file ---------------------------------------------------------------------------


def test_an_empty_file(path):
    path.touch()
    file = EventFile(path)
    assert not file.read()
    assert file.status.problem == "the file is empty: nothing was written to it yet"
    path.write_bytes(VERSION + record(1))
    assert steps(file.read()) == [1]
    assert file.status.problem is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"just some text, and more of it\n" * 10, "not an event file: no record in 310 bytes"),
        (b"\x89PNG\r\n" + bytes(range(1, 200)), "not an event file: no record in 205 bytes"),
        (frame(b"\xff not an event") * 3, "not an event file: its records hold no events"),
        (VERSION[:-1], "no complete record yet"),
    ],
)
def test_what_holds_no_event_says_why(path, content, problem):
    path.write_bytes(content)
    file = EventFile(path)
    assert not file.read()
    assert file.status.problem == problem


def test_an_absurd_length_waits(path):
    size = struct.pack("<Q", (1 << 64) - 1)
    path.write_bytes(record(1) + size + struct.pack("<I", masked_crc32c(size)) + b"abc")
    file = EventFile(path)
    assert steps(file.read()) == [1]
    assert file.status.torn_bytes == 15


def test_a_missing_file_is_an_error(path):
    with pytest.raises(EventFileError, match="no such event file") as caught:
        EventFile(path)
    assert str(path) in str(caught.value)
    with pytest.raises(EventFileError, match="a directory"):
        EventFile(path.parent)


def test_a_file_that_vanishes_is_a_problem_and_its_return_none(path):
    path.write_bytes(VERSION + record(1))
    file = EventFile(path)
    file.read()
    path.rename(path.with_name("away"))
    assert not file.read()
    assert "cannot be read: No such file" in file.status.problem
    path.with_name("away").rename(path)
    assert not file.read()
    assert (file.status.problem, file.status.replaced) == (None, 0)


def test_a_file_without_permission(path, monkeypatch):
    path.write_bytes(VERSION + record(1))
    file = EventFile(path)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("stepscope.events.source.os.open", denied)
        assert not file.read()
        with pytest.raises(EventFileError, match="Permission denied"):
            file.event_at(0)
    assert "Permission denied" in file.status.problem
    assert steps(file.read()) == [1]


def test_a_read_error_loses_nothing_and_repeats_nothing(path, monkeypatch):
    monkeypatch.setattr("stepscope.events.file.BLOCK_BYTES", 4 * SIZE)
    path.write_bytes(b"".join(map(record, range(20))))
    file = EventFile(path)
    real, calls = os.preadv, []

    def failing(*args):
        calls.append(args)
        if len(calls) == 3:
            raise OSError(5, "Input/output error")
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr("stepscope.events.source.os.preadv", failing)
        first = steps(file.read())
    assert 0 < len(first) < 20
    assert "Input/output error" in file.status.problem
    assert first + steps(file.read()) == list(range(20))
    assert file.status.problem is None


def test_no_event_where_none_is(path):
    path.write_bytes(VERSION + record(1))
    with pytest.raises(EventFileError, match="no event at byte 3"):
        EventFile(path).event_at(3)


# --- going on in another process ---------------------------------------------------------------------


def resumed(file):
    return EventFile.resume(file.path, msgspec.msgpack.decode(msgspec.msgpack.encode(file.state())))


def test_a_resumed_file_goes_on_where_it_stopped(path):
    tensor = Tensor(1, Shape.of(1), float_val=[0.5])
    first = Value("t", tensor=tensor, metadata=Metadata.of("scalars"))
    path.write_bytes(VERSION + record(1) + frame(encode_event(Event(1.0, 1, summary=Summary([first])))))
    file = EventFile(path)
    file.read()
    again = resumed(file)
    assert not again.read()
    assert vars(again.status) == vars(file.status)
    with path.open("ab") as out:
        out.write(
            record(2) + frame(encode_event(Event(1.0, 2, summary=Summary([Value("t", tensor=tensor)]))))
        )
    batch = again.read()
    assert (steps(batch), steps(batch, "t")) == ([2], [2])  # that "t" is a scalar was said before
    assert (batch.replaced, batch.metadata, again.status.scalars) == (False, {}, 4)


def test_a_resumed_file_still_waits_for_its_holes(path):
    path.write_bytes(VERSION + record(1) + bytes(SIZE) + record(3))
    file = EventFile(path)
    file.read()
    again = resumed(file)
    path.write_bytes(VERSION + b"".join(map(record, (1, 2, 3, 4))))
    batch = again.read()
    assert (sorted(steps(batch)), batch.late, again.status.zero_bytes) == ([2, 4], True, 0)


def test_a_resumed_file_notices_that_it_was_replaced(path):
    path.write_bytes(VERSION + record(1))
    file = EventFile(path)
    file.read()
    again = resumed(file)
    path.write_bytes(VERSION + record(7) + record(8))
    batch = again.read()
    assert (batch.replaced, steps(batch)) == (True, [7, 8])


def test_memory_per_tag_is_small_however_many_there_are(tmp_path) -> None:
    writer = EventWriter(tmp_path)
    names = [f"layer_{number:05}/weight/norm" for number in range(3000)]
    for step in range(3):
        writer.scalars([(name, 0.5) for name in names], step, 1.0)
        for name in names:
            writer.scalar(name, 0.5, step, 1.0)
    writer.close()
    file = EventFile(writer.path)
    assert [series.tag for series in file.read().scalars] == names
    assert len(file._columns._tags.patterns) < 500 * len(names)
