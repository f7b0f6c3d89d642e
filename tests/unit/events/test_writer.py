import errno
import math
import os
import socket

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader, LegacyEventFileLoader
from tensorboard.util import tensor_util

from stepscope.errors import EventFileError
from stepscope.events import Event, EventFile, EventWriter, Summary, Value, encode_event, frame
from stepscope.events import writer as module


class FullDisk:
    """A file that takes a number of bytes and then no more, until there is room again."""

    closed = False

    def __init__(self, room):
        self.room, self.data = room, b""

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = data[: self.room]
        self.room -= len(taken)
        self.data += taken
        return len(taken)

    def close(self):
        self.closed = True


@pytest.fixture
def make():
    """Make writers that are closed after the test."""
    made = []

    def writer(*args, **options):
        made.append(EventWriter(*args, **options))
        return made[-1]

    yield writer
    for one in made:
        if isinstance(one._file, FullDisk):
            one._file.room = 1 << 30
        one.close()


def points(path):
    """(tag, step, value, wall) of every scalar, as TensorBoard reads them."""
    found = []
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            assert value.metadata.plugin_data.plugin_name == "scalars"
            found.append(
                (value.tag, event.step, tensor_util.make_ndarray(value.tensor).item(), event.wall_time)
            )
    return found


def test_name_and_first_record(tmp_path):
    writer = EventWriter(tmp_path / "a" / "b", suffix=".x", clock=lambda: 12.7)
    writer.close()
    assert writer.path.parent == tmp_path / "a" / "b"
    head, uid = writer.path.name.removesuffix(".x").rsplit(".", 1)
    assert head == f"events.out.tfevents.0000000012.{socket.gethostname()}.{os.getpid()}"
    assert uid.isdigit()
    (first,) = LegacyEventFileLoader(str(writer.path)).Load()
    assert (first.wall_time, first.file_version) == (12.7, "brain.Event:2")
    assert first.source_metadata.writer == "stepscope"


def test_two_writers_never_share_a_file(make, tmp_path):
    assert len({make(tmp_path, clock=lambda: 1.0).path for _ in range(3)}) == 3


