"""Profiles that ONNX Runtime writes: nodes add up by operator, and runs of the model are steps."""

import json
from collections import Counter
from pathlib import Path

import stepscope as ss
from stepscope.analyze.views import view
from stepscope.trace.model import Kind, Trace

NODES = [("/fc1/MatMul", "MatMul", 450), ("/act/Relu", "Relu", 17), ("/fc2/MatMul", "MatMul", 350)]


def event(category: str, name: str, start: int, length: int, **args: str) -> dict[str, object]:
    place = {"cat": category, "pid": 7, "tid": 7, "dur": length, "ts": start}
    return {**place, "ph": "X", "name": name, "args": args}


def profile(*, runs: int = 3, kernels: bool = False) -> list[dict[str, object]]:
    """Write events as ONNX Runtime 1.32 does, keys in its order."""
    events = [
        event("Session", "model_loading_uri", 3, 8000),
        event("Session", "session_initialization", 8800, 8500),
    ]
    for run in range(runs):
        at = begin = 20_000 + 1000 * run
        for name, operator, length in NODES:
            events.append(event("Node", f"{name}_kernel_time", at, length, op_name=operator, node_index="0"))
            if kernels:
                events.append(event("Kernel", "gemm", at + 5, 500, op_name=operator, stream="7"))
            at += length
        events.append(event("Session", "SequentialExecutor::Execute", begin, at - begin + 10))
        events.append(event("Session", "model_run", begin - 1, at - begin + 20))
    return events


def load(path: Path, events: list[dict[str, object]]) -> Trace:
    (path / "ort.json").write_text(json.dumps(events))
    return ss.load_trace(path / "ort.json", cache=False)


def test_operators_add_up_by_their_type(tmp_path: Path) -> None:
    trace = load(tmp_path, profile())
    expected: Counter[str] = Counter()
    for _, operator, length in NODES:
        expected[operator] += 1000 * length
    rows = {row["name"]: row for row in view("op", trace).as_dict()["rows"]}
    assert {name: rows[name]["host_ns"] for name in expected} == expected
    assert {name: rows[name]["calls"] for name in expected} == {"MatMul": 2, "Relu": 1}
    assert trace.format == "onnxruntime"


def test_runs_are_steps_and_loading_the_model_is_in_none(tmp_path: Path) -> None:
    trace = load(tmp_path, profile())
    assert trace.steps.number.tolist() == [0, 1, 2]
    assert "session_initialization" not in {row["name"] for row in view("op", trace).as_dict()["rows"]}


def test_nodes_are_scopes(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in view("scope", load(tmp_path, profile())).as_dict()["rows"]}
    assert rows["fc1/MatMul"]["host_total_ns"] == 450_000
    assert rows["fc2/MatMul/MatMul"]["host_self_ns"] == 350_000


def test_kernels_are_work_of_a_device(tmp_path: Path) -> None:
    trace = load(tmp_path, profile(kernels=True))
    kernels = trace.of_kind(Kind.KERNEL)
    assert (len(kernels), set(trace.device[kernels].tolist())) == (9, {0})
    assert {trace.lanes[lane].stream for lane in trace.lane[kernels]} == {7}
    assert any("does not record the number of the device" in note for note in trace.notes)


def test_a_trace_with_a_category_of_that_name_alone_is_another(tmp_path: Path) -> None:
    assert (
        load(tmp_path, [event("Node", "a_kernel_time", 0, 5), event("Session", "b", 0, 9)]).format == "chrome"
    )
