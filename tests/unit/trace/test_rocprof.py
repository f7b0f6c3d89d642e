"""Results of rocprofv3 made by its documented schema: kernels, copies, calls, ranges, allocations."""

import json

import pytest

import stepscope as ss
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.model import Kind

KINDS = ["NONE", "HIP_RUNTIME_API", "KERNEL_DISPATCH", "MEMORY_COPY", "MARKER_CORE_API", "MEMORY_ALLOCATION"]


def record(kind, operation, start, end, correlation=0, **more):
    return {
        "size": 64, "kind": KINDS.index(kind), "operation": operation, "thread_id": 77,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start, "end_timestamp": end, **more,
    }  # fmt: skip


def dispatch(kernel, start, end, correlation, agent=20, stream=3):
    info = {
        "agent_id": {"handle": agent}, "queue_id": {"handle": 9}, "kernel_id": kernel, "dispatch_id": 1,
        "group_segment_size": 512, "workgroup_size": {"x": 64, "y": 1, "z": 1},
        "grid_size": {"x": 1024, "y": 2, "z": 1},
    }  # fmt: skip
    return record(
        "KERNEL_DISPATCH", 0, start, end, correlation, dispatch_info=info, stream_id={"handle": stream}
    )


def process(**records):
    operations = {
        "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync"],
        "MEMORY_COPY": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"],
        "MARKER_CORE_API": ["roctxRangePushA"],
        "MEMORY_ALLOCATION": ["NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE"],
    }
    return {
        "metadata": {"pid": 5, "command": ["train"], "node": {"hostname": "tw7"}},
        "agents": [
            {"id": {"handle": 10}, "type": 1, "node_id": 0, "name": "EPYC"},
            {
                "id": {"handle": 30},
                "type": 2,
                "node_id": 2,
                "product_name": "AMD Instinct MI300X",
                "cu_count": 304,
            },
            {
                "id": {"handle": 20},
                "type": 2,
                "node_id": 1,
                "product_name": "AMD Instinct MI300X",
                "cu_count": 304,
            },
        ],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": operations.get(kind, [])} for kind in KINDS],
            "marker_api": [{"key": 4, "value": "forward"}],
        },
        "kernel_symbols": [
            {"kernel_id": 1, "kernel_name": "_Z4gemm.kd", "formatted_kernel_name": "gemm(float*)"},
            {"kernel_id": 2, "kernel_name": "ncclDevKernel_AllReduce_Sum_f32.kd"},
            {"kernel_id": 3, "kernel_name": "__amd_rocclr_copyBuffer.kd"},
        ],
        "buffer_records": records,
    }


HOST, GPU = {"handle": 10}, {"handle": 20}


def allocation(operation, start, address, size):
    return record(
        "MEMORY_ALLOCATION",
        operation,
        start,
        start + 10,
        5,
        agent_id=GPU,
        address=address,
        allocation_size=size,
    )


WHOLE = {
    "hip_api": [record("HIP_RUNTIME_API", 0, 1000, 1500, 1), record("HIP_RUNTIME_API", 1, 1600, 1900, 2)],
    "marker_api": [record("MARKER_CORE_API", 0, 900, 5000, 4)],
    "kernel_dispatch": [
        dispatch(1, 2000, 3000, 1),
        dispatch(2, 3000, 3500, 0, agent=30),
        dispatch(3, 4000, 4100, 0),
    ],
    "memory_copy": [record("MEMORY_COPY", 1, 2500, 2900, 2, bytes=4096, src_agent_id=HOST, dst_agent_id=GPU)],
    "memory_allocation": [
        allocation(1, 950, "0x7f00", 640),
        allocation(2, 5100, "0x7f00", 0),
        allocation(2, 5200, "0x9900", 0),
    ],
    "scratch_memory": [{"kind": 9}],
}


def load(tmp_path, *processes, name="908_results.json"):
    path = tmp_path / name
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return ss.load_trace(path, cache=False)


def test_a_result_has_kernels_copies_calls_and_ranges(tmp_path):
    trace = load(tmp_path, process(**WHOLE))
    shown = {
        trace.name_of(row): (
            Kind(trace.kind[row]).name,
            *(int(column[row]) for column in (trace.device, trace.start_ns, trace.duration_ns)),
        )
        for row in range(len(trace))
    }  # fmt: skip
    assert trace.format == "rocprof"
    assert shown == {
        "forward": ("ANNOTATION", -1, 0, 4100),
        "hipLaunchKernel": ("RUNTIME_CALL", -1, 100, 500),
        "hipMemcpyAsync": ("RUNTIME_CALL", -1, 700, 300),
        "gemm(float*)": ("KERNEL", 0, 1100, 1000),
        "ncclDevKernel_AllReduce_Sum_f32.kd": ("COLLECTIVE", 1, 2100, 500),
        "__amd_rocclr_copyBuffer.kd": ("MEMCPY", 0, 3100, 100),
        "copy host to device": ("MEMCPY", 0, 1600, 400),
    }


def test_work_is_joined_to_the_call_that_launched_it(tmp_path):
    trace = load(tmp_path, process(**WHOLE))
    launched = {trace.name_of(row): int(trace.launch[row]) for row in trace.device_work().tolist()}
    assert trace.name_of(launched["gemm(float*)"]) == "hipLaunchKernel"
    assert trace.name_of(launched["copy host to device"]) == "hipMemcpyAsync"
    assert launched["ncclDevKernel_AllReduce_Sum_f32.kd"] == -1
    assert int(trace.bytes[trace.named("copy host to device")[0]]) == 4096


def test_grids_count_blocks_and_devices_stand_in_the_order_of_their_nodes(tmp_path):
    trace = load(tmp_path, process(**WHOLE))
    at = trace.kernels.row.tolist().index(int(trace.named("gemm(float*)")[0]))
    assert (int(trace.kernels.grid[at]), int(trace.kernels.block[at])) == (32, 64)
    assert [(device.index, device.name, device.multiprocessors) for device in trace.devices] == [
        (0, "AMD Instinct MI300X", 304),
        (1, "AMD Instinct MI300X", 304),
    ]
    assert [trace.strings[n] for n in trace.collectives.operation.tolist()] == ["all_reduce"]


def test_a_free_is_of_the_size_that_was_allocated_there(tmp_path):
    trace = load(tmp_path, process(**WHOLE))
    assert trace.memory.bytes.tolist() == [640, -640]
    assert trace.dropped == {"frees_of_unknown_size": 1, "scratch_memory_records": 1}


def test_each_process_is_a_rank(tmp_path):
    assert load(tmp_path, process(**WHOLE), process(**WHOLE)).ranks == (0, 1)


def test_nothing_recorded_is_said(tmp_path):
    with pytest.raises(EmptyTraceError, match="no record of a kernel, copy or call"):
        load(tmp_path, process())


@pytest.mark.parametrize("text", ['{"rocprofiler-sdk-tool": [', '{"rocprofiler-sdk-tool": 3}'])
def test_a_damaged_result_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(TraceError, match="not a result of rocprofv3"):
        ss.load_trace(path, cache=False)


def test_a_record_without_time_is_dropped_and_counted(tmp_path):
    trace = load(tmp_path, process(kernel_dispatch=[dispatch(1, 0, 0, 1), dispatch(1, 50, 60, 1)]))
    assert (len(trace), trace.dropped) == (1, {"records_without_time": 1})
