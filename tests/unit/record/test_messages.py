"""Texts for the user never wait for a reader."""

import contextlib
import fcntl
import io
import logging
import os
import sys
import warnings

import pytest

from stepscope.errors import RecordError
from stepscope.record import messages
from stepscope.record.hooks.progress import LoggingHook, writer
from stepscope.record.problems import Problems
from stepscope.record.run import Run


@pytest.fixture
def pipe(monkeypatch):
    """A pipe in place of standard error; ``fill`` fills it and ``drain`` reads it."""
    end, start = os.pipe()

    class Pipe:
        stream = os.fdopen(start, "w", buffering=1)

        def fill(self) -> None:
            flags = fcntl.fcntl(start, fcntl.F_GETFL)
            fcntl.fcntl(start, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(start, b"x" * 4096)
            fcntl.fcntl(start, fcntl.F_SETFL, flags)

        def drain(self) -> str:
            flags = fcntl.fcntl(end, fcntl.F_GETFL)
            fcntl.fcntl(end, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            found = b""
            with contextlib.suppress(BlockingIOError):
                while data := os.read(end, 1 << 16):
                    found += data
            return found.decode().replace("x" * 4096, "")

        def replace_stderr(self) -> None:  # in a test, as pytest replaces it after the fixtures were made
            monkeypatch.setattr(sys, "stderr", self.stream)

    made = Pipe()
    yield made
    made.drain()
    made.stream.close()
    os.close(end)


def test_a_full_pipe_takes_nothing_until_it_is_read(pipe):
    pipe.replace_stderr()
    assert messages.write("first")
    pipe.fill()
    assert not messages.ready()
    assert not messages.write("second")
    assert pipe.drain() == "first\n"
    assert messages.write("third")
    assert pipe.drain() == "third\n"


def test_streams_that_hold_nobody_up_are_ready(tmp_path):
    with (tmp_path / "log").open("w") as file:
        assert messages.ready(file)
    with open(os.devnull, "w") as file:  # noqa: PTH123
        assert messages.ready(file)
    assert messages.ready(io.StringIO())


def test_a_long_text_fits_into_what_a_pipe_takes_at_once(pipe):
    pipe.replace_stderr()
    assert messages.write("ä" * 100_000)
    found = pipe.drain()
    assert len(found.encode()) <= 4_096
    assert found.endswith(" …\n")
    assert messages.shortened("short") == "short"


def test_a_warning_waits_for_a_reader_and_is_counted_meanwhile(pipe, lenient):
    pipe.replace_stderr()
    problems = Problems()
    pipe.fill()
    with warnings.catch_warnings(record=True) as made:
        warnings.simplefilter("always")
        problems.tell("value", RecordError("no number"))
        problems.deliver()
        assert not made
        assert problems.counts == {"value": 1}
        pipe.drain()
        problems.deliver()
    assert "no number" in str(made[0].message)


def test_lines_of_the_logging_hook_are_left_out_and_said_later(pipe, tmp_path):
    pipe.replace_stderr()
    hook = LoggingHook(every_n_steps=1, at_end=False)
    with Run(tmp_path / "run", hooks=[hook]) as run:
        pipe.fill()
        for _ in run.steps(range(3)):
            run.scalar("loss", 1.0)
        run.flush()
        pipe.drain()
        for _ in run.steps(range(1)):
            run.scalar("loss", 1.0)
    found = pipe.drain()
    assert "3 lines were left out: nobody read them\nstep 4/" in found


def test_a_logger_with_a_full_pipe_is_left_alone(pipe):
    logger = logging.Logger("own")
    logger.addHandler(logging.StreamHandler(pipe.stream))
    write = writer(logger)
    pipe.fill()
    assert write("unread") is False
    pipe.drain()
    assert write("read %s") is True
    assert pipe.drain() == "read %s\n"
