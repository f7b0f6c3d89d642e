"""ExecutionTraces of the schemas that PyTorch has written."""

import json

import pytest

import stepscope as ss
from stepscope.errors import EmptyTraceError, TraceError


def attrs(**values):
    return [{"name": name, "type": "x", "value": value} for name, value in values.items()]


def node(number, name, above, **more):
    return {
        "id": number,
        "name": name,
        "ctrl_deps": above,
        "inputs": {"values": [], "shapes": [], "types": []},
        "attrs": attrs(rf_id=number * 10, seq_id=-1, tid=1, fw_tid=0),
        **more,
    }


NEW = {
    "schema": "1.1.1-chakra.0.0.4",
    "pid": 7,
    "nodes": [
        node(
            5,
            "aten::mm",
            4,
            inputs={"values": [], "shapes": [[4, 2], [2, 3]], "types": ["Tensor(float)"] * 2},
            attrs=attrs(rf_id=50, seq_id=9, tid=1, fw_tid=0),
        ),
        node(1, "[pytorch|profiler|execution_trace|process]", 1),
        node(2, "[pytorch|profiler|execution_trace|thread]", 1),
        node(4, "aten::linear", 2),
        node(6, "aten::relu", 2),
        node(8, "MmBackward", 3, attrs=attrs(rf_id=80, seq_id=9, tid=2, fw_tid=1)),
        node(
            3,
            "[pytorch|profiler|execution_trace|thread]",
            1,
            attrs=attrs(rf_id=30, seq_id=-1, tid=2, fw_tid=0),
        ),
    ],
}


def load(tmp_path, content):
    path = tmp_path / "et.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return ss.load_trace(path, cache=False)


def test_nodes_become_events_in_order(tmp_path):
    trace = load(tmp_path, NEW)
    shown = [(trace.name_of(r), int(trace.parent[r])) for r in range(len(trace))]
    assert shown == [
        ("[pytorch|profiler|execution_trace|process]", -1),
        ("[pytorch|profiler|execution_trace|thread]", 0),
        ("aten::linear", 1),
        ("aten::mm", 2),
        ("aten::relu", 1),
        ("[pytorch|profiler|execution_trace|thread]", -1),
        ("MmBackward", 5),
    ]
    assert trace.operators.record_id.tolist() == [10, 20, 40, 50, 60, 30, 80]
    assert json.loads(trace.strings[int(trace.operators.shapes[3])]) == [[4, 2], [2, 3]]
    assert trace.name_of(int(trace.forward[6])) == "aten::mm"


def test_times_are_not_made_up(tmp_path):
    trace = load(tmp_path, NEW)
    assert trace.clock == "order"
    assert trace.duration_ns.tolist() == [0] * 7
    assert trace.self_ns.tolist() == [0] * 7
    assert "timeline" not in trace.recorded
    with pytest.raises(EmptyTraceError, match="cannot tell what is slow"):
        trace.require("timeline", "what is slow")


def test_the_first_schema(tmp_path):
    old = {
        "schema": "1.0.1",
        "pid": 7,
        "nodes": [
            {
                "name": "aten::add",
                "id": 2,
                "rf_id": 3,
                "parent": 1,
                "seq_id": 4,
                "tid": 1,
                "fw_tid": 0,
                "inputs": [1],
                "input_shapes": [[4]],
                "input_types": ["Tensor(float)"],
            }
        ],
    }
    trace = load(tmp_path, old)
    assert trace.strings[int(trace.operators.shapes[0])] == "[[4]]"
    assert trace.operators.sequence.tolist() == [4]


def test_bad_input(tmp_path):
    with pytest.raises(TraceError, match="not an ExecutionTrace, or a cut one"):
        load(tmp_path, json.dumps(NEW)[:-40])
    with pytest.raises(EmptyTraceError, match="holds no nodes"):
        load(tmp_path, {**NEW, "nodes": []})
    with pytest.raises(TraceError, match="not an ExecutionTrace"):
        load(tmp_path, {**NEW, "nodes": [{"name": 5}]})


def test_a_loop_of_callers_ends(tmp_path):
    trace = load(tmp_path, {**NEW, "nodes": [node(1, "a", 2), node(2, "b", 1), node(3, "c", 9)]})
    assert [trace.name_of(row) for row in range(len(trace))] == ["c"]
    assert trace.dropped == {"unreachable_nodes": 2}
