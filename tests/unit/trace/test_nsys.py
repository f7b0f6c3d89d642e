"""Nsight Systems SQLite exports, with the columns that nsys 2024 writes."""

import sqlite3
from contextlib import closing

import pytest

import stepscope as ss
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.model import Kind

THREAD = 0x0100_0000_0000_0000 | 4711 << 24 | 4712
TABLES = {
    "StringIds": (
        "id, value",
        [
            (1, "gemm_kernel(float)"),
            (2, "gemm"),
            (3, "cudaLaunchKernel_v7000"),
            (4, "iteration 3"),
            (5, "ncclDevKernel_AllReduce_Sum_f32"),
            (6, "dataloader"),
        ],
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start, end, deviceId, streamId, correlationId, demangledName, shortName, gridX, gridY, gridZ, "
        "blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory",
        [
            (500, 900, 0, 7, 21, 1, 2, 4, 2, 1, 128, 1, 1, 32, 16, 32),
            (950, 990, 0, 7, 22, 5, 5, 1, 1, 1, 1, 1, 1, 8, 0, 0),
        ],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start, end, deviceId, streamId, correlationId, bytes, copyKind",
        [(300, 350, 0, 7, 20, 64, 1)],
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start, end, globalTid, correlationId, nameId",
        [(200, 220, THREAD, 21, 3)],
    ),
    "NVTX_EVENTS": (
        "start, end, eventType, globalTid, text, textId",
        [
            (100, 800, 59, THREAD, None, 4),
            (110, 120, 59, THREAD, "dataloader", None),
            (130, None, 34, THREAD, "mark", None),
        ],
    ),
    "TARGET_INFO_GPU": (
        "id, name, totalMemory, smCount, computeMajor, computeMinor",
        [(0, "NVIDIA H100", 80, 132, 9, 0)],
    ),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(1_700_000_000_000_000_000,)]),
}


def export(path, tables):
    with closing(sqlite3.connect(path)) as database:
        for name, (columns, rows) in tables.items():
            database.execute(f"create table {name} ({columns})")
            for row in rows:
                database.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)
        database.commit()
    return path


def test_export(tmp_path):
    trace = ss.load_trace(export(tmp_path / "report.sqlite", TABLES), cache=False)
    shown = [
        (trace.name_of(r), Kind(trace.kind[r]).name, int(trace.start_ns[r]), int(trace.duration_ns[r]))
        for r in range(len(trace))
    ]
    assert shown == [
        ("iteration 3", "STEP", 0, 700),
        ("dataloader", "DATA_LOADING", 10, 10),
        ("cudaLaunchKernel", "RUNTIME_CALL", 100, 20),
        ("Memcpy HtoD", "MEMCPY", 200, 50),
        ("gemm_kernel(float)", "KERNEL", 400, 400),
        ("ncclDevKernel_AllReduce_Sum_f32", "COLLECTIVE", 850, 40),
    ]
    assert trace.launch.tolist() == [-1, -1, -1, -1, 2, -1]
    assert trace.steps.number.tolist() == [3]
    assert (trace.kernels.grid.tolist(), trace.kernels.shared_bytes.tolist()) == ([8, 1], [48, 0])
    assert (trace.bytes[3], trace.origin_ns, trace.clock) == (64, 1_700_000_000_000_000_100, "unix")
    assert [(lane.process, lane.thread) for lane in trace.lanes] == [
        ("process 4711", "thread 4712"),
        ("GPU 0", "stream 7"),
    ]
    assert (trace.devices[0].name, trace.devices[0].multiprocessors) == ("NVIDIA H100", 132)


def test_what_is_no_export(tmp_path):
    with pytest.raises(TraceError, match="no export of Nsight Systems: found tables cookies"):
        ss.load_trace(export(tmp_path / "a.sqlite", {"cookies": ("a", [(1,)])}), cache=False)
    path = export(tmp_path / "b.sqlite", TABLES)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(TraceError, match="SQLite file is damaged"):
        ss.load_trace(path, cache=False)
    with pytest.raises(EmptyTraceError, match="no events"):
        ss.load_trace(export(tmp_path / "c.sqlite", {"NVTX_EVENTS": ("start, end", [])}), cache=False)


def test_calls_of_the_operating_system_are_events(tmp_path):
    texts = ("id, value", [*TABLES["StringIds"][1], (7, "pthread_cond_wait")])
    system = ("start, end, globalTid, nameId", [(600, 700, THREAD, 7)])
    trace = ss.load_trace(
        export(tmp_path / "report.sqlite", TABLES | {"StringIds": texts, "OSRT_API": system}), cache=False
    )
    (row,) = trace.named("pthread_cond_wait")
    assert (Kind(trace.kind[row]), trace.duration_ns[row], trace.step[row]) == (Kind.OTHER, 100, 3)
    assert trace.parent[row] >= 0


def test_what_was_not_recorded_counts_in_no_sum(tmp_path):
    trace = ss.load_trace(export(tmp_path / "report.sqlite", TABLES), cache=False)
    kernels = trace.tables()["kernels"]
    assert kernels["occupancy"].null_count() == len(kernels)
    collectives = trace.tables()["collectives"]
    if len(collectives):
        assert collectives["group_size"].sum() == 0
        assert collectives["group_size"].null_count() == len(collectives)
    assert kernels["registers"].to_list() == [32, 8]
