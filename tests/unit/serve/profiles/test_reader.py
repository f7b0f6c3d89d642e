"""Profiles that are read in a process of their own."""

import gzip
import json
import os
import signal

import numpy as np
import pytest

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.serve.profiles.reader import ProfileReader
from stepscope.trace import load_trace
from stepscope.trace.model import COLUMNS


@pytest.fixture
def reader():
    reader = ProfileReader()
    yield reader
    reader.close()


@pytest.fixture
def profile(tmp_path):
    events = [{"ph": "X", "name": f"op {n}", "pid": 1, "tid": 2, "ts": n * 10, "dur": 5} for n in range(100)]
    path = tmp_path / "trace_rank3.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_what_it_reads_is_what_is_read_here(reader, profile):
    here, there = load_trace(profile, cache=False), reader.read(profile, cache=False)
    for name in COLUMNS:
        assert np.array_equal(getattr(here, name), getattr(there, name)), name
    assert list(here.strings) == list(there.strings)
    assert (here.sources, here.lanes, here.notes) == (there.sources, there.lanes, there.notes)


def test_one_process_reads_all(reader, profile):
    reader.read(profile, cache=False)
    first = reader._process.pid
    reader.read(profile, cache=False)
    assert reader._process.pid == first


def test_what_is_none_says_so(reader, tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(EmptyTraceError) as caught:
        reader.read(path, cache=False)
    assert caught.value.hint
    path.write_text("no")
    with pytest.raises(TraceError, match="not a profile"):
        reader.read(path, cache=False)


def test_a_file_that_kills_its_reader_fails_alone(reader, profile):
    reader.read(profile, cache=False)
    os.kill(reader._process.pid, signal.SIGKILL)
    reader._process.wait()
    assert len(reader.read(profile, cache=False)) == 100


def test_one_that_takes_too_long_is_given_up(profile):
    reader = ProfileReader(least_secs=0.0)
    with pytest.raises(TraceError, match="took more than 0 s"):
        reader.read(profile, cache=False)
    reader.least_secs = 120.0
    assert len(reader.read(profile, cache=False)) == 100
    reader.close()


def test_one_that_takes_too_much_memory_is_refused(tmp_path, profile):
    """50 MB of pickle, 50 kB on disk, that make half a gigabyte."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(gzip.compress(b"\x80\x04](" + b"N" * 50_000_000 + b"e."))
    reader = ProfileReader(most_bytes=250 << 20)
    with pytest.raises(TraceError, match=r"memory|ended its process"):
        reader.read(path, cache=False)
    assert len(reader.read(profile, cache=False)) == 100
    reader.close()


def test_after_the_end_nothing_is_started(profile):
    reader = ProfileReader()
    reader.close()
    with pytest.raises(TraceError, match="server ends"):
        reader.read(profile, cache=False)
