"""Results of rocprofv3 made by its documented schema: kernels, copies, calls, ranges, allocations."""

import json

import pytest
from support.rocprof import WHOLE, dispatch, process

import stepscope as ss
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.model import Kind


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
