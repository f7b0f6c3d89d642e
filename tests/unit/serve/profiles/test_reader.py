"""Profiles that are read in a process of their own."""

import gzip
import io
import json
import os
import signal
import threading

import numpy as np
import pytest
from support.waiting import until

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.serve.profiles.reader import ProfileReader
from stepscope.trace import load_trace, worker
from stepscope.trace.blocks import BLOCK_BYTES, Blocks
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
    first = reader.child.process.pid
    reader.read(profile, cache=False)
    assert reader.child.process.pid == first


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
    os.kill(reader.child.process.pid, signal.SIGKILL)
    reader.child.process.wait()
    assert len(reader.read(profile, cache=False)) == 100


def test_one_that_takes_too_long_is_given_up(profile):
    reader = ProfileReader(least_secs=0.0)
    with pytest.raises(TraceError, match="took more than 0 s"):
        reader.read(profile, cache=False)
    reader.least_secs = 120.0
    assert len(reader.read(profile, cache=False)) == 100
    reader.close()


@pytest.mark.slow
def test_one_that_takes_too_much_memory_is_refused(tmp_path, profile):
    """50 MB of pickle, 50 kB on disk, that make half a gigabyte."""
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(gzip.compress(b"\x80\x04](" + b"N" * 50_000_000 + b"e."))
    reader = ProfileReader(most_bytes=250 << 20)
    with pytest.raises(TraceError, match=r"memory|read it died"):
        reader.read(path, cache=False)
    assert len(reader.read(profile, cache=False)) == 100
    reader.close()


def test_after_the_end_nothing_is_started(profile):
    reader = ProfileReader()
    reader.close()
    with pytest.raises(TraceError, match="server ends"):
        reader.read(profile, cache=False)


def test_how_far_it_is_is_told_while_it_reads(profile, monkeypatch):
    reader, seen = ProfileReader(), []
    size = profile.stat().st_size

    class Stdout:
        lines = iter([b'{"read": 7}\n', b'{"read": 1000000000}\n', b"{}\n"])

        def readline(self):
            seen.append(reader.progress(profile))
            return next(self.lines)

    monkeypatch.setattr(reader.child, "pipes", lambda: (io.BytesIO(), Stdout()))
    assert reader.progress(profile) is None
    reader.ask(profile, {"kind": "trace"})
    assert [(one.state, one.read_bytes, one.total_bytes) for one in seen] == [
        ("reading", 0, size),
        ("reading", 7, size),
        ("reading", size, size),  # files beside it were read too
    ]
    assert reader.progress(profile) is None
    reader._rest.cancel()


def test_who_waits_for_another_profile_is_told_so(profile):
    reader = ProfileReader()
    with reader._turn:
        waits = threading.Thread(target=lambda: reader.read(profile, cache=False))
        waits.start()
        until(lambda: reader.progress(profile) is not None)
        assert reader.progress(profile).state == "waiting"
    waits.join()
    assert reader.progress(profile) is None
    reader.close()


def test_the_process_tells_bytes_of_a_file_as_they_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "TELL_SECS", 0.0)
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (3 * BLOCK_BYTES))
    told = io.BytesIO()
    with worker.Teller(told).progress(), Blocks(path) as blocks:
        assert sum(map(len, blocks)) == 3 * BLOCK_BYTES
    with Blocks(path) as blocks:
        list(blocks)  # nobody listens any more
    assert [json.loads(line)["read"] for line in told.getvalue().splitlines()] == [
        BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES
    ]  # fmt: skip
