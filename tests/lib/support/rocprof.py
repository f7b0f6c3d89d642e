"""Results of rocprofv3 by its documented schema: kernels, copies, calls, ranges, allocations."""

from typing import Any

KINDS = ["NONE", "HIP_RUNTIME_API", "KERNEL_DISPATCH", "MEMORY_COPY", "MARKER_CORE_API", "MEMORY_ALLOCATION"]


def record(
    kind: str, operation: int, start: int, end: int, correlation: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "size": 64, "kind": KINDS.index(kind), "operation": operation, "thread_id": 77,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start, "end_timestamp": end, **more,
    }  # fmt: skip


def dispatch(kernel: int, start: int, end: int, correlation: int, agent: int = 20) -> dict[str, Any]:
    info = {
        "agent_id": {"handle": agent}, "queue_id": {"handle": 9}, "kernel_id": kernel, "dispatch_id": 1,
        "group_segment_size": 512, "workgroup_size": {"x": 64, "y": 1, "z": 1},
        "grid_size": {"x": 1024, "y": 2, "z": 1},
    }  # fmt: skip
    return record("KERNEL_DISPATCH", 0, start, end, correlation, dispatch_info=info, stream_id={"handle": 3})


def process(**records: Any) -> dict[str, Any]:
    """What one process recorded."""
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
            {"id": {"handle": 30}, "type": 2, "node_id": 2, **MI300X},
            {"id": {"handle": 20}, "type": 2, "node_id": 1, **MI300X},
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


MI300X = {"product_name": "AMD Instinct MI300X", "cu_count": 304}
HOST, GPU = {"handle": 10}, {"handle": 20}


def allocation(operation: int, start: int, address: str, size: int) -> dict[str, Any]:
    more = {"agent_id": GPU, "address": address, "allocation_size": size}
    return record("MEMORY_ALLOCATION", operation, start, start + 10, 5, **more)


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
"""Records of each kind that is read."""
