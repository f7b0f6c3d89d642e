import errno
import shutil

import pytest

from stepscope.events import EventWriter
from stepscope.record.problems import Problems
from stepscope.record.sink import Sink

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def sink(tmp_path):
    sink = Sink(str(tmp_path / "run"), EventWriter, Problems())
    yield sink
    sink.close()


def test_a_directory_is_made_with_its_parents(tmp_path):
    sink = Sink(str(tmp_path / "a" / "b"), EventWriter, Problems())
    assert sink.writer(0.0) is not None
    assert sink.fresh
    sink.close()
    assert list((tmp_path / "a" / "b").glob("events.out.tfevents.*"))


def test_failures_back_off_up_to_half_a_minute(tmp_path):
    tries = []

    def open_writer(directory):
        tries.append(directory)
        raise FULL

    problems = Problems()
    sink = Sink(str(tmp_path), open_writer, problems)
    now, waits = 0.0, []
    for _ in range(7):
        assert sink.writer(now) is None
        begun = now
        while sink.writer(now) is None and len(tries) == len(waits) + 1:
            now += 0.5
        waits.append(now - begun)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert problems.waiting
    assert problems.lost == 0


def test_asking_for_a_flush_ends_the_back_off(sink):
    sink.writer(0.0)
    sink.failed(FULL, 0.0)
    assert sink.writer(0.5) is None
    sink.retry_now()
    assert sink.writer(0.5) is not None


def test_what_could_not_be_written_is_written_once_there_is_room(sink, monkeypatch):
    writer = sink.writer(0.0)
    real = type(writer).flush

    def full(self, sync=False):
        raise FULL

    writer.scalar("a", 1.0, 0, 1.0)
    monkeypatch.setattr(type(writer), "flush", full)
    sink.unflushed = 1
    assert not sink.flush(0.0)
    assert sink.buffered_bytes
    assert sink.unflushed == 1
    monkeypatch.setattr(type(writer), "flush", real)
    assert not sink.flush(0.5)
    assert sink.flush(1.0)
    assert (sink.buffered_bytes, sink.unflushed) == (0, 0)


def test_a_deleted_file_is_begun_anew_and_its_last_points_counted(tmp_path):
    problems = Problems()
    sink = Sink(str(tmp_path / "run"), EventWriter, problems)
    sink.writer(0.0)
    assert sink.flush(0.0)
    shutil.rmtree(tmp_path / "run")
    sink.unflushed, sink.fresh = 3, False
    assert not sink.flush(1.0)
    assert problems.counts == {"file_deleted": 3}
    assert sink.writer(1.0) is not None
    assert sink.fresh
    assert sink.flush(1.0)
    sink.close()
    assert len(list((tmp_path / "run").iterdir())) == 1


def test_a_replaced_file_is_noticed_too(sink):
    path = sink.writer(0.0).path
    assert sink.flush(0.0)
    path.rename(path.with_suffix(".old"))
    path.touch()
    assert not sink.flush(1.0)


def test_a_file_system_that_cannot_answer_is_trusted(sink, monkeypatch):
    sink.writer(0.0)

    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.stat", fail)
    assert sink.flush(0.0)


def test_a_forgotten_writer_is_never_written(sink):
    writer = sink.writer(0.0)
    sink.flush(0.0)
    size = writer.path.stat().st_size
    writer.scalar("a", 1.0, 0, 1.0)
    sink.forget()
    sink.retry_now()
    assert sink.writer(1e9) is None
    assert not sink.flush(1e9)
    writer.close()
    assert writer.path.stat().st_size == size
