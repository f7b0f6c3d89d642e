"""Chrome traces of any writer, and TensorFlow's timelines."""

import json

import pytest

import stepscope as ss
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.model import Kind


@pytest.fixture
def load(tmp_path):
    def write(events, name="trace.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"traceEvents": events}))
        return ss.load_trace(path, cache=False)

    return write


def event(ph, name, ts, tid=1, **more):
    return {"ph": ph, "name": name, "ts": ts, "pid": 1, "tid": tid, **more}


def shown(trace):
    return [(trace.name_of(r), int(trace.start_ns[r]), int(trace.duration_ns[r])) for r in range(len(trace))]


def test_begin_and_end_events_are_paired_like_brackets(load):
    trace = load(
        [event("B", "a", 1), event("B", "b", 2), event("E", "", 3), event("B", "c", 4), event("E", "", 5),
         event("E", "", 6), event("B", "d", 2, tid=2), event("E", "", 9, tid=2)]
    )  # fmt: skip
    assert shown(trace) == [("a", 0, 5000), ("b", 1000, 1000), ("c", 3000, 1000), ("d", 1000, 7000)]
    assert trace.parent.tolist() == [-1, 0, 0, -1]
    assert trace.dropped == {}


def test_loose_begins_and_ends_are_counted(load):
    trace = load(
        [event("E", "", 1), event("B", "a", 2), event("E", "", 3), event("E", "", 4), event("B", "b", 5)]
    )
    assert shown(trace) == [("a", 0, 1000), ("b", 3000, 0)]
    assert trace.dropped == {"ends_without_begin": 2, "begins_without_end": 1}


def test_asynchronous_events_are_paired_by_id(load):
    trace = load(
        [event("b", "request", 1, id=1, cat="net"), event("b", "request", 2, id=2, cat="net"),
         event("e", "request", 5, id=1, cat="net"), event("e", "request", 9, id="2", cat="net")]
    )  # fmt: skip
    assert shown(trace) == [("request", 0, 4000), ("request", 1000, 7000)]
    assert trace.lanes[0].thread.endswith("(async)")


def test_names_order_counters_marks_and_flows(load):
    trace = load(
        [
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "server"}},
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "io"}},
            {"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": 2, "args": {"sort_index": -1}},
            event("X", "late 'quoted' é", 5, dur=2),
            event("X", "first", 1, tid=2, dur=1),
            event("C", "queue", 2, args={"length": 3, "value": 4.5, "text": "x"}),
            event("i", "mark", 3, s="t"),
            event("I", "elsewhere", 4, tid=99),
            event("s", "go", 1.5, tid=2, id=7),
            event("t", "go", 5, id=7),
        ]
    )
    assert [(lane.process, lane.thread) for lane in trace.lanes] == [("server", "io"), ("server", "thread 1")]
    assert trace.name_of(1) == "late 'quoted' é"
    assert [trace.strings[int(n)] for n in trace.counters.name] == ["queue: length", "queue"]
    assert (trace.counters.value.tolist(), trace.counters.time_ns.tolist()) == ([3.0, 4.5], [1000, 1000])
    assert [
        (trace.strings[int(n)], int(lane)) for n, lane in zip(trace.marks.name, trace.marks.lane, strict=True)
    ] == [
        ("elsewhere", -1),
        ("mark", 1),
    ]
    assert (trace.flows.source.tolist(), trace.flows.target.tolist()) == ([0], [1])
    assert trace.format == "chrome"
    assert set(trace.kind.tolist()) == {Kind.OTHER}


def test_escapes_in_names_are_resolved(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "X", "name": "a\\u00e9\\n\\"b\\"", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]')
    assert ss.load_trace(path, cache=False).name_of(0) == 'aé\n"b"'


def test_a_trace_without_events(load):
    with pytest.raises(EmptyTraceError, match="holds no events: 0 entries"):
        load([])
    with pytest.raises(EmptyTraceError, match="1 entry, none with a duration"):
        load([{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}])


