"""Flight-recorder dumps and memory snapshots: plain pickles, and hostile ones."""

import gzip
import json
import os
import pickle

import pytest

import stepscope as ss
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.model import Kind
from stepscope.trace.pickles import load_plain
from stepscope.trace.tables import CollectiveState, MemoryAction


def entry(name, created, **more):
    return {
        "record_id": 1,
        "pg_id": 5,
        "process_group": ("41", "TENSOR"),
        "collective_seq_id": 7,
        "p2p_seq_id": 0,
        "profiling_name": name,
        "time_created_ns": created,
        "input_sizes": [[4, 2]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[8, 2]],
        "output_dtypes": ["BFloat16"],
        "state": "scheduled",
        "is_p2p": False,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        **more,
    }


DUMP = {
    "version": "2.9",
    "nccl_version": "2.27.3",
    "pg_config": {"41": {"name": "41", "desc": "TENSOR", "ranks": "[2, 3]"}},
    "pg_status": {"5": {"last_enqueued_collective": 9}},
    "entries": [
        entry("nccl:_all_gather_base", 1_758_610_505_000_000_000),
        entry(
            "nccl:send 0->3",
            1_758_610_505_000_000_500,
            is_p2p=True,
            p2p_seq_id=4,
            frames=[
                {"filename": "b.py", "line": 2, "name": "g"},
                {"filename": "a.py", "line": 1, "name": "f"},
            ],
        ),
        entry(
            "nccl:all_reduce",
            1_758_610_505_000_001_000,
            state="completed",
            time_discovered_started_ns=1_758_610_505_000_002_000,
            time_discovered_completed_ns=1_758_610_505_000_009_000,
        ),
    ],
}


def write(tmp_path, content, name="dump.pkl", protocol=4):
    path = tmp_path / name
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 4, 5, "json"])
def test_flight_recorder(tmp_path, protocol):
    if protocol == "json":
        path = tmp_path / "dump_12"
        path.write_text(json.dumps(DUMP))
    else:
        path = write(tmp_path, DUMP, "_dump_12", protocol)
    trace = ss.load_trace(path, cache=False)
    assert (trace.format, trace.ranks, trace.clock) == ("flight_recorder", (12,), "unix")
    table = trace.collectives
    assert [trace.strings[int(n)] for n in table.operation] == ["all_gather", "send", "all_reduce"]
    assert table.bytes.tolist() == [32, 16, 16]
    assert table.sequence.tolist() == [7, 4, 7]
    assert table.state.tolist() == [
        CollectiveState.SCHEDULED,
        CollectiveState.SCHEDULED,
        CollectiveState.COMPLETED,
    ]
    assert table.group_size.tolist() == [2, 2, 2]
    assert table.peer.tolist() == [-1, 3, -1]
    assert table.created_ns.tolist() == [0, 500, 1000]
    assert trace.start_ns.tolist() == [0, 500, 2000]
    assert trace.duration_ns.tolist() == [0, 0, 7000]
    assert [Kind(kind).name for kind in trace.kind] == ["COLLECTIVE", "SEND_RECV", "COLLECTIVE"]
    assert trace.stacks.parts(int(trace.stack[1])) == ["a.py(1): f", "b.py(2): g"]
    assert trace.sources[0].facts["pg_status"]["5"] == {"last_enqueued_collective": 9}
    assert "2 of 3 collectives had not finished" in trace.notes[0]
    assert trace.process_groups[0].ranks == (2, 3)


def test_a_dump_without_collectives_is_still_a_rank(tmp_path):
    trace = ss.load_trace(write(tmp_path, {**DUMP, "entries": []}), cache=False)
    assert len(trace) == 0
    assert "no collectives" in trace.notes[0]
    assert "timeline" in trace.not_recorded


FRAME = {"filename": "net.py", "line": 3, "name": "forward"}
OUTER = {"filename": "train.py", "line": 9, "name": "<module>"}
SNAPSHOT = {
    "segments": [
        {
            "device": 0,
            "address": 1000,
            "total_size": 500,
            "allocated_size": 150,
            "stream": 0,
            "blocks": [
                {"size": 150, "state": "active_allocated", "frames": [FRAME, OUTER]},
                {"size": 350, "state": "inactive"},
            ],
        }
    ],
    "device_traces": [
        [
            {
                "action": "segment_alloc",
                "addr": 1000,
                "size": 500,
                "time_us": 1_700_000_000_000_000,
                "frames": [],
            },
            {
                "action": "alloc",
                "addr": 1000,
                "size": 100,
                "time_us": 1_700_000_000_000_005,
                "frames": [FRAME, OUTER],
            },
            {
                "action": "free_requested",
                "addr": 1000,
                "size": 100,
                "time_us": 1_700_000_000_000_007,
                "frames": [],
            },
            {
                "action": "free_completed",
                "addr": 1000,
                "size": 100,
                "time_us": 1_700_000_000_000_008,
                "frames": [],
            },
            {"action": "oom", "addr": 0, "size": 900, "time_us": 1_700_000_000_000_009, "frames": []},
        ]
    ],
    "allocator_settings": {"expandable_segments": False},
}


