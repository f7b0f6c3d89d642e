"""Two jobs in one directory, a corrected attempt, what a full disk lacks, and how a run ended."""

import os
from contextlib import suppress

import numpy as np
import pytest
from support.records import decoded

import stepscope as ss
from stepscope import store
from stepscope.errors import RecordError
from stepscope.events import EventWriter
from stepscope.record import endings, writer_loop
from stepscope.record.clock import Deadline
from stepscope.record.info import attempt_number, recording_too, renumber
from stepscope.record.problems import RefusalError
from stepscope.record.run import Run
from stepscope.record.summaries.snapshot import snapshot


def test_another_job_in_the_directory_is_named_as_long_as_it_records(tmp_path, monkeypatch):
    pid = os.getpid()
    with Run(tmp_path / "run") as run:
        assert recording_too(run.log_dir, run.role) is None, "it is this process itself"
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        assert recording_too(run.log_dir, run.role) == f"process {pid}"
        monkeypatch.setattr(os, "getpid", lambda: pid)
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert recording_too(run.log_dir, run.role) is None, "it has ended"
    assert recording_too(str(tmp_path / "none"), run.role) is None


def test_another_job_is_said_once_and_counted(fake, lenient, monkeypatch, time):
    run = fake()
    monkeypatch.setattr(writer_loop, "recording_too", lambda directory, role: "process 7")
    run.turn()
    assert run.problems == {}, "ranks may not know yet which they are"
    time.pass_(writer_loop.FIRST_OTHERS_SECS)
    run.turn()
    time.pass_(10 * writer_loop.OTHERS_SECS)
    run.turn()
    assert run.problems == {"overlap": 1}
    with pytest.warns(RuntimeWarning, match="process 7 of this machine records into this directory, too"):
        run.scalar("loss", 1.0, 0)


def test_a_signal_leaves_alone_how_a_run_ended_that_is_still_written(fake, infos, time):
    run = fake()
    run.scalar("loss", 1.0, 0)
    run._writer.ask_to_end("failed", "ValueError: diverged", Deadline.after(1.0, run.clock))
    run._writer.interrupt("SIGTERM", Deadline.after(1.0, run.clock))
    assert (run._info.status, run._info.reason) == ("failed", "ValueError: diverged")


@pytest.mark.parametrize("own_file", [True, False])
def test_the_number_of_an_attempt_is_corrected_where_others_look_for_it(tmp_path, own_file, infos):
    with Run(tmp_path, own_file=own_file, config={"text": '"attempt": 5, '}) as run:
        run.scalar("loss", 1.0, 0)
        run.flush()
        before = {path: path.stat().st_size for path in tmp_path.iterdir()}
        for path in before:
            renumber(path, 12)
        assert before == {path: path.stat().st_size for path in tmp_path.iterdir()}
        assert attempt_number(run.log_dir) == 13
    for path in tmp_path.iterdir():
        list(decoded(path.read_bytes()))  # every checksum is right