@pytest.mark.parametrize(
    "text", ["[[1, 2]], 3]}", "[" * 300_000, "[[[[]]]]}", '["X"]}', "[null]}", "[1e999]}"]
)
def test_what_is_no_event_is_not_taken_for_an_empty_trace(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": ' + text)
    with pytest.raises(TraceError, match="expected objects in traceEvents, found something else") as raised:
        ss.load_trace(path, cache=False)
    assert not isinstance(raised.value, EmptyTraceError)


def test_viztracer_style(tmp_path):
    """Metadata after the events, a large table of files beside them."""
    path = tmp_path / "result.json"
    top = {
        "traceEvents": [
            {"ph": "X", "cat": "fee", "name": "f (a.py:1)", "ts": 1.5, "dur": 2, "pid": 1, "tid": 1}
        ],
        "viztracer_metadata": {"version": "1"},
        "file_info": {"files": {"a.py": ["x" * 1000, 3]}},
    }
    path.write_text(json.dumps(top))
    trace = ss.load_trace(path, cache=False)
    assert shown(trace) == [("f (a.py:1)", 0, 2000)]
    assert trace.sources[0].facts["viztracer_metadata"] == {"version": "1"}


DEVICE = "/job:worker/replica:0/task:0/device:"


def compute(pid, name, op, ts, dur, tid=0):
    return {
        "ph": "X",
        "cat": "Op",
        "name": op,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {"name": name, "op": op},
    }


def tensor(ph, ts, **more):
    return {"ph": ph, "cat": "Tensor", "name": "net/MatMul", "pid": 2, "tid": 0, "ts": ts, "id": 5, **more}


def timeline():
    shape = "shape {\n  dim {\n    size: 100\n  }\n  dim {\n    size: -1\n  }\n  dim {\n  }\n}\n"
    described = f"dtype: DT_FLOAT\n{shape}allocation_description {{\n  requested_bytes: 400\n  ptr: 77\n}}\n"
    names = [
        "Allocators",
        f"{DEVICE}CPU:0 Compute",
        f"{DEVICE}CPU:0 Tensors",
        "/device:GPU:0/stream:all Compute",
    ]
    return [
        *(
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
            for pid, name in enumerate(names)
        ),
        compute(1, "net/MatMul", "MatMul", 1_700_000_000_000_010, 5),
        compute(1, "net/grad/MatMul_1", "MatMul", 1_700_000_000_000_016, 5, tid=1),
        compute(1, "RecvTensor", "RecvTensor", 1_700_000_000_000_020, 9, tid=2),
        compute(1, "it/IteratorGetNext", "IteratorGetNext", 1_700_000_000_000_030, 2),
        compute(3, "net/MatMul", "MatMul", 1_700_000_000_000_013, 4),
        tensor("N", 1_700_000_000_000_011),
        tensor("O", 1_700_000_000_000_012, args={"snapshot": {"tensor_description": described}}),
        tensor("D", 1_700_000_000_000_040),
        {
            "ph": "C",
            "cat": "Memory",
            "name": "cpu",
            "pid": 0,
            "tid": 0,
            "ts": 1_700_000_000_000_011,
            "args": {"cpu": 400},
        },
    ]


def test_tensorflow_timelines(load):
    trace = load(timeline(), "timeline-400.json")
    assert trace.format == "timeline"
    assert trace.steps.number.tolist() == [400]
    assert set(trace.step.tolist()) == {400}
    found = {
        (trace.scopes.text(int(trace.scope[r])), Kind(trace.kind[r]).name, int(trace.device[r]))
        for r in range(5)
    }
    assert found == {
        ("net/MatMul", "HOST_OP", -1),
        ("net/grad/MatMul_1", "HOST_OP", -1),
        ("RecvTensor", "SEND_RECV", -1),
        ("it/IteratorGetNext", "DATA_LOADING", -1),
        ("net/MatMul", "KERNEL", 0),
    }
    assert (trace.memory.bytes.tolist(), trace.memory.time_ns.tolist()) == ([400, -400], [1000, 30_000])
    assert trace.memory.address.tolist() == [77, 77]
    assert trace.operators.row.tolist() == trace.memory.row[:1].tolist()
    assert trace.strings[int(trace.operators.outputs[0])] == '["float[100,?,0]"]'
    assert "shapes of outputs" in trace.not_recorded["shapes"]
    assert trace.scopes.text(int(trace.scope[trace.memory.row[0]])) == "net/MatMul"
    assert trace.counters.value.tolist() == [400.0]
    assert (trace.clock, trace.resolution_ns) == ("unix", 1000)


def test_a_timeline_of_a_gpu_counts_each_kernel_once(load):
    devices = ["/device:GPU:0/stream:all", "/device:GPU:0/stream:13", "/device:GPU:0/memcpy"]
    start = 1_700_000_000_000_000
    kernels = [("a", start, 5), ("b", start + 5, 7)]
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{name} Compute"}}
        for pid, name in enumerate(devices)
    ]
    events += [compute(pid, name, "Conv2D", at, length) for pid in (0, 1) for name, at, length in kernels]
    events += [compute(pid, "edge_1", "MEMCPYHtoD", start + 12, 3) for pid in (1, 2)]
    trace = load(events, "timeline-1.json")
    assert [trace.scopes.text(int(number)) for number in trace.scope] == ["a", "b", "edge_1"]
    assert [Kind(kind).name for kind in trace.kind] == ["KERNEL", "KERNEL", "MEMCPY"]
    assert [(lane.device, lane.stream) for lane in trace.lanes] == [(0, 13)]


def test_a_timeline_whose_name_says_no_step(load):
    trace = load(timeline(), "whatever.json")
    assert trace.steps.number.tolist() == [0]
    assert "does not say its step" in trace.notes[0]


def test_nothing_but_loose_ends(load):
    trace = load([event("E", "", 1), event("E", "", 2), event("i", "mark", 3)])
    assert len(trace) == 0
    assert trace.dropped == {"ends_without_begin": 2}
    assert len(trace.marks) == 1
