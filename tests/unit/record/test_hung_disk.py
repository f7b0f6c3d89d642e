"""A disk that does not answer while a run is made: training goes on, and what it logs is written later."""

import os
import threading
import warnings

import pytest

from stepscope.errors import LogDirectoryError
from stepscope.record import parts as module
from stepscope.record import uploader
from stepscope.record.run import Run
from stepscope.record.sink import LogFiles

WAIT = 60


class HungDisk:
    """Opens files only once it answers."""

    def __init__(self) -> None:
        self.answers, self.asked = threading.Event(), threading.Event()

    def __call__(self, directory):
        self.asked.set()
        assert self.answers.wait(WAIT)
        return LogFiles(directory)


@pytest.fixture
def disk():
    disk = HungDisk()
    yield disk
    disk.answers.set()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(module, "OPEN_SECS", 0.01)
    monkeypatch.setattr(module, "STRICT_PATIENCE", 1)


def told(made):
    return [str(each.message) for each in made if "does not answer" in str(each.message)]


def test_what_is_logged_meanwhile_is_written_once_the_disk_answers(tmp_path, disk, impatient, lenient, read):
    with warnings.catch_warnings(record=True) as made:
        warnings.simplefilter("always")
        run = Run(tmp_path / "run", _open_writer=disk)
        assert disk.asked.wait(WAIT)
        for step in range(5_000):
            run.scalar("loss", float(step), step)
        assert (run.recording, run.attempt) == (True, 1), "the attempt was read before the file was opened"
        disk.answers.set()
        assert run.flush(timeout=WAIT)
        run.close()
    assert read(run)["loss"] == [(step, float(step)) for step in range(5_000)]
    assert run.problems == {}
    assert len(told(made)) == 1
    assert "what is logged waits in memory" in told(made)[0]


def test_a_directory_that_cannot_be_listed_leaves_the_attempt_open(
    tmp_path, impatient, lenient, monkeypatch, infos
):
    answers, wanted = threading.Event(), module.attempt_number

    def hangs(directory):
        assert answers.wait(WAIT)
        return wanted(directory)

    Run(tmp_path / "run").close()
    monkeypatch.setattr(module, "attempt_number", hangs)
    with pytest.warns(RuntimeWarning, match="does not answer"):
        run = Run(tmp_path / "run")
    assert run.attempt == 0, "not known is not 1"
    answers.set()
    assert run.flush(timeout=WAIT)
    assert run.attempt == 2
    run.close()
    assert {info["attempt"] for info in infos(run)} == {1, 2}


def test_points_beyond_the_bound_are_counted(tmp_path, disk, impatient, lenient, read):
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        run = Run(tmp_path / "run", _open_writer=disk, max_queue_bytes=64 * 1_000)
        for step in range(3_000):
            run.scalar("loss", 1.0, step)
        disk.answers.set()
        assert run.flush(timeout=WAIT)
        run.close()
    written = len(read(run)["loss"])
    assert written + run.problems["overflow"] == 3_000
    assert 900 <= written <= 1_100


@pytest.mark.slow
def test_the_end_keeps_its_deadline_and_the_rest_is_written_behind_it(
    tmp_path, disk, impatient, lenient, read
):
    with warnings.catch_warnings(record=True) as made:
        warnings.simplefilter("always")
        run = Run(tmp_path / "run", _open_writer=disk)
        run.scalar("loss", 1.0, 0)
        run.close(timeout=0.01)
    assert any("closed before 1 point could be written" in str(each.message) for each in made)
    disk.answers.set()
    run._writer._thread.join(WAIT)
    assert read(run)["loss"] == [(0, 1.0)]


def test_a_disk_that_answers_in_time_is_not_complained_of(tmp_path, disk, lenient, recwarn):
    disk.answers.set()
    Run(tmp_path / "run", _open_writer=disk).close()
    assert not recwarn.list


@pytest.mark.slow
def test_in_strict_mode_it_is_an_error_and_no_run_is_left(tmp_path, disk, impatient):
    with pytest.raises(LogDirectoryError, match="the disk does not answer") as raised:
        Run(tmp_path / "run", _open_writer=disk)
    assert raised.value.hint
    assert raised.value.path == str(tmp_path / "run")
    disk.answers.set()
    for thread in threading.enumerate():
        if thread.name == "stepscope-writer":
            thread.join(WAIT)


def test_a_pipe_among_the_event_files_is_not_waited_for(tmp_path, infos):
    os.mkfifo(tmp_path / "events.out.tfevents.1.host.1.0")
    with Run(tmp_path) as run:
        run.scalar("loss", 1.0, 0)
    assert run.attempt == 1


def test_a_store_that_does_not_answer_is_not_called_a_disk(tmp_path, impatient, lenient, monkeypatch):
    answers = threading.Event()
    monkeypatch.setenv("STEPSCOPE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(uploader.Uploader, "wait_for_survey", lambda self: answers.wait(WAIT))
    with pytest.warns(RuntimeWarning, match="the store has not answered yet which attempts there are"):
        run = Run("memory://hung/runs/first")
    run.scalar("loss", 1.0, 0)
    answers.set()
    assert run.flush(timeout=WAIT)
    run.close()
    assert run.attempt == 1
