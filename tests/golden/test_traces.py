"""Recorded profiles against what plain Python finds in the same files, and what is known of them."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest
from support.recordings import recorded, whole

import stepscope as ss
from stepscope.trace.model import Kind

KINETO = [
    "traces/kineto/v100_rank1of2.json.gz", "traces/kineto/a100_ddp_rank0of2.json.gz",
    "traces/kineto/b200_rank0of8.json.gz", "traces/kineto/resnet50_v100_workers0.json.gz",
    "traces/kineto/resnet50_v100_workers4.json.gz", "traces/critical_path/alexnet.json.gz",
    "traces/critical_path/cuda_event_sync_multi_stream.json.gz", "traces/dlrm_8xv100/rank7.json.gz",
]  # fmt: skip


def load(name, find=recorded):
    return ss.load_trace(find(name), cache=False)


def plain(name):
    """The events as ``json`` reads them."""
    with gzip.open(recorded(name)) as file:
        return json.load(file)


def ns(microseconds):
    return round(microseconds * 1000)


@pytest.mark.parametrize("name", KINETO)
def test_every_event_is_there_with_its_times(name):
    document = plain(name)
    trace = load(name)
    events = [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] != "Trace"]
    assert len(trace) == len(events)
    found = Counter(
        (trace.strings[n], d) for n, d in zip(trace.name.tolist(), trace.duration_ns.tolist(), strict=True)
    )
    assert found == Counter((e["name"], ns(e["dur"])) for e in events)
    first = min(e["ts"] for e in events)
    starts = sorted(trace.start_ns.tolist())
    assert np.allclose(starts, sorted(ns(e["ts"] - first) for e in events), atol=1)
    assert len(trace.memory) == sum(e["name"] == "[memory]" for e in document["traceEvents"])
    assert trace.memory.bytes.sum() == sum(
        e["args"]["Bytes"] for e in document["traceEvents"] if e["name"] == "[memory]"
    )


@pytest.mark.parametrize("name", KINETO)
def test_launches_are_those_of_the_correlations(name):
    events = [e for e in plain(name)["traceEvents"] if e["ph"] == "X"]
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e["cat"].lower() in ("cuda_runtime", "cuda_driver", "runtime")
    }
    trace = load(name)
    work = trace.device_work()
    expected, found = Counter(), Counter()
    for e in events:
        if e["cat"].lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            call = calls.get(e["args"]["correlation"])
            expected[e["name"], call["name"] if call else "", ns(call["dur"]) if call else -1] += 1
    for row in work.tolist():
        launch = int(trace.launch[row])
        duration = int(trace.duration_ns[launch]) if launch >= 0 else -1
        found[trace.name_of(row), trace.name_of(launch) if launch >= 0 else "", duration] += 1
    assert found == expected


def test_nesting_of_a_real_trace_is_what_a_stack_finds():
    trace = load("traces/kineto/a100_ddp_rank0of2.json.gz")
    stack, lane = [], -1
    own = trace.duration_ns.copy()
    for row in range(len(trace)):
        if trace.lane[row] != lane:
            stack, lane = [], trace.lane[row]
        end = trace.start_ns[row] + trace.duration_ns[row]
        while stack and (stack[-1][1] <= trace.start_ns[row] or stack[-1][1] < end):
            stack.pop()
        assert trace.parent[row] == (stack[-1][0] if stack else -1)
        assert trace.depth[row] == len(stack)
        if stack:
            own[stack[-1][0]] -= trace.duration_ns[row]
        stack.append((row, end))
    assert np.array_equal(own, trace.self_ns)


def test_v100():
    trace = load("traces/kineto/v100_rank1of2.json.gz", whole)
    assert (trace.ranks, trace.sources[0].world_size) == ((1,), 2)
    assert (
        len(trace) + trace.dropped["launch_arrows"] + len(trace.memory) + len(trace.marks) + 38 + 1 == 216_092
    )
    assert len(trace.of_kind(Kind.COLLECTIVE)) == 2020
    assert len(trace.memory) == 28_010
    assert trace.steps.number.tolist() == [2, 3, 4, 5, 6]
    assert (trace.memory.allocated_bytes[trace.memory.device == 1] > 10**9).all()
    assert trace.nbytes / len(trace) < 200


def test_a100():
    """Launch arrows end at every runtime call; correlations tell the truth."""
    trace = load("traces/kineto/a100_ddp_rank0of2.json.gz", whole)
    assert trace.dropped == {"launch_arrows": 8652 + 3862}
    work = trace.device_work()
    assert (len(work), int((trace.launch[work] >= 0).sum())) == (2700 + 960 + 114, 3774)
    collectives = trace.collectives
    assert (collectives.bytes > 0).all()
    assert Counter(trace.strings[int(n)] for n in collectives.operation) == {"all_reduce": 15, "broadcast": 6}
    assert trace.clock == "unix"
    assert trace.resolution_ns == 1
    backward = trace.named("autograd::engine::evaluate_function: AddmmBackward0")
    assert {trace.name_of(int(n)) for n in trace.forward[backward]} == {"aten::addmm"}


def test_b200():
    trace = load("traces/kineto/b200_rank0of8.json.gz", whole)
    assert len(trace.process_groups) == 15
    assert "71 process groups were announced, 15 are described" in trace.notes
    assert {"modules", "stacks", "shapes", "collectives"} <= trace.recorded
    assert "steps" in trace.not_recorded
    assert trace.scopes.depths().max() >= 3
    assert len([text for text in trace.scopes.texts() if text.endswith("OAIAttention_0")]) == 1
    assert (trace.scope[trace.of_kind(Kind.KERNEL)] >= 0).mean() > 0.9


@pytest.mark.parametrize(("workers", "low", "high"), [(0, 0.25, 0.45), (4, 0.0, 0.02)])
def test_resnet_waits_for_data_only_without_workers(workers, low, high):
    trace = load(f"traces/kineto/resnet50_v100_workers{workers}.json.gz")
    loading = trace.of_kind(Kind.DATA_LOADING)
    steps = (trace.steps.end_ns - trace.steps.start_ns).sum()
    assert low <= trace.duration_ns[loading].sum() / steps <= high
    assert (trace.stack[trace.named("aten::conv2d")] >= 0).all()


def test_dlrm_collectives_end_together_on_all_ranks():
    trace = load("traces/dlrm_8xv100")
    assert trace.ranks == tuple(range(8))
    rows = trace.collectives.row
    start = np.stack([trace.start_ns[rows][trace.rank[rows] == rank] for rank in range(8)])
    end = np.stack([trace.end_ns[rows][trace.rank[rows] == rank] for rank in range(8)])
    assert start.shape == (8, 8)
    assert np.ptp(np.sort(end, axis=1), axis=0).max() <= 7_000
    assert np.ptp(np.sort(start, axis=1), axis=0).max() == 7_624_000
    names = [trace.strings[int(n)] for n in trace.collectives.operation]
    assert Counter(names) == {"all_to_all": 40, "all_reduce": 24}
    assert trace.notes == ()


def test_critical_path_traces_say_what_waits_for_what():
    trace = load("traces/critical_path/alexnet.json.gz")
    assert Counter(trace.strings[int(n)] for n in trace.syncs.what)["Stream Sync"] > 0
    assert (trace.syncs.wait_correlation >= 0).sum() == 20


def test_xplane_is_what_jax_reads():
    profiler = pytest.importorskip("jax.profiler")
    path = recorded("traces/xplane/jax_mi300_8dev.xplane.pb")
    theirs = [
        (event.name, round(event.start_ns), round(event.duration_ns))
        for plane in profiler.ProfileData.from_file(str(path)).planes
        for line in plane.lines
        for event in line.events
        if event.name not in ("MemoryAllocation", "MemoryDeallocation")
    ]
    trace = ss.load_trace(path, cache=False)
    offset = trace.origin_ns - 1771595639214724894  # the session's start
    ours = [
        (trace.name_of(row), int(trace.start_ns[row]) + offset, int(trace.duration_ns[row]))
        for row in range(len(trace))
    ]
    differences = [
        (a[0] == b[0], abs(a[1] - b[1]), abs(a[2] - b[2]))
        for a, b in zip(sorted(ours), sorted(theirs), strict=True)
    ]
    assert all(same for same, _, _ in differences)
    assert max(max(start, length) for _, start, length in differences) <= 1
    assert [device.index for device in trace.devices] == list(range(8))
    assert {device.name for device in trace.devices} == {"AMD"}
    assert (trace.launch[trace.device_work()] >= 0).mean() > 0.9
    assert len(trace.memory) == 230


def test_instructions_of_xla_are_those_of_xprof():
    """Device time, operator and source line of each, as ``hlo_stats`` of xprof 2.24 gives them."""
    trace = load("traces/xplane/jax_mi300_8dev.xplane.pb")
    table = trace.instructions
    device = table.row[trace.device[table.row] >= 0]
    found = {}
    for row, name in zip(table.row.tolist(), table.instruction.tolist(), strict=True):
        if row in set(device.tolist()):
            events, time = found.get(trace.strings[name], (0, 0))
            found[trace.strings[name]] = events + 1, time + int(trace.duration_ns[row])
    assert found == {
        "input_transpose_fusion": (40, 14_344_140),
        "cudnn-conv.1": (79, 12_531_616),
        "input_transpose_fusion.1": (39, 481_400),
        "loop_transpose_fusion": (40, 193_520),
    }
    conv = np.flatnonzero(table.instruction == trace.strings.find("cudnn-conv.1"))
    told = {
        key: trace.strings[int(getattr(table, key)[conv[0]])]
        for key in ("label", "opcode", "framework", "line")
    }
    assert told == {
        "label": "jit_forward_3d_conv/cudnn-conv.1",
        "opcode": "custom-call:__cudnn$convForward",
        "framework": "jit(forward_3d_conv)/conv_general_dilated",
        "line": "/workspace/traces/generate_conv_trace.py(23): forward_3d_conv",
    }
    # An execution runs two kernels, Im3d2Col and a matrix product; the first of one has no name of its own.
    assert int(table.calls[conv].sum()) == 40
    assert set(trace.flops[table.row[conv]].tolist()) == {-1, 2 * 5120 * 34 * 31 * 53 * 16 * 1 * 2 * 2}


@pytest.mark.parametrize("scenario", ["gpu_error_1st", "lock_gil_1st"])
def test_flight_recorders(scenario):
    trace = load(f"traces/flight_recorder/{scenario}")
    assert trace.ranks == tuple(range(16))
    assert {source.world_size for source in trace.sources} == {16}
    assert (trace.collectives.state == 1).all()  # all were still scheduled when the job died
    operations = {trace.strings[int(n)] for n in trace.collectives.operation}
    assert operations <= {
        "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send", "recv", "broadcast",
    }  # fmt: skip
    assert (trace.bytes[trace.collectives.row] > 0).all()
    silent = set(trace.ranks) - set(trace.rank.tolist())
    assert silent == ({9, 14} if scenario == "lock_gil_1st" else set())  # those that held the GIL


def events_of(trace, step):
    rows = np.flatnonzero(trace.step == step)
    start = trace.origin_ns + trace.start_ns[rows]
    return sorted(
        (trace.name_of(row), int(begin) // 1000, int(trace.duration_ns[row]) // 1000)
        for row, begin in zip(rows.tolist(), start.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("steps", "folder", "metadata"),
    [
        ((400, 800, 1200), "tf_estimator/single/timeline-{}.json.gz", "tf_estimator/single"),
        ((0, 1), "tfprof/convnet/timeline-{}.json.gz", "tfprof/convnet/run_metadata_step{}.pb"),
        ((0, 1), "tfprof/wide_deep/timeline-{}.json.gz", "tfprof/wide_deep/run_metadata_step{}.pb"),
    ],
)
def test_a_timeline_and_its_run_metadata_are_the_same_step(steps, folder, metadata):
    for step in steps:
        path = recorded(metadata.format(step))
        path = next(path.glob("events.out.*")) if path.is_dir() else path
        stats = ss.load_trace(path, cache=False)
        drawn = load(folder.format(step))
        assert drawn.steps.number.tolist() == [step]
        ours, theirs = events_of(drawn, step), events_of(stats, step)
        assert [event[:2] for event in ours] == [event[:2] for event in theirs]
        # RunMetadata holds nanoseconds, the timeline microseconds that TensorFlow rounded by itself.
        assert max(abs(a[2] - b[2]) for a, b in zip(ours, theirs, strict=True)) <= 1


def test_the_estimators_cluster():
    trace = load("tf_estimator/distributed")
    assert trace.ranks == (0, 1, 2, 3, 4)  # the chief and four workers
    assert len(trace.steps) == 15
    received = trace.named("RecvTensor")
    assert set(trace.kind[received].tolist()) == {Kind.SEND_RECV}
    assert set(trace.rank[received].tolist()) == {0, 1, 2, 3, 4}
    tasks = {lane.process for lane in trace.lanes}
    assert {f"/job:ps/replica:0/task:{task}/device:CPU:0" for task in (0, 1)} <= tasks
