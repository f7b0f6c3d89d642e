"""PyTorch traces: what each version of the profiler writes, and what it gets wrong."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.errors import raises

import stepscope as ss
from stepscope.trace.model import Kind

X = {"ph": "X", "pid": 100, "tid": 100}


def op(name, ts, dur, **args):
    return {**X, "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "args": args}


def call(ts, dur, correlation, name="cudaLaunchKernel"):
    return {
        **X,
        "cat": "cuda_runtime",
        "name": name,
        "ts": ts,
        "dur": dur,
        "args": {"correlation": correlation},
    }


def kernel(ts, dur, correlation, name="gemm", cat="kernel", **args):
    return {
        "ph": "X", "cat": cat, "pid": 0, "tid": 7, "name": name, "ts": ts, "dur": dur,
        "args": {"device": 0, "stream": 7, "correlation": correlation, **args},
    }  # fmt: skip


@pytest.fixture
def load(tmp_path):
    def write(events, **metadata):
        path = tmp_path / "trace.json"
        top = {
            "schemaVersion": 1,
            "deviceProperties": [
                {
                    "id": 0,
                    "name": "A100",
                    "numSms": 108,
                    "computeMajor": 8,
                    "computeMinor": 0,
                    "totalGlobalMem": 5,
                }
            ],
            **metadata,
        }
        path.write_text(json.dumps({**top, "traceEvents": events}))
        return ss.load_trace(path, cache=False)

    return write


def names(trace, kind):
    return [trace.name_of(row) for row in trace.of_kind(kind)]


def test_kinds_lanes_and_links(load):
    trace = load(
        [
            op("aten::mm", 10, 20),
            call(12, 3, 5),
            kernel(
                40,
                8,
                5,
                grid=[4, 2, 1],
                block=[32, 4, 1],
                **{
                    "registers per thread": 16,
                    "shared memory": 64,
                    "est. achieved occupancy %": 50,
                    "blocks per SM": 1.5,
                    "warps per SM": 12,
                },
            ),
            kernel(50, 2, 6, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", bytes=4096),
            {**X, "cat": "python_function", "name": "nn.Module: Linear_0", "ts": 9, "dur": 30},
            {**X, "cat": "python_function", "name": "a.py(1): f", "ts": 8, "dur": 40},
            {**X, "cat": "user_annotation", "name": "ProfilerStep#12", "ts": 5, "dur": 50},
            {**X, "cat": "user_annotation", "name": "enumerate(DataLoader)#_X.__next__", "ts": 6, "dur": 1},
            {**X, "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0, "ts": 6, "dur": 1},
            {
                "ph": "X",
                "cat": "gpu_user_annotation",
                "name": "fwd",
                "pid": 0,
                "tid": 7,
                "ts": 39.999,
                "dur": 8.002,
            },
            {
                "ph": "X",
                "cat": "Trace",
                "name": "PyTorch Profiler (0)",
                "pid": "Spans",
                "tid": "x",
                "ts": 1,
                "dur": 99,
            },
        ]
    )
    assert names(trace, Kind.KERNEL) == ["gemm"]
    assert names(trace, Kind.MODULE_SCOPE) == ["nn.Module: Linear_0"]
    assert names(trace, Kind.DATA_LOADING) == ["enumerate(DataLoader)#_X.__next__"]
    assert trace.steps.number.tolist() == [12]
    assert [(lane.process, lane.thread, lane.device, lane.stream) for lane in trace.lanes] == [
        ("process -1", "thread 0", -1, -1),
        ("process 100", "thread 100", -1, -1),
        ("GPU 0", "stream 7", 0, 7),
        ("GPU 0", "stream 7 (annotations)", 0, 7),
    ]
    gemm = int(trace.named("gemm")[0])
    assert trace.name_of(int(trace.launch[gemm])) == "cudaLaunchKernel"
    assert trace.scopes.text(int(trace.scope[gemm])) == "nn.Module: Linear_0"
    assert trace.stacks.text(int(trace.stack[gemm])) == "a.py(1): f"
    assert trace.depth[gemm] == 0  # annotations that begin 1 ns early have a lane of their own
    copy = int(trace.of_kind(Kind.MEMCPY)[0])
    assert trace.bytes[copy] == 4096
    assert trace.launch[copy] == -1
    table = trace.kernels
    assert (table.grid.tolist(), table.block.tolist(), table.registers.tolist()) == ([8], [128], [16])
    assert (table.occupancy.tolist(), table.warps_per_sm.tolist()) == ([0.5], [12.0])
    [device] = trace.devices
    assert (device.name, device.multiprocessors, device.capability) == ("A100", 108, "8.0")
    assert trace.sources[0].facts["recorded_window_ns"] == [1000, 99000]


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("rank", [3, "3"])
@pytest.mark.parametrize("ranks", [[0, 3], "[0, 3]"])
def test_ranks_wherever_and_however_they_stand(tmp_path, place, rank, ranks):
    info = {
        "rank": rank,
        "world_size": 4,
        "backend": "nccl",
        "pg_config": [
            {"pg_name": "1", "pg_desc": "dp", "pg_size": 2, "ranks": ranks, "backend_config": "cuda:nccl"}
        ],
    }
    top = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [op("a", 1, 1)]}
    top = {"distributedInfo": info, **top} if place == "before" else {**top, "distributedInfo": info}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(top))
    trace = ss.load_trace(path, cache=False)
    assert trace.ranks == (3,)
    assert trace.rank.tolist() == [3]
    assert trace.sources[0].world_size == 4
    [group] = trace.process_groups
    assert (group.name, group.description, group.ranks, group.size) == ("1", "dp", (0, 3), 2)


def test_torch_1_8(load):
    """Other categories, ids of threads in quotes and not, stacks as text, no device in memory events."""
    thread = {"ph": "X", "pid": 9, "tid": "9", "cat": "Operator"}
    trace = load(
        [
            {**thread, "name": "ProfilerStep#1", "ts": 0, "dur": 100, "args": {}},
            {
                **thread,
                "name": "aten::conv",
                "ts": 10,
                "dur": 50,
                "args": {"external id": 4, "Input dims": [[1]], "Call stack": "b.py(2): g;a.py(1): f"},
            },
            {
                **thread,
                "name": "cudaLaunchKernel",
                "cat": "Runtime",
                "ts": 20,
                "dur": 5,
                "args": {"correlation": 77},
            },
            {
                "ph": "X",
                "cat": "Kernel",
                "name": "conv",
                "pid": 0,
                "tid": "stream 7",
                "ts": 70,
                "dur": 9,
                "args": {"device": 0, "stream": 7, "correlation": 77, "external id": 4},
            },
            {
                "ph": "i",
                "s": "t",
                "name": "[memory]",
                "pid": 9,
                "tid": 9,
                "ts": 15,
                "args": {"Device Type": 0, "Device Id": -1, "Bytes": 64},
            },
            {"ph": "s", "id": 77, "pid": 9, "tid": 9, "ts": 20, "cat": "async", "name": "launch"},
            {
                "ph": "f",
                "id": 77,
                "pid": 0,
                "tid": "stream 7",
                "ts": 70,
                "cat": "async",
                "name": "launch",
                "bp": "e",
            },
        ]
    )
    assert len(trace.lanes) == 2
    conv = int(trace.named("conv")[0])
    assert trace.name_of(int(trace.launch[conv])) == "cudaLaunchKernel"
    assert trace.stacks.parts(int(trace.stack[conv])) == ["a.py(1): f", "b.py(2): g"]
    assert trace.step[conv] == 1
    assert trace.memory.bytes.tolist() == [64]
    assert trace.memory.device.tolist() == [-1]
    assert trace.memory.allocated_bytes.tolist() == [-1]
    assert trace.name_of(int(trace.memory.row[0])) == "aten::conv"
    assert len(trace.flows) == 0
    assert trace.resolution_ns == 1000


def test_memory_events(load):
    args = {
        "Device Type": 1,
        "Device Id": 1,
        "Addr": 2**63 + 5,
        "Bytes": -8,
        "Total Allocated": 7,
        "Total Reserved": 9,
    }
    mark = {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 100,
        "tid": 100,
        "ts": 11,
    }
    trace = load(
        [op("aten::empty", 10, 5), {**mark, "args": args}, {**mark, "name": "other mark", "args": {}}]
    )
    memory = trace.memory
    assert (memory.device.tolist(), memory.bytes.tolist(), memory.action.tolist()) == ([1], [-8], [1])
    assert (memory.address.tolist(), memory.allocated_bytes.tolist()) == ([2**63 + 5], [7])
    assert [trace.strings[int(n)] for n in trace.marks.name] == ["other mark"]


@pytest.mark.parametrize(("device", "reserved", "read"), [(0, 0, -1), (0, 9, 9), (1, 0, 0), (1, 9, 9)])
def test_an_allocator_of_the_host_that_writes_0_reserves_nothing_that_was_recorded(
    load, device, reserved, read
):
    args = {"Device Type": device, "Device Id": device - 1, "Bytes": 8, "Total Reserved": reserved}
    mark = {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 100, "ts": 11, "args": args}
    assert load([op("aten::empty", 10, 5), mark]).memory.reserved_bytes.tolist() == [read]


def test_collectives(load):
    nccl = {
        "Collective name": "_allgather_base",
        "In msg nelems": 100,
        "Out msg nelems": 800,
        "Group size": 8,
        "dtype": "BFloat16",
        "Process Group Name": "3",
        "Seq": 41,
        "Comms Id": 99999999999999999999999,
    }
    annotation = {
        **X,
        "cat": "user_annotation",
        "name": "nccl:all_to_all",
        "ts": 100,
        "dur": 20,
        "args": {"Input Dims": [[4, 2]], "Input type": ["float"]},
    }
    trace = load(
        [
            op("x", 0, 5),
            call(1, 1, 1),
            kernel(50, 8, 1, "ncclDevKernel_AllGather_RING_LL(x)", **nccl),
            annotation,
            call(101, 1, 2),
            kernel(130, 5, 2, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)"),
            kernel(140, 5, 3, "ncclDevKernel_SendRecv(x)"),
            kernel(150, 5, 4, "hipify_me", "kernel"),
            kernel(
                160,
                5,
                9,
                "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>(c10::BFloat16*)",
            ),
        ]
    )
    table = trace.collectives
    found = [
        (trace.strings[int(o)], Kind(trace.kind[r]).name, int(b), int(s), int(g))
        for o, r, b, s, g in zip(
            table.operation, table.row, table.bytes, table.sequence, table.group_size, strict=True
        )
    ]
    assert found == [
        ("all_gather", "COLLECTIVE", 1600, 41, 8),
        ("all_to_all", "COLLECTIVE", 32, -1, -1),
        ("send_recv", "SEND_RECV", -1, -1, -1),
        ("all_reduce", "COLLECTIVE", -1, -1, -1),
    ]
    assert trace.bytes[table.row[:2]].tolist() == [1600, 32]
    assert names(trace, Kind.KERNEL) == ["hipify_me"]  # a name that begins with hip does not communicate


def test_syncs_have_a_lane_of_their_own(load):
    sync = {
        "cuda_sync_kind": "Stream Wait Event",
        "wait_on_stream": 20,
        "wait_on_cuda_event_record_corr_id": 5,
        "wait_on_cuda_event_id": 2,
    }
    whole = {"cuda_sync_kind": "Context Sync", "stream": 2**32 - 1}
    trace = load(
        [
            kernel(1, 9, 1),
            kernel(2, 3, 8, "Stream Wait Event", "cuda_sync", **sync),
            {**kernel(3, 3, 9, "Context Sync", "cuda_sync", **whole), "tid": 2**32 - 1},
        ]
    )
    assert [lane.thread for lane in trace.lanes] == ["all streams (sync)", "stream 7", "stream 7 (sync)"]
    table = trace.syncs
    assert [trace.strings[int(n)] for n in table.what] == ["Context Sync", "Stream Wait Event"]
    assert (table.stream.tolist(), table.wait_stream.tolist()) == ([-1, 7], [-1, 20])
    assert (table.wait_correlation.tolist(), table.event.tolist()) == ([-1, 5], [-1, 2])


def test_absolute_and_relative_clocks(load):
    trace = load([op("a", 5.25, 1)], baseTimeNanoseconds=1_700_000_000_000_000_000)
    assert (trace.clock, trace.origin_ns, trace.start_ns.tolist()) == ("unix", 1_700_000_000_000_005_250, [0])
    trace = load([op("a", 1669783687464181, 45), op("b", 1669783687464190, 1)])
    assert (trace.clock, trace.origin_ns) == ("unix", 1669783687464181000)
    assert trace.start_ns.tolist() == [0, 9000]
    assert load([op("a", 5, 1)]).clock == "relative"


def test_no_duration_and_no_time(load):
    without = op("a", 5, 1)
    del without["dur"]
    untimed = op("b", 5, 1)
    del untimed["ts"]
    trace = load([without, untimed, op("c", 6, 1)])
    assert [trace.name_of(row) for row in range(len(trace))] == ["a", "c"]
    assert trace.dropped == {"missing_durations": 1, "events_without_time": 1}


def test_what_to_record_for_what_is_missing(load):
    trace = load([op("a", 5, 1)])
    assert "with_stack" in trace.not_recorded["stacks"]
    assert "record_shapes" in trace.not_recorded["shapes"]
    with raises(ss.StepscopeError, match="cannot tell what the GPU did", hint_has="ProfilerActivity.CUDA"):
        trace.require("device", "what the GPU did")


TRAIN = """
import json, sys, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
) as profiler:
    for step in range(2):
        with torch.profiler.record_function(f"ProfilerStep#{step}"):
            model(torch.randn(4, 8)).sum().backward()
