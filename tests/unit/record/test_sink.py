import errno
import os
import shutil
from pathlib import Path

import pytest

from stepscope.events import EventWriter, frame
from stepscope.events.framing import unfinished
from stepscope.record.problems import Problems
from stepscope.record.sink import Sink, directory_error

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


class BadFile:
    """A file that takes so many bytes and then fails."""

    def __init__(self, file, room, error):
        self._file, self._room, self._error = file, room, OSError(error, "no")

    def write(self, data):
        if not self._room:
            raise self._error
        taken = self._file.write(memoryview(data)[: self._room])
        self._room -= taken
        return taken

    def __getattr__(self, name):
        return getattr(self._file, name)


def payloads(folder):
    """Each record of the files of a folder, in order; every byte belongs to one."""
    found = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        assert not unfinished(data), path
        while data:
            size = 16 + int.from_bytes(data[:8], "little")
            found.append(data[12 : size - 4])
            data = data[size:]
    return found


def add(writer, payload):
    writer.records(frame(payload))


@pytest.mark.parametrize("error", [errno.EFBIG, errno.ESTALE, errno.EIO])
def test_a_file_that_takes_no_more_is_left_with_whole_records(tmp_path, error):
    sink = Sink(str(tmp_path), EventWriter, Problems())
    writer = sink.writer(0.0)
    add(writer, b"whose it is")
    sink.begun(writer)
    assert sink.flush(0.0)
    writer._file = BadFile(writer._file, 150, error)
    for at in range(10):
        add(writer, b"%d" % at * 40)
    assert not sink.flush(1.0)
    assert sink.moved == (error == errno.EFBIG), "a broken place is not tried at once"
    assert (sink.writer(1.5) is None) == (error != errno.EFBIG)
    assert sink.buffered_bytes > 300
    second = sink.writer(10.0)
    assert sink.fresh
    assert second is not writer
    add(second, b"whose it is")
    sink.begun(second)
    assert sink.flush(10.0)
    sink.close()
    given = [b"%d" % at * 40 for at in range(10)]
    found = payloads(tmp_path)
    assert [each for each in found if each in given] == given
    assert found.count(b"whose it is") == 2


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_may_get_room_again_keeps_its_file(tmp_path, error):
    sink = Sink(str(tmp_path), EventWriter, Problems())
    writer = sink.writer(0.0)
    sink.begun(writer)
    assert sink.flush(0.0)
    good = writer._file
    writer._file = BadFile(good, 100, error)
    add(writer, b"x" * 200)
    assert not sink.flush(1.0)
    writer._file = good
    assert sink.flush(10.0)
    sink.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert payloads(tmp_path)[-1] == b"x" * 200


def test_a_place_that_takes_nothing_is_not_filled_with_empty_files(tmp_path):
    sink = Sink(str(tmp_path), EventWriter, Problems())
    now = 0.0
    for _ in range(5):
        writer = sink.writer(now)
        if sink.fresh:
            sink.begun(writer)
            writer._file = BadFile(writer._file, 0, errno.EIO)
        assert not sink.flush(now)
        now += 100.0
    sink.close()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "df -i how many files may be made); what waits is then written"),
        (errno.EDQUOT, "quota -s"),
        (errno.EACCES, "make the directory writable; "),
        (errno.EROFS, "mount the file system so that it can be written"),
        (errno.EEXIST, "something that is no directory is in the way"),
        (errno.ENAMETOOLONG, "name the directory more shortly"),
        (errno.ENOENT, "free space or make the directory writable; "),
        (errno.EMFILE, "ulimit -n"),
        (errno.ESTALE, "mount the file system anew"),
    ],
)
def test_the_remedy_is_that_of_the_error(number, remedy):
    assert remedy in directory_error("runs/a", OSError(number, os.strerror(number))).hint


@pytest.mark.usefixtures("lenient")
@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="the system does not tell the names of open files"
)
def test_of_a_file_that_was_moved_nothing_is_lost_and_its_place_is_told(tmp_path):
    problems = Problems()
    sink = Sink(str(tmp_path / "run"), EventWriter, problems)
    sink.writer(0.0)
    assert sink.flush(0.0)
    (tmp_path / "run").rename(tmp_path / "renamed")
    sink.unflushed, sink.fresh = 3, False
    assert not sink.flush(1.0)
    assert (problems.counts, sink.unflushed) == ({}, 0)
    with pytest.warns(RuntimeWarning, match=f"was moved .* is in {tmp_path}/renamed/events.out.tfevents"):
        problems.deliver()
    assert sink.writer(1.0) is not None
    assert sink.flush(1.0)
    sink.close()
    assert len(list((tmp_path / "run").iterdir())) == 1