@pytest.mark.parametrize("protocol", [4, 5])
def test_memory_snapshot(tmp_path, protocol):
    trace = ss.load_trace(write(tmp_path, SNAPSHOT, "snapshot.pickle", protocol), cache=False)
    memory = trace.memory
    assert (trace.format, len(trace), trace.clock) == ("memory_snapshot", 0, "unix")
    assert [MemoryAction(action).name for action in memory.action] == [
        "SEGMENT_ALLOCATE", "ALLOCATE", "FREE_REQUESTED", "FREE", "OUT_OF_MEMORY",
    ]  # fmt: skip
    assert memory.bytes.tolist() == [500, 100, 0, -100, 0]
    # 150 bytes were in use at the end, so 150 were before the history began.
    assert memory.allocated_bytes.tolist() == [150, 250, 250, 150, 150]
    assert memory.reserved_bytes.tolist() == [500] * 5
    assert memory.time_ns.tolist() == [0, 5000, 7000, 8000, 9000]
    assert trace.stacks.parts(int(memory.stack[1])) == ["train.py(9): <module>", "net.py(3): forward"]
    with pytest.raises(EmptyTraceError, match="cannot tell where time goes") as caught:
        trace.require("timeline", "where time goes")
    assert "a memory snapshot holds allocations and no timeline" in caught.value.hint


def test_a_snapshot_without_history_gives_what_is_alive(tmp_path):
    trace = ss.load_trace(write(tmp_path, {**SNAPSHOT, "device_traces": [[]]}), cache=False)
    assert [MemoryAction(action).name for action in trace.memory.action] == ["SNAPSHOT"]
    assert (trace.memory.bytes.tolist(), trace.memory.address.tolist()) == ([150], [1000])


def test_an_empty_snapshot(tmp_path):
    with pytest.raises(EmptyTraceError, match="snapshot is empty"):
        ss.load_trace(write(tmp_path, {"segments": [], "device_traces": []}), cache=False)


class Hostile:
    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.remove, (str(self.victim),)


@pytest.mark.parametrize("protocol", [2, 5])
def test_a_hostile_pickle_runs_nothing(tmp_path, protocol):
    victim = tmp_path / "victim"
    victim.write_text("alive")
    path = write(tmp_path, {"entries": [Hostile(victim)]}, protocol=protocol)
    with pytest.raises(TraceError, match=r"refused to read the pickle: it asks for \w+\.remove"):
        ss.load_trace(path, cache=False)
    assert victim.read_text() == "alive"


@pytest.mark.parametrize("protocol", [2, 5])
def test_a_cut_pickle(tmp_path, protocol):
    data = pickle.dumps(DUMP, protocol=protocol)
    path = tmp_path / "cut.pkl"
    for cut in range(2, len(data) - 1, 97):
        path.write_bytes(data[:cut])
        with pytest.raises(TraceError, match=r"damaged or cut short|refused to read"):
            ss.load_trace(path, cache=False)


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, 5, {"entries": "x"}, {"device_traces": [[{"x": 1}]]}])
def test_a_pickle_of_something_else(tmp_path, content):
    with pytest.raises(TraceError):
        ss.load_trace(write(tmp_path, content), cache=False)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr\xff\xff\xff\x1f.",  # a place in the memo of 4 GB
        b"\x80\x05\x8e\xff\xff\xff\xff\0\0\0\0.",  # bytes
        b"\x80\x05\x96\0\0\0\0\1\0\0\0.",  # a byte array
        b"\x80\x02Np99999999999\n.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",  # a frame
    ],
)
def test_a_pickle_that_asks_for_more_than_it_holds(tmp_path, data):
    path = tmp_path / "dump.pkl"
    path.write_bytes(data)
    with pytest.raises(TraceError, match="bytes of the file can hold"):
        ss.load_trace(path, cache=False)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_what_python_writes_is_not_refused(tmp_path, protocol):
    more = [None, True, -1, 2**70, 1.5, "\u00e4" * 300, "x" * 300, (1,), {"a": {}}]
    content = {"entries": [], "more": more}
    assert load_plain(write(tmp_path, content, protocol=protocol)) == content


def test_a_pickle_that_inflates_beyond_reason(tmp_path):
    path = tmp_path / "dump.pkl"
    path.write_bytes(gzip.compress(pickle.dumps({"entries": [], "x": b"\0" * (100 << 20)})))
    with pytest.raises(TraceError, match="inflates"):
        ss.load_trace(path, cache=False)