def test_values_that_are_not_in_the_file_are_counted(tmp_path, monkeypatch):
    writer = EventWriter(tmp_path)
    writer.flush()
    for step in range(10):
        writer.scalar("loss", 1.0, step, 5.0)
        writer.scalars([("a", 1.0), ("b", 2.0)], step, 5.0)
    assert writer.values_left == 30
    room = [writer.buffered_bytes // 2]
    write = writer._file.write

    class Full:
        closed = False

        def write(self, data):
            part, room[0] = bytes(data)[: room[0]], 0
            if not part:
                raise OSError(28, "No space left on device")
            return write(part)

    file, writer._file = writer._file, Full()
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    there = sum(len(event.values) for event in decoded(writer.path.read_bytes()[: writer.whole_bytes]))
    assert 0 < there < 30
    assert writer.values_left == 30 - there
    writer._file = file
    writer.close()
    assert writer.values_left == 0


@pytest.mark.parametrize(
    "value", [np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.masked_invalid([1.0, np.nan])]
)
def test_a_masked_array_is_refused_as_its_mask_would_be_lost(value):
    with pytest.raises(RefusalError, match="masked elements have no number"):
        snapshot(value)
    assert snapshot(np.ma.array([1.0, 2.0])).fetch().tolist() == [1.0, 2.0]


# --- which exception it was ---------------------------------------------------------------------------


def test_the_end_follows_the_exception():
    error = ValueError("diverged")
    assert endings.outcome(None) == ("finished", None)
    assert endings.outcome(error) == ("failed", "ValueError: diverged")
    assert endings.outcome(KeyboardInterrupt()) == ("stopped", "KeyboardInterrupt")
    for code, status in ((None, "finished"), (0, "finished"), (1, "failed"), ("text", "failed")):
        assert endings.outcome(SystemExit(code))[0] == status
    left = SystemExit(1)
    left.__context__ = error
    assert endings.outcome(left) == ("failed", "ValueError: diverged, then SystemExit: 1")
    left.__suppress_context__ = True
    assert endings.outcome(left) == ("failed", "SystemExit: 1")
    left.__cause__ = KeyboardInterrupt()
    assert endings.outcome(left) == ("stopped", "KeyboardInterrupt")


def test_causes_in_a_circle_end():
    one, other = RecordError("one"), SystemExit(1)
    one.__context__, other.__context__ = other, one
    assert endings.outcome(other)[0] == "failed"


class Seen:
    """Asks when it is collected whether an exception is let go of."""

    said: list[bool]

    def __init__(self, said):
        self.said = said

    def __del__(self):
        import sys

        self.said.append(endings.dropped(sys._getframe(1)))


def test_an_object_that_an_exception_held_knows_it():
    said = []

    def fails():
        seen = Seen(said)
        raise ValueError(seen.said)

    try:  # noqa: SIM105  the instruction at its end is what is tested
        fails()
    except ValueError:
        pass
    try:
        fails()
    except ValueError as error:
        str(error)
    assert said == [True, True]


def test_an_object_that_its_function_or_its_name_held_knows_it():
    said = []

    def returns():
        seen = Seen(said)
        return seen.said

    returns()
    seen = Seen(said)
    seen = None
    seen = Seen(said)
    del seen
    try:
        raise ValueError
    except ValueError:
        returns()
    assert said == [False] * 4


class _Odd(Exception):
    def __str__(self):
        raise RuntimeError


def _raised(error, cause=None):
    try:
        raise error from cause
    except BaseException as caught:  # noqa: BLE001  each kind is a case
        return caught


def _deep(left):
    if left:
        _deep(left - 1)
    {"password": "hunter2"}.pop("passwor")


@pytest.mark.parametrize(
    ("error", "within", "without"),
    [
        (lambda: _raised(ValueError("diverged")), ["in _raised", "ValueError: diverged"], []),
        (
            lambda: _raised(RuntimeError("no data"), _raised(OSError("gone"))),
            ["OSError: gone", "direct cause", "no data"],
            [],
        ),
        (lambda: _raised(ValueError("x" * 10**6)), ["in _raised", "x …"], ["x" * 2000]),
        (lambda: _raised(_Odd()), ["in _raised"], []),
        (lambda: _raised(SystemExit(3)), ["in _raised", "SystemExit: 3"], []),
        (lambda: _recursed(), ["in _deep", "KeyError"], ["hunter2"]),
        (lambda: _raised(ValueError("token sk-ant-api03-" + "a" * 40)), ["ValueError"], ["a" * 40]),
    ],
)
def test_the_stack_of_a_failure_is_kept(error, within, without):
    status, reason = endings.outcome(error())
    assert status == "failed"
    assert all(text in reason.stack for text in within), reason.stack
    assert not any(text in reason.stack for text in without), reason.stack
    assert len(reason.stack) <= endings.MAX_STACK


def _recursed():
    try:
        _deep(300)
    except KeyError as error:
        return error


@pytest.mark.parametrize("error", [None, ValueError("never raised"), KeyboardInterrupt(), SystemExit(0)])
def test_what_was_not_raised_has_no_stack(error):
    assert getattr(endings.outcome(error)[1], "stack", "") == ""


def test_a_run_records_the_stack_that_its_readers_show(tmp_path):
    with suppress(ValueError), Run(tmp_path / "logs" / "a") as run:
        run.scalar("loss", 1.0, 0)
        raise ValueError("diverged")
    with Run(tmp_path / "logs" / "b") as run:
        run.scalar("loss", 1.0, 0)
    log = store.open(tmp_path / "logs")
    assert 'raise ValueError("diverged")' in log.run("a").info.stack
    assert log.run("b").info.stack == ""
    [quote] = ss.ask("run", tmp_path / "logs", run="a").quotes
    assert quote.text == log.run("a").info.stack
    assert ss.ask("run", tmp_path / "logs", run="b").quotes == ()
