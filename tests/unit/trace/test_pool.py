"""Many profiles read by several processes: the same as by one, in order, and one bad file spoils no other."""

import json
import os
import signal
import threading

import pytest
from support.waiting import until

from stepscope import child
from stepscope.errors import TraceError
from stepscope.trace import pool
from stepscope.trace.load import load_file, load_files, load_trace


@pytest.fixture
def files(tmp_path):
    for rank in range(6):
        content = {
            "traceEvents": [
                {"ph": "X", "cat": "cpu_op", "name": f"op{rank}", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 5}
                for at in range(50 + rank)
            ],
            "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 6},
            "schemaVersion": 1,
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
    return sorted(tmp_path.glob("*.json"))


def test_the_same_in_the_same_order(files):
    for path, trace in zip(
        files, list(pool.read_many(load_file, files, cache=False, processes=3)), strict=True
    ):
        alone = load_file(path, cache=False)
        assert (len(trace), trace.ranks, trace.sources) == (len(alone), alone.ranks, alone.sources)
        assert (trace.start_ns == alone.start_ns).all()


def test_a_bad_file_is_told_and_the_others_are_read(files):
    files[2].write_text('{"traceEvents": [{"ph"')
    found = list(pool.read_many(load_file, files, cache=False, processes=2))
    assert [isinstance(each, TraceError) for each in found] == [path == files[2] for path in files]
    assert found[2].hint
    assert str(found[2].path) == str(files[2])


def test_a_process_that_dies_is_replaced(files, monkeypatch):
    started, start = [], child.start

    def fatal(*words, **more):
        process = start(*words, **more)
        started.append(process)
        if len(started) == 1:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        return process

    monkeypatch.setattr(child, "start", fatal)
    found = list(pool.read_many(load_file, files, cache=False, processes=2))
    (died,) = (each for each in found if isinstance(each, TraceError))
    assert died.message == "the process that read it died"
    assert len(found) == len(files)


def test_no_process_is_left_and_no_thread(files):
    reading = pool.read_many(load_file, files, cache=False, processes=2)
    next(reading)
    reading.close()
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("stepscope-spread")])


def test_caches_are_used_and_made(files, monkeypatch):
    monkeypatch.setattr(pool, "worth", lambda paths: len(paths) > 1)
    first = list(load_files(files))
    monkeypatch.setattr(pool, "read_many", None)
    again = list(load_files(files))
    assert [len(each) for each in again] == [len(each) for each in first] == [50 + rank for rank in range(6)]


def test_large_ones_are_read_by_several_but_not_where_memory_is_bounded(files, monkeypatch):
    monkeypatch.setattr(pool, "LEAST_BYTES", 1)
    monkeypatch.setattr(pool, "processors", lambda: 3)
    monkeypatch.setattr(pool, "data_bound", lambda: 0)
    assert pool.worth(files)
    assert not pool.worth(files[:3])
    monkeypatch.setattr(pool, "data_bound", lambda: 1 << 40)
    assert not pool.worth(files)


def test_few_or_small_files_are_read_here(files):
    assert not pool.worth(files)
    assert len(load_trace(files[0].parent, cache=False).ranks) == 6