def test_a_file_that_is_there_is_not_touched(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_uid", iter([5, 5, 6]))
    first = make(tmp_path, clock=lambda: 1.0)
    first.close()
    before = first.path.read_bytes()
    assert make(tmp_path, clock=lambda: 1.0).path != first.path
    assert first.path.read_bytes() == before


def test_tensorboard_reads_scalars(tmp_path):
    rows = [
        ("loss", s, math.sin(s), 1e9 + s)
        for s in (0, 1, 127, 128, 300, 1 << 40, (1 << 63) - 1, -1, -(1 << 63))
    ]
    rows += [("été/" + "x" * 300, 5, 0.25, 1.5), ("loss", 5, -0.0, 0.0), ("", 0, 1.0, 2.0)]
    rows += [("x", 1, value, 2.0) for value in (math.inf, -math.inf, math.nan, 3.4028235e38, 1.2e-38)]
    writer = EventWriter(tmp_path)
    for tag, step, value, wall in rows:
        writer.scalar(tag, value, step, wall)
    writer.close()
    found = points(writer.path)
    assert [(t, s, w) for t, s, _, w in found] == [(t, s, w) for t, s, _, w in rows]
    assert repr([v for _, _, v, _ in found]) == repr([np.float32(v).item() for _, _, v, _ in rows])


@pytest.mark.parametrize("value", [1e300, -1e39, 1e-40, -1e-46, 5e-324])
def test_a_number_beyond_float32_keeps_its_value(tmp_path, value):
    writer = EventWriter(tmp_path)
    writer.scalar("x", value, 1, 2.0)
    writer.scalars([("x", value), ("y", 1.0)], 2, 3.0)
    writer.close()
    assert points(writer.path) == [("x", 1, value, 2.0), ("x", 2, value, 3.0), ("y", 2, 1.0, 3.0)]


def test_several_scalars_are_one_event(tmp_path):
    writer = EventWriter(tmp_path)
    writer.scalars([("a", 1.0), ("b", 2.0), ("c" * 200, 3.0)], 300, 5.0)
    writer.scalars([], 301, 5.0)
    writer.close()
    events = list(LegacyEventFileLoader(str(writer.path)).Load())
    assert [len(event.summary.value) for event in events] == [0, 3, 0]
    assert [(v.tag, v.simple_value) for v in events[1].summary.value] == [("a", 1), ("b", 2), ("c" * 200, 3)]


def test_any_event_is_written(tmp_path):
    event = Event(1.0, 2, summary=Summary([Value("x", simple_value=1.0)]))
    writer = EventWriter(tmp_path)
    position = writer.buffered_bytes
    writer.event(event)
    writer.close()
    assert EventFile(writer.path).event_at(position) == event


@pytest.mark.parametrize("step", [1 << 63, -(1 << 63) - 1, 1.5, "1", None])
def test_a_step_that_is_no_64_bit_integer_is_refused(tmp_path, step):
    writer = EventWriter(tmp_path)
    writer.scalar("x", 1.0, 3, 0.0)
    before = writer.buffered_bytes
    for write in (
        lambda: writer.scalar("x", 1.0, step, 0.0),
        lambda: writer.scalars([("x", 1.0)], step, 0.0),
    ):
        with pytest.raises(EventFileError, match="64 bits"):
            write()
    assert writer.buffered_bytes == before
    writer.scalar("x", 2.0, 3, 0.0)
    writer.close()
    assert [row[1:3] for row in points(writer.path)] == [(3, 1.0), (3, 2.0)]


def test_nothing_is_written_before_a_flush(make, tmp_path):
    writer = make(tmp_path)
    writer.scalar("x", 1.0, 1, 1.0)
    assert writer.path.stat().st_size == writer.bytes_written == 0
    size = writer.buffered_bytes
    writer.flush(sync=True)
    assert writer.path.stat().st_size == writer.bytes_written == size
    assert writer.buffered_bytes == 0


def test_a_full_buffer_is_written(tmp_path):
    writer = EventWriter(tmp_path)
    for step in range(1 << 15):
        writer.scalar("x", 1.0, step, 1.0)
    assert writer.bytes_written > 0
    assert writer.buffered_bytes < (1 << 20) + 100
    writer.close()
    assert len(EventFile(writer.path).read().scalars[0]) == 1 << 15


def test_a_short_write_is_continued(make, tmp_path):
    writer = make(tmp_path)
    writer.scalar("x", 1.0, 1, 1.0)
    size = writer.buffered_bytes
    writer._file.close()
    writer._file = disk = FullDisk(10)
    with pytest.raises(OSError, match="No space left"):
        writer.flush()
    assert (writer.bytes_written, writer.buffered_bytes) == (10, size - 10)
    writer.scalar("x", 2.0, 2, 1.0)
    disk.room = 10_000
    writer.flush()
    writer.path.write_bytes(disk.data)
    assert [row[1:3] for row in points(writer.path)] == [(1, 1.0), (2, 2.0)]


def test_a_full_buffer_on_a_full_disk_takes_nothing_more(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FULL_BYTES", 100)
    writer = make(tmp_path)
    writer._file.close()
    writer._file = disk = FullDisk(0)
    writer.scalar("x", 1.0, 1, 1.0)
    writer.scalar("x", 1.0, 2, 1.0)
    before = writer.buffered_bytes
    for write in (
        lambda: writer.scalar("x", 1.0, 3, 1.0),
        lambda: writer.scalars([("x", 1.0)], 3, 1.0),
        lambda: writer.event(Event()),
    ):
        with pytest.raises(OSError, match="No space left"):
            write()
    assert writer.buffered_bytes == before
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert disk.closed
    writer.close()


def test_whole_records_are_taken_as_they_are(make, tmp_path):
    writer = make(tmp_path)
    size = writer.buffered_bytes
    record = frame(encode_event(Event(1.0, 2, summary=Summary([Value("x", simple_value=1.0)]))))
    writer.records(record * 3)
    assert writer.buffered_bytes == size + 3 * len(record)
    writer.flush()
    assert points(writer.path) == [("x", 2, 1.0, 1.0)] * 3


def test_an_abandoned_file_is_not_written(make, tmp_path):
    writer = make(tmp_path)
    writer.abandon()
    writer.close()
    assert writer.path.stat().st_size == 0


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        EventWriter(tmp_path / "file" / "run")


def test_a_value_that_is_no_number_takes_nothing(make, tmp_path):
    writer = make(tmp_path)
    before = writer.buffered_bytes
    with pytest.raises(Exception, match="float"):
        writer.scalar("x", "text", 1, 1.0)
    with pytest.raises(Exception, match="float"):
        writer.scalars([("x", 1.0), ("y", "text")], 1, 1.0)
    assert writer.buffered_bytes == before


def test_large_bytes_are_written_as_they_are_also_in_parts(tmp_path):
    """A picture beyond the buffer, to a disk that takes it a little at a time."""
    large = Event(1.0, 2, summary=Summary([Value("p", obsolete_old_style_histogram=os.urandom(3 << 20))]))
    writer = EventWriter(tmp_path)
    disk = FullDisk(0)
    kept, writer._file = writer._file, disk
    try:
        writer.scalar("x", 1.0, 3, 1.0)
        writer.event(large)
        whole = writer.buffered_bytes
        for _ in range(5):
            with pytest.raises(OSError, match="No space"):
                writer.flush()
            disk.room = 700_000
        disk.room = 1 << 30
        writer.flush()
        assert (len(disk.data), writer.bytes_written, writer.buffered_bytes) == (whole, whole, 0)
        assert frame(encode_event(large)) in disk.data
    finally:
        kept.close()


def test_what_a_dead_file_took_in_part_is_whole_in_another(make, tmp_path):
    dead, next_one = make(tmp_path / "a"), make(tmp_path / "b")
    for step in range(10):
        dead.scalar("x", float(step), step, 1.0)
    real, disk = dead._file, FullDisk(dead.bytes_written + dead.buffered_bytes // 2)
    disk.fileno = real.fileno
    dead._file = disk
    with pytest.raises(OSError, match="No space"):
        dead.flush()
    real.write(disk.data)
    real.flush()
    for step in range(10, 12):
        dead.scalar("x", float(step), step, 1.0)
    next_one.put(dead.take_back())
    next_one.flush()
    dead._file = real
    whole = [*points(dead.path), *points(next_one.path)]
    assert [step for _, step, _, _ in whole] == list(range(12))
    assert 0 < len(points(dead.path)) < 10