print(json.dumps([e.time_range.elapsed_us() for e in profiler.events() if e.name == "aten::addmm"]))
profiler.export_chrome_trace(sys.argv[1])
"""


@pytest.mark.slow
def test_real_torch(tmp_path):
    """A trace of the torch that is installed, against the profiler's own events."""
    pytest.importorskip("torch")
    path = tmp_path / "trace.json.gz"
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:  # nothing of ours runs there; names of its events are sometimes freed too early
        pytest.skip(f"torch's own profiler failed with {done.returncode}: {done.stderr[-200:]}")
    expected = json.loads(done.stdout.splitlines()[-1])
    trace = ss.load_trace(path, cache=False)
    rows = trace.named("aten::addmm")
    assert len(rows) == len(expected) == 2
    assert np.allclose(trace.duration_ns[rows] / 1000, expected, atol=0.01)
    assert trace.steps.number.tolist() == [0, 1]
    assert {"backward", "modules", "stacks", "shapes", "memory", "steps"} <= trace.recorded
    linear = trace.scopes.text(int(trace.scope[rows[0]]))
    assert linear == "nn.Module: Sequential_0/nn.Module: Linear_0"
    backward = trace.named("AddmmBackward0")
    assert [trace.scopes.text(int(n)) for n in trace.scope[backward]] == [linear] * 2
    assert [trace.name_of(int(n)) for n in trace.forward[backward]] == ["aten::addmm"] * 2
