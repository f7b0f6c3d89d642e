"""Nsight Systems SQLite exports, with the columns that nsys 2024 writes."""

import re

import pytest
from support.nsys import TABLES, THREAD, export

import stepscope as ss
from stepscope.analyze.advise import Facts
from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.glance import glance
from stepscope.cli.glance import text_of
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.model import Kind


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
    with pytest.raises(TraceError, match="not an export of Nsight Systems: found tables cookies"):
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


def _process(number):
    return 0x0100_0000_0000_0000 | (4000 + number) << 24


def _of_processes(count, *, marked=True, with_process=True):
    """Return tables of processes that each run step 3 of 10 ms, on a device that the others do not use."""
    columns = "start, end, deviceId, streamId, correlationId, demangledName, shortName"
    kernels = [
        # The last process uses the first device, and all count their launches from 100.
        (4_000, 9_990_000, count - 1 - n, 7, 100, 1, 2, *([_process(n)] if with_process else []))
        for n in range(count)
    ]
    return {
        "StringIds": TABLES["StringIds"],
        "NVTX_EVENTS": (
            "start, end, eventType, globalTid, text, textId",
            [
                (1_000, 10_001_000, 59, _process(n) | 5000 + n, "step 3" if marked else "x", None)
                for n in range(count)
            ],
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            "start, end, correlationId, globalTid, nameId",
            [(2_000, 3_000, 100, _process(n) | 5000 + n, 3) for n in range(count)],
        ),
        "CUPTI_ACTIVITY_KIND_KERNEL": (columns + (", globalPid" if with_process else ""), kernels),
        "TARGET_INFO_GPU": ("id, name", [(n, f"GPU {n}") for n in range(count)]),
    }


@pytest.mark.parametrize("marked", [True, False])
def test_processes_of_one_export_are_ranks(tmp_path, marked):
    path = export(tmp_path / "report_rank2.sqlite", _of_processes(4, marked=marked))
    trace = ss.load_trace(path, cache=False)
    assert trace.ranks == (0, 1, 2, 3)
    kernels = trace.named("gemm_kernel(float)")
    assert trace.rank[kernels].tolist() == trace.device[kernels].tolist() == [0, 1, 2, 3]
    # One correlation in four processes joins each with its own.
    assert trace.rank[trace.launch[kernels]].tolist() == [0, 1, 2, 3]
    assert [(device.rank, device.name) for device in trace.devices] == [(n, f"GPU {n}") for n in range(4)]
    assert [lane.process for lane in trace.lanes if lane.device < 0] == [
        f"process {4003 - n}" for n in range(4)
    ]
    (note,) = [note for note in trace.notes if "as a rank" in note]
    assert note.startswith(f"4 processes ran {'steps' if marked else 'devices'}")
    steps = breakdown(trace).steps
    assert [step.rank for step in steps] == [0, 1, 2, 3]
    assert {step.wall_ns for step in steps} == ({10_000_000} if marked else {9_988_000})


def test_a_process_beside_one_that_trains_is_no_rank(tmp_path):
    tables = _of_processes(1)
    columns, rows = tables["NVTX_EVENTS"]
    worker = (1_500, 2_500, 59, _process(9) | 7000, "dataloader", None)
    trace = ss.load_trace(
        export(tmp_path / "a.sqlite", tables | {"NVTX_EVENTS": (columns, [*rows, worker])}), cache=False
    )
    assert (trace.ranks, trace.notes) == ((0,), ())
    assert len(trace.named("dataloader")) == 1


def test_work_without_its_process_is_not_given_to_ranks(tmp_path):
    path = export(tmp_path / "a.sqlite", _of_processes(2, with_process=False))
    assert ss.load_trace(path, cache=False).ranks == (0,)


def test_idleness_is_not_said_where_neither_a_device_nor_operators_were_recorded(tmp_path):
    tables = {name: TABLES[name] for name in ("StringIds", "NVTX_EVENTS")}
    system = ("start, end, globalTid, nameId", [(600, 700, THREAD, 3)])
    trace = ss.load_trace(export(tmp_path / "a.sqlite", tables | {"OSRT_API": system}), cache=False)
    whole = breakdown(trace)
    (step,) = whole.steps
    assert step.parts_ns["idle"] is None
    assert whole.missing["idle"] == "neither a device's work nor operators were recorded"
    assert sum(part for part in step.parts_ns.values() if part is not None) == step.wall_ns == 700
    said = text_of(glance(Facts(trace)))
    assert "not known" in said
    assert not re.search(r"[\d.]+ (?:%|[mµn]?s)\s+idle", said)
    assert "1 step: " in said


def test_idleness_is_said_where_a_device_was_recorded(tmp_path):
    (step,) = breakdown(ss.load_trace(export(tmp_path / "a.sqlite", TABLES), cache=False)).steps
    assert step.parts_ns["idle"] > 0
